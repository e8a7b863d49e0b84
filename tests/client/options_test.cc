#include "client/options.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hapmoe::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

absl::StatusOr<Options> Parse(const std::string& line) {
  const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
  return ParseOptions(words);
}

TEST(OptionsTest, DefaultsHoldWhereNothingIsSaid) {
  const absl::StatusOr<Options> options = Parse("plan");
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->command, Command::kPlan);
  EXPECT_FALSE(options->server.has_value());
  EXPECT_EQ(options->deadline, absl::Seconds(30));
  EXPECT_EQ(options->output, OutputFormat::kText);
  EXPECT_FALSE(options->rest.has_value());
  EXPECT_EQ(options->constraints.ByteSizeLong(), 0u);
}

TEST(OptionsTest, EveryConstraintReachesTheMessage) {
  const absl::StatusOr<Options> options = Parse(
      "plan --tp 1,2 --cp=1 --ep 8 --etp 1 --dp 4 --pp 2,4,8 --micro-batch-size 1,2 --headroom 0.1 "
      "--time-budget 1500ms --allow-idle --keep-recompute --engine flagscale --vp 1,2 "
      "--dispatcher allgather,flex --prune-load-balance 0.5 --prune-cross-type=0.1");
  ASSERT_TRUE(options.ok()) << options.status();
  const v1::Constraints& constraints = options->constraints;
  EXPECT_THAT(constraints.tp(), ElementsAre(1, 2));
  EXPECT_THAT(constraints.cp(), ElementsAre(1));
  EXPECT_THAT(constraints.ep(), ElementsAre(8));
  EXPECT_THAT(constraints.etp(), ElementsAre(1));
  EXPECT_THAT(constraints.dp(), ElementsAre(4));
  EXPECT_THAT(constraints.pp(), ElementsAre(2, 4, 8));
  EXPECT_THAT(constraints.micro_batch_size(), ElementsAre(1, 2));
  EXPECT_EQ(constraints.memory_headroom_ratio(), 0.1);
  EXPECT_EQ(constraints.time_budget().seconds(), 1);
  EXPECT_EQ(constraints.time_budget().nanos(), 500'000'000);
  EXPECT_TRUE(constraints.allow_idle_accelerators());
  EXPECT_TRUE(constraints.keep_recompute());
  EXPECT_EQ(constraints.engine(), "flagscale");
  EXPECT_THAT(constraints.virtual_stages(), ElementsAre(1, 2));
  EXPECT_THAT(constraints.token_dispatcher(), ElementsAre("allgather", "flex"));
  EXPECT_EQ(constraints.prunings().load_balance_ratio(), 0.5);
  EXPECT_EQ(constraints.prunings().cross_type_ratio(), 0.1);
}

TEST(OptionsTest, ObjectiveAndItsLimitsReachTheMessage) {
  EXPECT_FALSE(Parse("plan")->objective.has_value());
  const absl::StatusOr<Options> options =
      Parse("plan --objective fewest --deadline-seconds 2.5 --throughput=1e5");
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->objective->kind(), v1::Objective::KIND_FEWEST);
  EXPECT_EQ(options->objective->deadline_seconds(), 2.5);
  EXPECT_EQ(options->objective->tokens_per_second(), 1e5);
  EXPECT_EQ(Parse("plan --objective price")->objective->kind(), v1::Objective::KIND_PRICE);
  EXPECT_EQ(Parse("plan --objective time")->objective->kind(), v1::Objective::KIND_TIME);
  // Not silently dropped: the server says that time takes no limits.
  EXPECT_TRUE(Parse("plan --throughput 5")->objective->has_tokens_per_second());
}

TEST(OptionsTest, SizesOfPoolsAreKeptInOrder) {
  const absl::StatusOr<Options> options =
      Parse("frontier --sizes fast=0,2,4 --sizes=slow=1 --memory-steps 3 --tp 2");
  ASSERT_TRUE(options.ok()) << options.status();
  ASSERT_EQ(options->sizes.size(), 2u);
  EXPECT_EQ(options->sizes[0].pool(), "fast");
  EXPECT_THAT(options->sizes[0].nodes(), ElementsAre(0, 2, 4));
  EXPECT_EQ(options->sizes[1].pool(), "slow");
  EXPECT_THAT(options->sizes[1].nodes(), ElementsAre(1));
  EXPECT_EQ(options->memory_steps, 3);
}

TEST(OptionsTest, ObjectivesAndSizesThatMeanNothingAreRefused) {
  for (const char* line :
       {"plan --objective speed", "plan --deadline-seconds 0", "plan --deadline-seconds inf",
        "plan --throughput many", "frontier --sizes fast",
        "frontier --sizes fast=", "frontier --sizes =1", "frontier --sizes fast=-1",
        "frontier --memory-steps 0", "frontier --objective price", "explain --objective price",
        "evaluate --objective time", "plan --sizes a=1", "frontier --out x"}) {
    EXPECT_FALSE(Parse(line).ok()) << line;
  }
}

TEST(OptionsTest, HeadroomZeroIsNotTheDefault) {
  const absl::StatusOr<Options> options = Parse("plan --headroom 0");
  ASSERT_TRUE(options.ok());
  EXPECT_TRUE(options->constraints.has_memory_headroom_ratio());
}

TEST(OptionsTest, PruningByZeroIsNotNoPruning) {
  const absl::StatusOr<Options> options = Parse("frontier --prune-load-balance 0");
  ASSERT_TRUE(options.ok());
  EXPECT_TRUE(options->constraints.prunings().has_load_balance_ratio());
  EXPECT_FALSE(options->constraints.prunings().has_cross_type_ratio());
}

TEST(OptionsTest, TheLastOfTwoCounts) {
  const absl::StatusOr<Options> options = Parse("plan --tp 1,2 --tp 4");
  ASSERT_TRUE(options.ok());
  EXPECT_THAT(options->constraints.tp(), ElementsAre(4));
}

TEST(OptionsTest, WordsBehindTheDashesAreTheJobs) {
  const absl::StatusOr<Options> options =
      Parse("plan -o json --cluster c.yaml -- --tp 3 -- --help");
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->output, OutputFormat::kJson);
  ASSERT_TRUE(options->rest.has_value());
  EXPECT_THAT(*options->rest, ElementsAre("--tp", "3", "--", "--help"));
  EXPECT_THAT(options->constraints.tp(), IsEmpty());
  EXPECT_FALSE(options->help);
}

TEST(OptionsTest, WordsOfACommandAreKept) {
  const absl::StatusOr<Options> options = Parse("profiles put - a.json --server h:1");
  ASSERT_TRUE(options.ok());
  EXPECT_THAT(options->words, ElementsAre("put", "-", "a.json"));
  EXPECT_EQ(options->server, "h:1");
}

TEST(OptionsTest, AnAttachedValueMayLookLikeAnOption) {
  const absl::StatusOr<Options> options = Parse("plan --entry=--odd.py");
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->entry, "--odd.py");
}

TEST(OptionsTest, FaultsAreExplained) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "a command is missing"},
      {"pln", "there is no command pln; did you mean plan?"},
      {"plan --dedline 3", "plan has no option --dedline; did you mean --deadline?"},
      {"info --tp 3", "info has no option --tp"},
      {"plan --world-size 3", "plan has no option --world-size"},
      {"plan -x", "plan has no option -x"},
      {"plan --tp", "--tp needs a value (LIST)"},
      {"plan --tp --cp 1", "--tp needs a value (LIST)"},
      {"plan --progress=yes", "--progress takes no value"},
      {"plan --tp 1,,2", "--tp must be whole numbers above 0, separated by commas, not \"1,,2\""},
      {"plan --tp 0", "--tp must be whole numbers above 0"},
      {"plan --tp 99999999999", "--tp must be whole numbers above 0"},
      {"plan --headroom 1", "--headroom must be at least 0 and below 1"},
      {"plan --headroom nan", "--headroom must be at least 0 and below 1"},
      {"plan --dispatcher best",
       "--dispatcher must be of allgather, alltoall and flex, with commas"},
      {"plan --vp 0", "--vp must be whole numbers above 0"},
      {"plan --prune-load-balance 10.5", "--prune-load-balance must be from 0 to 10"},
      {"plan --prune-load-balance nan", "--prune-load-balance must be from 0 to 10"},
      {"plan --prune-cross-type 0", "--prune-cross-type must be a number above 0, not \"0\""},
      {"plan --prune-cross-type inf", "--prune-cross-type must be a number above 0"},
      {"evaluate --vp 2", "evaluate has no option --vp"},
      {"plan --deadline soon", "--deadline must be seconds, or a time such as 500ms"},
      {"plan --deadline 0", "--deadline must be above 0 and at most 24h, not \"0\""},
      {"plan --cluster=", "--cluster must not be empty"},
      {"plan -o yaml", "-o must be text or json, not \"yaml\""},
      {"plan --env X", "--env must be NAME=VALUE"},
      {"plan --launch 0", "--launch must be a whole number above 0"},
      {"evaluate --world-size x", "--world-size must be a whole number above 0"},
  };
  for (const auto& [line, what] : cases) {
    SCOPED_TRACE(line);
    const absl::StatusOr<Options> options = Parse(line);
    ASSERT_FALSE(options.ok());
    EXPECT_THAT(std::string(options.status().message()), HasSubstr(what));
  }
}

TEST(OptionsTest, Durations) {
  const std::vector<std::pair<std::string, absl::Duration>> cases = {
      {"30", absl::Seconds(30)},          {"0.5", absl::Milliseconds(500)},
      {"500ms", absl::Milliseconds(500)}, {"1m30s", absl::Seconds(90)},
      {"24h", absl::Hours(24)},
  };
  for (const auto& [text, duration] : cases) {
    const absl::StatusOr<absl::Duration> parsed = ParseDuration(text);
    ASSERT_TRUE(parsed.ok()) << text;
    EXPECT_EQ(*parsed, duration) << text;
  }
  for (const char* text : {"", "0", "-1", "25h", "nan", "inf", "30 s", "1e9"}) {
    EXPECT_FALSE(ParseDuration(text).ok()) << text;
  }
}

TEST(OptionsTest, HelpNamesEveryOptionOfTheCommandAndNoOther) {
  const std::string plan = HelpText(Command::kPlan);
  const std::string evaluate = HelpText(Command::kEvaluate);
  for (const char* option : {"--server", "--tp", "--out", "--script", "--help"}) {
    EXPECT_THAT(plan, HasSubstr(option));
  }
  EXPECT_THAT(evaluate, HasSubstr("--batch"));
  EXPECT_EQ(evaluate.find("--out "), std::string::npos);
  EXPECT_EQ(plan.find("--batch"), std::string::npos);
  for (const char* command : {"plan", "evaluate", "profiles", "info", "version", "help"}) {
    EXPECT_THAT(HelpText(Command::kHelp), HasSubstr(command));
  }
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(plan + evaluate, '\n'))) {
    EXPECT_LE(line.size(), 112u) << line;
  }
}

}  // namespace
}  // namespace hapmoe::client
