// Runs emitted scripts under bash with stand-ins for torchrun and python, on every node.
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/engine/rendered_arguments.h"
#include "core/engine/shell_quote.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/engine/launcher_cases.h"
#include "tests/core/engine/launcher_harness.h"

namespace hapmoe::engine {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LauncherScriptTest : public LauncherHarness {
 protected:
  // Writes the script of a case.
  RenderedCase Write(const LauncherCase& launcher_case) {
    absl::StatusOr<RenderedCase> rendered = Render(launcher_case);
    EXPECT_TRUE(rendered.ok()) << rendered.status();
    if (!rendered.ok()) return {};
    WriteProgram("launch.sh", rendered->artifacts.front().content);
    return *std::move(rendered);
  }

  // Runs all nodes and compares what every process was started with.
  void ExpectEveryProcess(const LauncherCase& launcher_case,
                          std::map<std::string, std::string> environment = {}) {
    const RenderedCase rendered = Write(launcher_case);
    int64_t first_rank = 0;
    for (const plan::AssignedNode& node : rendered.nodes.nodes) {
      environment["NODE_RANK"] = absl::StrCat(node.node_rank);
      environment["MASTER_ADDR"] = "10.0.0.1";
      environment["STUB_FIRST_RANK"] = absl::StrCat(first_rank);
      environment["STUB_WORLD"] = absl::StrCat(launcher_case.plan.world_size());
      const Outcome outcome = Run(environment);
      ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
      EXPECT_EQ(ReadFile(directory_ / "out/processes"), absl::StrCat(node.processes));
      EXPECT_EQ(first_rank, node.first_rank);
      for (int64_t i = 0; i < node.processes; ++i) {
        const int64_t rank = first_rank + i;
        const int64_t stage = plan::StageOfRank(launcher_case.plan, rank);
        std::vector<std::string> expected = {"-u", launcher_case.entry};
        const auto argv = RenderedArguments(rendered.arguments, launcher_case.plan, stage);
        expected.insert(expected.end(), argv.begin(), argv.end());
        EXPECT_EQ(ReadWords(absl::StrCat("rank.", rank)), expected)
            << launcher_case.name << ", rank " << rank;
        EXPECT_EQ(ReadFile(directory_ / absl::StrCat("out/worker.", rank)), "unset");
      }
      first_rank += node.processes;
    }
    EXPECT_EQ(first_rank, launcher_case.plan.world_size());
    EXPECT_TRUE(fs::is_empty(directory_ / "work")) << "an argument was executed";
  }
};

TEST_F(LauncherScriptTest, StartsEveryProcessOfEveryCaseWithItsArguments) {
  for (const LauncherCase& launcher_case : LauncherCases()) {
    if (launcher_case.plan.world_size() > 64) continue;  // More of the same.
    SCOPED_TRACE(launcher_case.name);
    ExpectEveryProcess(launcher_case, {{"HAPMOE_CONFIRM_BACKEND", "flagcx"}});
  }
}

TEST_F(LauncherScriptTest, PassesHostileArgumentsByteForByte) {
  for (const char* name : {"gpt2_stages_in_a_node_differ_1x8", "llama8b_unequal_nodes_1x8_2x4",
                           "llama8b_there_and_back_4x8"}) {
    LauncherCase launcher_case = CaseOf(name);
    std::vector<std::string> all = {"--data-path"};
    for (const std::string& word : HostileWords()) {
      launcher_case.argv.push_back(absl::StrCat("--wandb-exp-name=", word));
      if (!absl::StartsWith(word, "-")) all.push_back(word);
    }
    launcher_case.argv.insert(launcher_case.argv.end(), all.begin(), all.end());
    launcher_case.entry = "dir/'$(touch pwned)' \"\n`touch pwned`*.py";
    for (const char* locale : {"C", "C.UTF-8"}) {
      ExpectEveryProcess(launcher_case, {{"LC_ALL", locale}});
    }
  }
}

TEST_F(LauncherScriptTest, PassesHostileValuesOfVariablesByteForByte) {
  for (const std::string& word : HostileWords()) {
    LauncherCase launcher_case = CaseOf("gpt2_learned_tied_fp16_1x1");
    launcher_case.environments.resize(1);
    launcher_case.environments[0].variables = {{"STUB_VARIABLE", word, true}};
    launcher_case.cluster.pools[0].hosts = {"$(touch${IFS}pwned)'`touch${IFS}pwned`';#\\"};
    launcher_case.requirements = {{"a'$(touch pwned)", "`touch pwned`' $(touch pwned)"}};
    ExpectEveryProcess(launcher_case, {{"HAPMOE_CONFIRM_BACKEND", "a'$(touch pwned)"}});
    EXPECT_EQ(ReadFile(directory_ / "out/variable.0"), word);
    EXPECT_EQ(Run({}).exit_code, 2);
    EXPECT_EQ(Run({}, {"--dry-run"}).exit_code, 0);
    EXPECT_TRUE(fs::is_empty(directory_ / "work"));
  }
}

TEST_F(LauncherScriptTest, NamesAnEntryWithALeadingDashByItsFolder) {
  LauncherCase launcher_case = CaseOf("gpt2_learned_tied_fp16_1x1");
  launcher_case.entry = "--help";
  Write(launcher_case);
  ASSERT_EQ(Run({{"STUB_FIRST_RANK", "0"}, {"STUB_WORLD", "1"}}).exit_code, 0);
  EXPECT_EQ(ReadWords("rank.0")[1], "./--help");
}

TEST_F(LauncherScriptTest, GivesTorchrunAStaticRendezvous) {
  Write(CaseOf("llama8b_unequal_nodes_1x8_2x4"));
  const std::map<std::string, std::string> stub = {{"STUB_FIRST_RANK", "12"}, {"STUB_WORLD", "16"}};
  ASSERT_EQ(Run(stub, {"--node-rank", "02", "--master-addr=h0", "--master-port", "1234"}).exit_code,
            0);
  std::vector<std::string> words = ReadWords("torchrun");
  words.resize(13);
  EXPECT_THAT(words, ElementsAre("--nnodes", "3", "--node_rank", "2", "--nproc_per_node", "4",
                                 "--rdzv_backend", "static", "--master_addr", "h0", "--master_port",
                                 "1234", "--no_python"));
}

TEST_F(LauncherScriptTest, SetsOneConnectionWhereMegatronAsksForIt) {
  std::map<std::string, std::string> stub = {
      {"STUB_FIRST_RANK", "0"}, {"STUB_WORLD", "24"}, {"NODE_RANK", "0"}, {"MASTER_ADDR", "h"}};
  const auto connections = [&] { return ReadFile(directory_ / "out/connections.0"); };

  Write(CaseOf("llama8b_two_types_3x8"));  // tp = 2.
  ASSERT_EQ(Run(stub).exit_code, 0);
  EXPECT_EQ(connections(), "1");
  stub["CUDA_DEVICE_MAX_CONNECTIONS"] = "8";
  const Outcome warned = Run(stub);
  EXPECT_EQ(connections(), "1");
  EXPECT_THAT(warned.error, HasSubstr("CUDA_DEVICE_MAX_CONNECTIONS was 8"));

  Write(CaseOf("gpt2_learned_tied_fp16_1x1"));  // tp = cp = 1: the user's.
  ASSERT_EQ(Run(stub).exit_code, 0);
  EXPECT_EQ(connections(), "8");

  stub["CUDA_DEVICE_MAX_CONNECTIONS"] = "1";
  Write(CaseOf("llama8b_fsdp_2x8"));  // Must not be 1.
  ASSERT_EQ(Run(stub).exit_code, 0);
  EXPECT_EQ(connections(), "unset");

  stub.erase("CUDA_DEVICE_MAX_CONNECTIONS");
  Write(CaseOf("qwen30b_a3b_overlap_withdrawn_4x4"));  // Not needed; the pool's default.
  ASSERT_EQ(Run(stub).exit_code, 0);
  EXPECT_EQ(connections(), "32");
}

TEST_F(LauncherScriptTest, TakesTheNodeRankFromSlurmOrFromTheHostName) {
  WriteProgram("bin/hostname", "#!/bin/sh\necho slow-1\n");
  const std::map<std::string, std::string> stub = {{"STUB_FIRST_RANK", "0"}, {"STUB_WORLD", "32"}};
  Write(CaseOf("llama8b_there_and_back_4x8"));
  ASSERT_EQ(Run(stub).exit_code, 0);
  // fast-0 | slow-0 slow-1 | fast-1.
  EXPECT_THAT(ReadWords("torchrun"), AllOf(::testing::Contains("fast-0.cluster")));
  EXPECT_EQ(ReadWords("torchrun")[3], "2");

  WriteProgram("bin/hostname", "#!/bin/sh\necho elsewhere\n");
  const Outcome refused = Run(stub);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.error, HasSubstr("none of the plan's hosts"));

  Write(CaseOf("llama8b_rest_of_a_node_idles_2x8"));
  std::map<std::string, std::string> slurm = {
      {"STUB_FIRST_RANK", "4"}, {"STUB_WORLD", "12"}, {"SLURM_NODEID", "1"}};
  ASSERT_EQ(Run(slurm).exit_code, 0);
  EXPECT_EQ(ReadWords("torchrun")[3], "1");
  EXPECT_EQ(ReadFile(directory_ / "out/processes"), "8");
}

// Two hosts hold four accelerators of each of two types, in a plan of one stage for each pool.
LauncherCase SharedHosts() {
  LauncherCase launcher_case;
  launcher_case.name = "shared_hosts";
  launcher_case.argv = SplitWords("--num-layers 8 --micro-batch-size 1 --global-batch-size 8");
  cluster::Pool fast = PoolOf("fast", 2, 4), slow = PoolOf("slow", 2, 4);
  fast.hosts = slow.hosts = {"both-0.cluster", "both-1.cluster"};
  fast.devices = {0, 1, 2, 3};
  slow.devices = {4, 5, 6, 7};
  launcher_case.cluster = {{fast, slow}, {}};
  launcher_case.plan = PlanOf({1, 1, 8, 1, 1}, 1, 8,
                              {{0, {}, {StageOf(6)}}, {1, {}, {StageOf(2, FullBlock(2))}}}, false);
  return launcher_case;
}

TEST_F(LauncherScriptTest, ShowsEachNodeOfAHostItsOwnDevices) {
  const LauncherCase launcher_case = SharedHosts();
  ExpectEveryProcess(launcher_case);
  // Node 2 is host both-0 again, with the devices of the other pool.
  for (const auto& [node, first_rank, devices] :
       {std::tuple{"1", "4", "0,1,2,3"}, std::tuple{"2", "8", "4,5,6,7"}}) {
    ASSERT_EQ(Run({{"NODE_RANK", node},
                   {"MASTER_ADDR", "h"},
                   {"STUB_FIRST_RANK", first_rank},
                   {"STUB_WORLD", "16"}})
                  .exit_code,
              0);
    EXPECT_EQ(ReadFile(directory_ / absl::StrCat("out/devices.", first_rank)), devices);
  }
  EXPECT_TRUE(PassesShellcheck("launch.sh"));
}

TEST_F(LauncherScriptTest, StartsAllNodesOfItsHost) {
  Write(SharedHosts());
  WriteProgram("bin/hostname", "#!/bin/sh\necho both-1\n");
  WriteProgram("bin/torchrun",
               "#!/usr/bin/env bash\nprintf '%s %s' \"$CUDA_VISIBLE_DEVICES\" \"$6\" "
               ">\"$STUB_OUT/node.$4\"\n[[ $4 != 3 ]] || exit 7\n");
  // A node that fails is not forgotten.
  EXPECT_EQ(Run({}).exit_code, 7);
  EXPECT_EQ(ReadFile(directory_ / "out/node.1"), "0,1,2,3 4");
  EXPECT_EQ(ReadFile(directory_ / "out/node.3"), "4,5,6,7 4");
  EXPECT_FALSE(fs::exists(directory_ / "out/node.0"));
  const Outcome dry = Run({}, {"--dry-run"});
  EXPECT_EQ(dry.exit_code, 0);
  // One behind the other: what each is started with follows its name.
  const std::string alone[] = {Run({}, {"--dry-run", "--node-rank", "1"}).out,
                               Run({}, {"--dry-run", "--node-rank", "3"}).out};
  EXPECT_EQ(dry.out, alone[0] + alone[1]);
}

TEST_F(LauncherScriptTest, RefusesBadInputs) {
  Write(CaseOf("llama8b_two_types_3x8"));
  const auto refusal = [&](const std::vector<std::string>& options) {
    const Outcome outcome = Run({}, options);
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_FALSE(fs::exists(directory_ / "out/torchrun"));
    return outcome.error;
  };
  EXPECT_THAT(refusal({"--node-rank", "3"}), HasSubstr("from 0 to 2"));
  EXPECT_THAT(refusal({"--node-rank=-1"}), HasSubstr("from 0 to 2"));
  EXPECT_THAT(refusal({"--node-rank", "a[$(touch pwned)]"}), HasSubstr("from 0 to 2"));
  EXPECT_THAT(refusal({"--node-rank"}), HasSubstr("needs a value"));
  EXPECT_THAT(refusal({"--node-rank", "0", "--master-port", "70000"}), HasSubstr("65535"));
  EXPECT_THAT(refusal({"--node-rank", "0", "--master-addr=-x"}), HasSubstr("must not start"));
  EXPECT_THAT(refusal({"--nodes", "0"}), HasSubstr("unknown option"));
  const Outcome outcome = Run({{"TORCHRUN", "/no/torchrun"}}, {"--node-rank", "0"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.error, HasSubstr("/no/torchrun is not found"));
  EXPECT_TRUE(fs::is_empty(directory_ / "work"));
}

TEST_F(LauncherScriptTest, RefusesToStartWithoutTheBackendThatThePlanNeeds) {
  Write(CaseOf("mixtral_h800_ascend_4x8"));
  std::map<std::string, std::string> stub = {
      {"STUB_FIRST_RANK", "16"}, {"STUB_WORLD", "32"}, {"NODE_RANK", "2"}};
  Outcome outcome = Run(stub);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.error,
              AllOf(HasSubstr("joins NCCL and HCCL"), HasSubstr("HAPMOE_CONFIRM_BACKEND=flagcx")));
  EXPECT_FALSE(fs::exists(directory_ / "out/torchrun"));
  stub["HAPMOE_CONFIRM_BACKEND"] = "nccl";
  EXPECT_EQ(Run(stub).exit_code, 2);
  stub["HAPMOE_CONFIRM_BACKEND"] = "flagcx";
  EXPECT_EQ(Run(stub).exit_code, 0);
}

TEST_F(LauncherScriptTest, RefusesAProcessOfAnotherJob) {
  Write(CaseOf("gpt2_stages_in_a_node_differ_1x8"));
  EXPECT_EQ(Run({{"HAPMOE_WORKER", "1"}, {"RANK", "0"}, {"WORLD_SIZE", "16"}}).exit_code, 2);
  EXPECT_EQ(Run({{"HAPMOE_WORKER", "1"}, {"RANK", "8"}, {"WORLD_SIZE", "8"}}).exit_code, 2);
  EXPECT_EQ(Run({{"HAPMOE_WORKER", "1"}, {"WORLD_SIZE", "8"}}).exit_code, 2);
}

TEST_F(LauncherScriptTest, DryRunPrintsWhatWouldRun) {
  for (const char* name : {"gpt2_stages_in_a_node_differ_1x8", "llama8b_two_types_3x8"}) {
    LauncherCase launcher_case = CaseOf(name);
    launcher_case.argv.push_back("--wandb-exp-name");
    launcher_case.argv.push_back("two words\n'and a line'");
    const RenderedCase rendered = Write(launcher_case);
    const Outcome outcome = Run({}, {"--dry-run", "--node-rank", "0"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
    EXPECT_FALSE(fs::exists(directory_ / "out/torchrun"));
    int64_t ranks = 0;
    for (absl::string_view line : absl::StrSplit(outcome.out, '\n')) {
      if (!absl::StartsWith(line, "rank ")) continue;
      // Read it back with bash, past the colon.
      std::ofstream(directory_ / "line")
          << "printf '%s\\0' " << line.substr(line.find(": ") + 2) << " >out/words";
      ASSERT_EQ(
          std::system(
              absl::StrCat("cd ", ShellQuote(directory_.string()), " && bash ./line").c_str()),
          0);
      const int64_t stage = plan::StageOfRank(launcher_case.plan, ranks++);
      std::vector<std::string> words = ReadWords("words");
      ASSERT_GT(words.size(), 3u);
      words.erase(words.begin(), words.begin() + 3);  // python3 -u pretrain_gpt.py
      EXPECT_EQ(words, RenderedArguments(rendered.arguments, launcher_case.plan, stage));
    }
    EXPECT_EQ(ranks, 8);
  }
}

TEST_F(LauncherScriptTest, IsCleanUnderShellcheck) {
  if (std::system("command -v shellcheck >/dev/null 2>&1") != 0) {
    GTEST_SKIP() << "shellcheck is not installed";
  }
  for (const LauncherCase& launcher_case : LauncherCases()) {
    Write(launcher_case);
    EXPECT_EQ(
        std::system(
            absl::StrCat("shellcheck ", ShellQuote((directory_ / "launch.sh").string())).c_str()),
        0)
        << launcher_case.name;
  }
}

}  // namespace
}  // namespace hapmoe::engine
