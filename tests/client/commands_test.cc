// What holds for every command: help, usage, and files that are wrong.
#include "client/commands.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/commands_fixture.h"

namespace hapmoe::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

TEST_F(CommandsTest, HelpAndVersionNeedNoServer) {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"help"}, {"--help"}, {"help", "plan"}, {"plan", "--help"}, {"evaluate", "-h"}}) {
    const RunOutcome run = RunWords(words, "", "127.0.0.1:1");
    EXPECT_EQ(run.code, kDone);
    EXPECT_THAT(run.out, HasSubstr("Usage: hapmoe"));
    EXPECT_THAT(run.err, IsEmpty());
  }
  EXPECT_THAT(RunWords({"version"}).out, StartsWith("hapmoe "));
  EXPECT_EQ(RunWords({"help", "plam"}).code, kUsage);
}

TEST_F(CommandsTest, ArgsPrintsEveryLaunchAndCallsNoServer) {
  const std::string script =
      root_.Write("job.sh",
                  "export NCCL_X=1 HF_TOKEN=secret\n"
                  "torchrun --nnodes 2 --nproc_per_node 8 pretrain_gpt.py --num-layers $1\n"
                  "python run_recipe.py --recipe r\n");
  const RunOutcome run = RunWords(
      {"args", "--script", script, "--script-reading", "static", "--", "4"}, "", "127.0.0.1:1");
  EXPECT_EQ(run.code, kDone);
  EXPECT_THAT(
      run.out,
      StartsWith("[\n{\"program\": \"torchrun\", \"launcher_args\": [\"--nnodes\", \"2\", "
                 "\"--nproc_per_node\", \"8\"], \"entry\": \"pretrain_gpt.py\", \"args\": "
                 "[\"--num-layers\", \"4\"], \"env\": {\"NCCL_X\": \"1\"}, \"world_size\": 16, "
                 "\"refusal\": null},\n{\"program\": \"python\", "));
  EXPECT_THAT(run.out,
              HasSubstr("\"world_size\": null, \"refusal\": \"it is a launch of Megatron-Bridge"));
  EXPECT_EQ(RunWords({"args"}).code, kUsage);
  const RunOutcome none = RunWords(
      {"args", "--script", root_.Write("none.sh", "echo\n"), "--script-reading", "static"});
  EXPECT_EQ(none.code, kRefused);
  EXPECT_EQ(none.out, "[]\n");
}

TEST_F(CommandsTest, UsageFaultsExitWithTwoBeforeAnyCall) {
  fake_.plan = nullptr;
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, "a command is missing"},
      {{"plan", "stray", "--cluster", cluster_}, "\"stray\" belongs to no option"},
      {{"plan", "--", "--bf16"}, "the cluster is missing"},
      {{"plan", "--cluster", cluster_}, "the job is missing"},
      {{"plan", "--cluster", "/nonexistent", "--", "--bf16"}, "cannot read /nonexistent: No such"},
      {{"plan", "--cluster", root_.path(), "--", "--bf16"}, "cannot read"},
      {{"plan", "--cluster", cluster_, "--script", "a", "--args-file", "b"}, "give the job once"},
      {{"plan", "--cluster", cluster_, "--args-file", "b", "--", "c"}, "give the job once"},
      {{"plan", "--cluster", cluster_, "--args-file", "/nonexistent"}, "cannot read /nonexistent"},
      {{"plan", "--cluster", cluster_, "--script", "/nonexistent"}, "cannot read /nonexistent"},
      {{"plan", "--cluster", cluster_, "--env", "A=1", "--", "c"}, "go with --script"},
      {{"plan", "--cluster", cluster_, "--router-stats", "/nonexistent", "--", "c"},
       "cannot read /nonexistent"},
      {{"evaluate", "--cluster", cluster_, "--router-stats", cluster_, "--", "c"}, "not JSON"},
      {{"plan", "--cluster", cluster_, "--imbalance-quantile", "1", "--", "c"},
       "--imbalance-quantile must be at least 0 and below 1"},
      {{"plan", "--cluster", cluster_, "--scheduler-file", "/nonexistent", "--", "c"},
       "cannot read /nonexistent"},
      {{"plan", "--cluster", cluster_, "--scheduler-file", cluster_, "--", "c"},
       "the file has no field \"pools\""},
      {{"plan", "--cluster", cluster_, "--scheduler-file", root_.Write("a", "image: b\n"), "--",
        "c"},
       "--scheduler-file goes with --scheduler, unless"},
      {{"evaluate", "--batch", "-", "--router-stats", "x"}, "--batch takes jobs and clusters"},
      {{"evaluate", "--batch", "-", "--", "x"}, "--batch takes jobs and clusters from its file"},
      {{"evaluate", "--batch", "/nonexistent"}, "cannot read /nonexistent"},
      {{"profiles"}, "profiles takes list, get, put, delete, coverage or import"},
      {{"profiles", "lst"}, "profiles has no action lst; did you mean list?"},
      {{"profiles", "get"}, "profiles get takes one name"},
      {{"profiles", "put", "/nonexistent"}, "cannot read /nonexistent"},
      {{"profiles", "coverage"}, "takes names of accelerators, or --cluster FILE and a job"},
      {{"profiles", "coverage", "--", "--bf16"}, "the cluster is missing"},
      {{"profiles", "coverage", "--cluster", cluster_}, "the job is missing"},
      {{"profiles", "list", "--cluster", cluster_}, "profiles list takes no job or cluster"},
      {{"profiles", "get", "X", "--", "--bf16"}, "profiles get takes no job or cluster"},
  };
  for (const auto& [words, what] : cases) {
    SCOPED_TRACE(what);
    const RunOutcome run = Run(words);
    EXPECT_EQ(run.code, kUsage);
    EXPECT_THAT(run.err, AllOf(StartsWith("hapmoe: "), HasSubstr(what)));
    EXPECT_THAT(run.out, IsEmpty());
  }
}

TEST_F(CommandsTest, FaultsOfTheClusterFileNameFileAndLine) {
  const std::string file =
      root_.Write("bad.yaml", "pools:\n- {name: a, accelerator: b, nods: 4}\n");
  const RunOutcome run = Run({"plan", "--cluster", file, "--", "--bf16"});
  EXPECT_EQ(run.code, kUsage);
  EXPECT_THAT(run.err, AllOf(HasSubstr(file + ":2: a pool has no field \"nods\""),
                             HasSubstr(file + ":2: a pool lacks its nodes")));
}

}  // namespace
}  // namespace hapmoe::client
