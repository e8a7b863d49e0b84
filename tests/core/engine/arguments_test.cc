// Argument lists are split as argparse splits them.
#include "core/engine/arguments.h"

#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hapmoe::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Words = std::vector<std::string>;

TEST(MegatronOptions, AreTheSnapshot) {
  EXPECT_THAT(MegatronOptions(), SizeIs(839));
  const MegatronOption* option = FindMegatronOption("--disable-tp-comm-bulk-wgrad");
  ASSERT_NE(option, nullptr);
  EXPECT_EQ(option, FindMegatronOption("--no-tp-comm-bulk-wgrad"));
  EXPECT_EQ(option->dest, "tp_comm_bulk_wgrad");
  EXPECT_EQ(option->default_value, "True");
  EXPECT_EQ(FindMegatronOption("--virtual-pipeline-model-parallel-size"), nullptr);
}

struct Accepted {
  Words argv;
  absl::string_view dest;
  Words values;
};

TEST(Parse, TakesTheValuesThatArgparseTakes) {
  const Accepted cases[] = {
      {{"--num-layers", "32"}, "num_layers", {"32"}},
      {{"--num-layers=32"}, "num_layers", {"32"}},
      {{"--num-layers", "8", "--num-layers", "9"}, "num_layers", {"9"}},
      {{"--num-layers", "-1"}, "num_layers", {"-1"}},
      {{"--num-layers", "1_000"}, "num_layers", {"1_000"}},
      {{"--lr", "1e-4"}, "lr", {"1e-4"}},
      {{"--lr", "-.5"}, "lr", {"-.5"}},
      {{"--lr=-1e-5"}, "lr", {"-1e-5"}},
      {{"--lr", "inf"}, "lr", {"inf"}},
      {{"--save", ""}, "save", {""}},
      {{"--save="}, "save", {""}},
      {{"--save", "a=b"}, "save", {"a=b"}},
      {{"--save=a=b"}, "save", {"a=b"}},
      {{"--save", "-"}, "save", {"-"}},
      {{"--save", "--not an option"}, "save", {"--not an option"}},
      {{"--swiglu"}, "swiglu", {}},
      {{"--data-path"}, "data_path", {}},
      {{"--data-path", "0.5", "a", "b", "--swiglu"}, "data_path", {"0.5", "a", "b"}},
      {{"--recompute-modules", "mlp", "moe"}, "recompute_modules", {"mlp", "moe"}},
      {{"--recompute-modules=mlp"}, "recompute_modules", {"mlp"}},
      {{"--rampup-batch-size", "16", "8", "100"}, "rampup_batch_size", {"16", "8", "100"}},
      {{"--moe-layer-freq", "([0]*3+[1]*58)"}, "moe_layer_freq", {"([0]*3+[1]*58)"}},
      {{"--window-size", "(128,0)"}, "window_size", {"(128,0)"}},
      {{"--empty-unused-memory-level", "02"}, "empty_unused_memory_level", {"02"}},
      {{"--attention-backend", "flash"}, "attention_backend", {"flash"}},
  };
  for (const Accepted& accepted : cases) {
    Violations violations;
    const Arguments arguments = Arguments::Parse(accepted.argv, violations);
    EXPECT_THAT(violations, IsEmpty()) << accepted.argv.front();
    const Argument* argument = arguments.Find(accepted.dest);
    ASSERT_NE(argument, nullptr) << accepted.argv.front();
    EXPECT_EQ(argument->values, accepted.values);
  }
}

struct Refused {
  Words argv;
  std::string rule;
  std::string field;
  std::string words;
};

TEST(Parse, RefusesWhatArgparseRefuses) {
  const Refused cases[] = {
      {{"--moe-extended-tp"}, "unknown_option", "--moe-extended-tp", "was removed"},
      {{"--retro-add-retriever"}, "unknown_option", "--retro-add-retriever", "was removed"},
      {{"--DDP-impl", "local"}, "unknown_option", "--DDP-impl", "was removed"},
      {{"--tensor-model-parallel", "2"},
       "unknown_option",
       "--tensor-model-parallel",
       "nearest is --tensor-model-parallel-size"},
      {{"--expert-tensor-model-parallel-size", "2"},
       "unknown_option",
       "--expert-tensor-model-parallel-size",
       "nearest is --expert-tensor-parallel-size"},
      {{"--export-te-mcore-model"}, "unknown_option", "--export-te-mcore-model", ""},
      {{"--enable-gpt-oss"}, "unknown_option", "--enable-gpt-oss", ""},
      {{"-x"}, "unknown_option", "-x", ""},
      {{"--seq-length"}, "missing_value", "--seq-length", "needs a value, but 0 follow it"},
      {{"--seq-length", "--swiglu"}, "missing_value", "--seq-length", "before --swiglu"},
      {{"--lr", "-1e-5"}, "missing_value", "--lr", "write --lr=-1e-5"},
      {{"--recompute-modules"}, "missing_value", "--recompute-modules", "at least one"},
      {{"--rampup-batch-size", "16", "8"},
       "missing_value",
       "--rampup-batch-size",
       "needs three values, but 2"},
      {{"--rampup-batch-size=16", "8", "4"}, "missing_value", "--rampup-batch-size", ""},
      {{"--num-layers", "many"}, "wrong_type", "--num-layers", "an integer, but is given many"},
      {{"--num-layers", "0x10"}, "wrong_type", "--num-layers", ""},
      {{"--num-layers", "3.0"}, "wrong_type", "--num-layers", ""},
      {{"--num-layers", "1__0"}, "wrong_type", "--num-layers", ""},
      {{"--num-layers", ""}, "wrong_type", "--num-layers", ""},
      {{"--lr", "fast"}, "wrong_type", "--lr", "a number"},
      {{"--lr", "0x1p3"}, "wrong_type", "--lr", ""},
      {{"--moe-layer-freq", "[0]*"}, "wrong_type", "--moe-layer-freq", "list expression"},
      {{"--moe-layer-freq", "[0]*99999999"}, "wrong_type", "--moe-layer-freq", ""},
      {{"--window-size", "1;2"}, "wrong_type", "--window-size", ""},
      {{"--normalization", "BatchNorm"},
       "outside_choices",
       "--normalization",
       "none of LayerNorm, RMSNorm"},
      {{"--tokenizer-type", "Llama3Tokenizer"}, "outside_choices", "--tokenizer-type", ""},
      {{"--empty-unused-memory-level", "3"},
       "outside_choices",
       "--empty-unused-memory-level",
       "none of 0, 1, 2"},
      {{"--bf16=1"}, "unexpected_value", "--bf16", "takes no value"},
      {{"--bf16", "true"}, "stray_argument", "true", "belongs to no option"},
      {{"pretrain_gpt.py"}, "stray_argument", "pretrain_gpt.py", ""},
      {{"-1"}, "stray_argument", "-1", ""},
      {{"--bf16", "--", "--swiglu"}, "stray_argument", "--", ""},
      {{"--help"}, "help_requested", "--help", ""},
  };
  for (const Refused& refused : cases) {
    Violations violations;
    Arguments::Parse(refused.argv, violations);
    // One fault is told once: what follows an unknown option goes with it.
    ASSERT_THAT(violations, SizeIs(1)) << refused.argv.front();
    EXPECT_EQ(violations[0].rule, refused.rule) << refused.argv.front();
    EXPECT_EQ(violations[0].field, refused.field);
    EXPECT_THAT(violations[0].message, HasSubstr(refused.words));
  }
}

TEST(Parse, TellsAllFaultsAndKeepsTheRest) {
  Violations violations;
  const Arguments arguments = Arguments::Parse(
      Words{"--num-layers", "x", "--hidden", "8", "--swiglu", "--seq-length"}, violations);
  std::vector<std::string> rules;
  for (const Violation& violation : violations) rules.push_back(violation.rule);
  EXPECT_THAT(rules, ElementsAre("wrong_type", "unknown_option", "missing_value"));
  EXPECT_THAT(arguments.all(), SizeIs(1));
  EXPECT_NE(arguments.Find("swiglu"), nullptr);
}

TEST(Parse, BoundsWhatItReads) {
  Violations violations;
  Arguments::Parse(Words(Arguments::kMaxArguments + 1, "--swiglu"), violations);
  ASSERT_THAT(violations, SizeIs(1));
  EXPECT_EQ(violations[0].rule, "too_many_arguments");

  violations.clear();
  Arguments::Parse(Words{"--save", std::string(Arguments::kMaxValueBytes + 1, 'x')}, violations);
  ASSERT_THAT(violations, SizeIs(1));
  EXPECT_EQ(violations[0].rule, "argument_too_long");

  violations.clear();
  Arguments::Parse(Words(10000, "stray"), violations);
  EXPECT_THAT(violations, SizeIs(100));
}

TEST(ParsePythonInt, ReadsWhatPythonReads) {
  int64_t value = 0;
  EXPECT_TRUE(ParsePythonInt(" +7\t", &value));
  EXPECT_EQ(value, 7);
  EXPECT_TRUE(ParsePythonInt("-007", &value));
  EXPECT_EQ(value, -7);
  // Beyond 64 bits: kept at the end, far outside every range.
  EXPECT_TRUE(ParsePythonInt("99999999999999999999", &value));
  EXPECT_EQ(value, std::numeric_limits<int64_t>::max());
  for (const char* text : {"", "+", "7.", "1e3", "_1", "1_", "٣", "7 7"}) {
    EXPECT_FALSE(ParsePythonInt(text, &value)) << text;
  }
}

TEST(ParsePythonFloat, ReadsWhatPythonReads) {
  double value = 0;
  EXPECT_TRUE(ParsePythonFloat("1_0.5", &value));
  EXPECT_EQ(value, 10.5);
  EXPECT_TRUE(ParsePythonFloat("1.e2", &value));
  EXPECT_EQ(value, 100);
  EXPECT_TRUE(ParsePythonFloat("1e400", &value));
  EXPECT_EQ(value, std::numeric_limits<double>::infinity());
  for (const char* text : {"", ".", "1e", "0x10", "nan(1)", "1,5"}) {
    EXPECT_FALSE(ParsePythonFloat(text, &value)) << text;
  }
}

}  // namespace
}  // namespace hapmoe::engine
