// Launchers of different jobs and clusters, against tests/golden/launchers.
// HAPMOE_REGENERATE_GOLDENS=1 writes the golden files instead; HAPMOE_WRITE_LAUNCHERS=DIR also
// writes all files of every launcher below DIR.
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/engine/megatron_job.h"
#include "core/engine/rendered_arguments.h"
#include "core/engine/shell_quote.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/engine/launcher_cases.h"

namespace hapmoe::engine {
namespace {

using ::testing::HasSubstr;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream content;
  content << file.rdbuf();
  return content.str();
}

void WriteFile(const std::string& path, const std::string& content) {
  std::ofstream file(path, std::ios::binary);
  file << content;
  ASSERT_TRUE(file.good()) << path;
}

void ExpectGolden(const std::string& name, const std::string& content) {
  const std::string path = absl::StrCat(HAPMOE_SOURCE_DIR, "/tests/golden/launchers/", name);
  if (std::getenv("HAPMOE_REGENERATE_GOLDENS") != nullptr) WriteFile(path, content);
  EXPECT_EQ(ReadFile(path), content) << path << ": HAPMOE_REGENERATE_GOLDENS=1 writes it anew";
}

// Where everything runs and with which arguments, for people to review.
std::string Describe(const LauncherCase& launcher_case, const RenderedCase& rendered) {
  std::string text = "# Nodes: rank, host, first rank, processes.\n";
  for (const plan::AssignedNode& node : rendered.nodes.nodes) {
    absl::StrAppend(&text, node.node_rank, " ", node.host, " ", node.first_rank, " ",
                    node.processes, "\n");
  }
  const PlannedArguments planned = PlanArguments(rendered.arguments, launcher_case.plan);
  for (const Withdrawn& withdrawn : planned.withdrawn) {
    absl::StrAppend(&text, "# Left out: ", withdrawn.flag, ": ", withdrawn.reason, "\n");
  }
  absl::StrAppend(&text, "# All stages.\n");
  for (const auto* part : {&planned.job, &planned.plan}) {
    for (const Words& option : *part) {
      absl::StrAppend(&text, ShellQuote(absl::MakeConstSpan(option)), "\n");
    }
  }
  for (size_t i = 0; i < planned.recompute.size(); ++i) {
    std::vector<size_t> stages;
    for (size_t stage = 0; stage < planned.stage_recompute.size(); ++stage) {
      if (planned.stage_recompute[stage] == static_cast<int64_t>(i)) stages.push_back(stage);
    }
    absl::StrAppend(&text, "# Stages ", absl::StrJoin(stages, " "), ".\n",
                    ShellQuote(absl::MakeConstSpan(planned.recompute[i])),
                    planned.recompute[i].empty() ? "" : "\n");
  }
  return text;
}

class LauncherGoldenTest : public ::testing::TestWithParam<LauncherCase> {};

TEST_P(LauncherGoldenTest, IsAsReviewed) {
  absl::StatusOr<RenderedCase> rendered = Render(GetParam());
  ASSERT_TRUE(rendered.ok()) << rendered.status();
  ExpectGolden(absl::StrCat(GetParam().name, ".txt"), Describe(GetParam(), *rendered));
  // One whole script of each shape.
  const std::set<std::string> whole = {"gpt2_stages_in_a_node_differ_1x8", "mixtral_h800_a100_6x8",
                                       "mixtral_h800_ascend_4x8", "llama8b_fsdp_2x8"};
  for (const Artifact& artifact : rendered->artifacts) {
    if (whole.count(GetParam().name) > 0) {
      ExpectGolden(absl::StrCat(GetParam().name, ".", artifact.name), artifact.content);
    }
    if (const char* directory = std::getenv("HAPMOE_WRITE_LAUNCHERS")) {
      const std::string folder = absl::StrCat(directory, "/", GetParam().name);
      mkdir(folder.c_str(), 0777);
      const std::string path = absl::StrCat(folder, "/", artifact.name);
      WriteFile(path, artifact.content);
      if (artifact.executable) chmod(path.c_str(), 0755);
    }
  }
}

TEST_P(LauncherGoldenTest, KeepsTheJobsArgumentsInOrder) {
  absl::StatusOr<RenderedCase> rendered = Render(GetParam());
  ASSERT_TRUE(rendered.ok()) << rendered.status();
  const int64_t stages = GetParam().plan.pipeline_stages();
  for (int64_t stage = 0; stage < stages; ++stage) {
    const std::vector<std::string> argv =
        RenderedArguments(rendered->arguments, GetParam().plan, stage);
    Violations violations;
    const Arguments again = Arguments::Parse(argv, violations);
    EXPECT_TRUE(violations.empty()) << violations.front().message;

    // What is left of the job is a subsequence of it, and comes first.
    const std::vector<Argument>& job = rendered->arguments.all();
    size_t next = 0, kept = 0;
    for (const Argument& argument : again.all()) {
      size_t at = next;
      while (at < job.size() &&
             (job[at].flag != argument.flag || job[at].values != argument.values)) {
        ++at;
      }
      if (at == job.size()) break;
      next = at + 1;
      ++kept;
    }
    for (size_t i = kept; i < again.all().size(); ++i) {
      const std::string& flag = again.all()[i].flag;
      EXPECT_TRUE(absl::StrContains(flag, "parallel") || absl::StrContains(flag, "recompute") ||
                  absl::StrContains(flag, "batch") || flag == "--use-tp-pp-dp-mapping")
          << flag;
    }

    int64_t layers = 0;
    for (const plan::Mesh& mesh : GetParam().plan.meshes) {
      for (const plan::Stage& each : mesh.stages) layers += each.layers();
    }
    EXPECT_EQ(absl::StrCat(layers), again.Find("num_layers")->values.front());
    EXPECT_EQ(absl::StrCat(stages), again.Find("pipeline_model_parallel_size")->values.front());
    EXPECT_EQ(again.Find("pipeline_model_parallel_layout") != nullptr, stages > 1);
    EXPECT_EQ(again.Find("expert_tensor_parallel_size") != nullptr,
              again.Find("num_experts") != nullptr);
  }
}

// What a launcher starts is read back by the code that reads jobs, and breaks no rule of the
// engine.
TEST_P(LauncherGoldenTest, IsAcceptedAndReadBackAsThePlan) {
  const LauncherCase& launcher_case = GetParam();
  absl::StatusOr<RenderedCase> rendered = Render(launcher_case);
  ASSERT_TRUE(rendered.ok()) << rendered.status();
  if (rendered->arguments.Find("use_megatron_fsdp") != nullptr) {
    GTEST_SKIP() << "fully sharded jobs can be launched, but not planned";
  }
  std::vector<const plan::Stage*> stages;
  for (const plan::Mesh& mesh : launcher_case.plan.meshes) {
    for (const plan::Stage& stage : mesh.stages) stages.push_back(&stage);
  }
  const int64_t world_size = launcher_case.plan.world_size();
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    Violations violations;
    const MegatronJob job = ParseMegatronJob(
        RenderedArguments(rendered->arguments, launcher_case.plan, stage), violations);
    ASSERT_TRUE(violations.empty()) << violations.front().message;
    for (const Violation& violation : CheckMegatronJob(job, {world_size, nullptr, 9})) {
      ADD_FAILURE() << violation.rule << ": " << violation.message;
    }
    const plan::Plan read = PlanFromJob(job, world_size);
    ASSERT_EQ(read.meshes.size(), 1u);
    EXPECT_EQ(read.meshes[0].degrees, launcher_case.plan.meshes[0].degrees);
    EXPECT_EQ(read.micro_batch, launcher_case.plan.micro_batch);
    EXPECT_EQ(read.global_batch, launcher_case.plan.global_batch);
    EXPECT_EQ(read.micro_batches, launcher_case.plan.micro_batches);
    EXPECT_EQ(read.rank_order, launcher_case.plan.rank_order);
    ASSERT_EQ(read.meshes[0].stages.size(), stages.size());
    for (size_t i = 0; i < stages.size(); ++i) {
      EXPECT_EQ(read.meshes[0].stages[i].chunks, stages[i]->chunks) << "stage " << i;
    }
    EXPECT_EQ(read.meshes[0].stages[stage].recompute, stages[stage]->recompute);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, LauncherGoldenTest, ::testing::ValuesIn(LauncherCases()),
                         [](const auto& test) { return test.param.name; });

LauncherCase CaseOf(absl::string_view name) {
  for (LauncherCase& launcher_case : LauncherCases()) {
    if (launcher_case.name == name) return launcher_case;
  }
  ADD_FAILURE() << "no case " << name;
  return {};
}

TEST(LauncherTest, RefusesNul) {
  LauncherCase launcher_case = CaseOf("llama8b_two_types_3x8");
  launcher_case.argv.push_back("--save");
  launcher_case.argv.push_back(std::string("a\0b", 3));
  EXPECT_THAT(Render(launcher_case).status().ToString(), HasSubstr("NUL"));

  launcher_case = CaseOf("llama8b_two_types_3x8");
  launcher_case.entry = std::string("a\0b", 3);
  EXPECT_THAT(Render(launcher_case).status().ToString(), HasSubstr("NUL"));

  launcher_case = CaseOf("mixtral_h800_ascend_4x8");
  launcher_case.environments[1].variables[0].value = std::string("\0", 1);
  EXPECT_THAT(Render(launcher_case).status().ToString(), HasSubstr("NUL"));
}

TEST(LauncherTest, RefusesVariablesThatTheScriptOwns) {
  for (const char* name :
       {"RANK", "NODE_RANK", "PATH", "IFS", "nodes", "A B", "1A", "", "HAPMOE_WORKER", "X=$(id)"}) {
    LauncherCase launcher_case = CaseOf("mixtral_h800_ascend_4x8");
    launcher_case.environments[1].variables[0].name = name;
    EXPECT_FALSE(Render(launcher_case).ok()) << name;
  }
}

TEST(LauncherTest, RefusesWhatMegatronCannotRun) {
  LauncherCase launcher_case = CaseOf("llama8b_two_types_3x8");
  launcher_case.plan.meshes[1].degrees = {1, 1, 8, 1, 1};  // The same number of ranks.
  EXPECT_THAT(Render(launcher_case).status().ToString(), HasSubstr("degrees"));

  launcher_case = CaseOf("llama8b_two_types_3x8");
  launcher_case.plan.meshes[1].stages[0].recompute = FullUniform(0);
  EXPECT_THAT(Render(launcher_case).status().ToString(), HasSubstr("never ends"));

  launcher_case = CaseOf("llama8b_two_types_3x8");
  launcher_case.cluster.pools[0].hosts = {"a", "b c"};
  EXPECT_THAT(Render(launcher_case).status().ToString(), HasSubstr("blank"));
}

TEST(LauncherTest, AttachesValuesThatLookLikeOptions) {
  LauncherCase launcher_case = CaseOf("llama8b_two_types_3x8");
  launcher_case.argv.push_back("--wandb-exp-name=--lr");
  absl::StatusOr<RenderedCase> rendered = Render(launcher_case);
  ASSERT_TRUE(rendered.ok()) << rendered.status();
  EXPECT_THAT(RenderedArguments(rendered->arguments, launcher_case.plan, 0),
              ::testing::Contains("--wandb-exp-name=--lr"));
}

TEST(LauncherTest, SaysWhatLooksTheSameButIsNot) {
  // Recomputation that drops nothing is no recomputation.
  LauncherCase launcher_case = CaseOf("llama8b_two_types_3x8");
  launcher_case.plan.meshes[0].stages[0].recompute = FullBlock(0);
  launcher_case.plan.meshes[1].stages[0].recompute = Selective(0);
  absl::StatusOr<RenderedCase> rendered = Render(launcher_case);
  ASSERT_TRUE(rendered.ok()) << rendered.status();
  const PlannedArguments planned = PlanArguments(rendered->arguments, launcher_case.plan);
  EXPECT_EQ(planned.recompute.size(), 1u);
  EXPECT_TRUE(planned.recompute[0].empty());
}

TEST(LauncherTest, KeepsDistributedActivationsOnlyWhereTheyAreLegal) {
  LauncherCase launcher_case = CaseOf("llama8b_two_types_3x8");
  launcher_case.argv.push_back("--distribute-saved-activations");
  launcher_case.plan.sequence_parallel = false;
  absl::StatusOr<RenderedCase> rendered = Render(launcher_case);
  ASSERT_TRUE(rendered.ok()) << rendered.status();
  const auto has = [&](int64_t stage) {
    const auto argv = RenderedArguments(rendered->arguments, launcher_case.plan, stage);
    return absl::c_linear_search(argv, "--distribute-saved-activations");
  };
  EXPECT_FALSE(has(0));  // It recomputes nothing.
  EXPECT_TRUE(has(2));   // Full, tp = 2.
  launcher_case.plan.sequence_parallel = true;
  EXPECT_FALSE(has(2));
}

TEST(LauncherTest, WritesTheDispatcherThatThePlanChose) {
  LauncherCase launcher_case = CaseOf("qwen30b_a3b_two_stages_a_node_4x8");
  std::erase(launcher_case.argv, "--moe-token-dispatcher-type");
  std::erase(launcher_case.argv, "alltoall");
  const auto dispatchers = [&] {
    absl::StatusOr<RenderedCase> rendered = Render(launcher_case);
    EXPECT_TRUE(rendered.ok()) << rendered.status();
    std::vector<std::string> argv = RenderedArguments(rendered->arguments, launcher_case.plan, 0);
    std::vector<std::string> values;
    for (size_t i = 1; i < argv.size(); ++i) {
      if (argv[i - 1] == "--moe-token-dispatcher-type") values.push_back(argv[i]);
    }
    return values;
  };
  using ::testing::ElementsAre;
  EXPECT_THAT(dispatchers(), ElementsAre());
  launcher_case.plan.dispatcher = model::Dispatcher::kAllGather;  // The engine's default.
  EXPECT_THAT(dispatchers(), ElementsAre());
  launcher_case.plan.dispatcher = model::Dispatcher::kAllToAll;
  EXPECT_THAT(dispatchers(), ElementsAre("alltoall"));
  launcher_case.argv.push_back("--moe-token-dispatcher-type=flex");
  EXPECT_THAT(dispatchers(), ElementsAre("alltoall"));
  launcher_case.plan.dispatcher.reset();
  EXPECT_THAT(launcher_case.argv.back(), "--moe-token-dispatcher-type=flex");
}

TEST(LauncherTest, LeavesOutWhatTheLayoutExcludesAndNothingElse) {
  struct Expectation {
    const char* case_name;  // pp, virtual stages, degrees and recomputation come from here.
    const char* extra;      // Added to the job.
    std::vector<std::string> left_out;
  };
  const char* const kInterleaved = "llama8b_interleaved_4x8";    // pp 4 x 2, tp 2 with SP, full.
  const char* const kTwoTypes = "llama8b_two_types_3x8";         // pp 3, tp 2 with SP, full.
  const char* const kIdle = "llama8b_rest_of_a_node_idles_2x8";  // pp 3, no recomputation.
  const char* const kOneGpu = "gpt2_learned_tied_fp16_1x1";      // pp 1, no recomputation.
  const char* const kExperts = "qwen30b_a3b_two_stages_a_node_4x8";  // pp 8, ep 4, tp 1, full.
  const std::vector<Expectation> expectations = {
      {kOneGpu, "--cpu-offloading-num-layers 2", {}},
      {kIdle, "--cpu-offloading-num-layers 2", {"--cpu-offloading-num-layers"}},
      {kIdle, "--cpu-offloading-num-layers 0", {}},
      {kTwoTypes, "--tp-comm-overlap", {}},
      {kExperts, "--tp-comm-overlap", {"--tp-comm-overlap"}},
      {kOneGpu, "--hybrid-context-parallel", {}},
      {kIdle, "--hybrid-context-parallel", {"--hybrid-context-parallel"}},
      {kOneGpu, "--hierarchical-context-parallel-sizes 1 1 --cp-comm-type a2a+p2p", {}},
      {kOneGpu,
       "--hierarchical-context-parallel-sizes 99999999999999999999 2 --cp-comm-type p2p",
       {"--hierarchical-context-parallel-sizes"}},
      {kInterleaved, "--no-overlap-p2p-communication", {}},
      {kInterleaved, "--overlap-p2p-communication-warmup-flush", {}},
      {kIdle,
       "--overlap-p2p-communication-warmup-flush",
       {"--overlap-p2p-communication-warmup-flush"}},
      {kIdle, "--defer-embedding-wgrad-compute --wgrad-deferral-limit 1", {}},
      {kOneGpu,
       "--defer-embedding-wgrad-compute --wgrad-deferral-limit 1",
       {"--defer-embedding-wgrad-compute", "--wgrad-deferral-limit"}},
      {kExperts,
       "--delay-wgrad-compute --overlap-moe-expert-parallel-comm",
       {"--delay-wgrad-compute", "--overlap-moe-expert-parallel-comm"}},
      {kIdle, "--tensor-parallel-num-weight-shards 8", {"--tensor-parallel-num-weight-shards"}},
      {kTwoTypes, "--eval-global-batch-size 8", {}},  // dp = 4.
      {kTwoTypes, "--eval-global-batch-size 6", {"--eval-global-batch-size"}},
      {kTwoTypes,
       "--eval-global-batch-size 8 --eval-micro-batch-size 4",
       {"--eval-global-batch-size", "--eval-micro-batch-size"}},
      {kIdle, "--cuda-graph-impl local --cuda-graph-warmup-steps 3", {}},
      {kTwoTypes,
       "--cuda-graph-impl local --cuda-graph-warmup-steps 3",
       {"--cuda-graph-impl", "--cuda-graph-warmup-steps"}},
      {kTwoTypes, "--cuda-graph-impl full_iteration", {}},
      {kTwoTypes, "--cuda-graph-impl none", {}},
  };
  for (const Expectation& expectation : expectations) {
    LauncherCase launcher_case = CaseOf(expectation.case_name);
    for (const std::string& word : SplitWords(expectation.extra)) {
      launcher_case.argv.push_back(word);
    }
    absl::StatusOr<RenderedCase> rendered = Render(launcher_case);
    ASSERT_TRUE(rendered.ok()) << rendered.status();
    std::vector<std::string> left_out;
    for (const Withdrawn& withdrawn :
         PlanArguments(rendered->arguments, launcher_case.plan).withdrawn) {
      left_out.push_back(withdrawn.flag);
    }
    EXPECT_EQ(left_out, expectation.left_out) << expectation.case_name << " " << expectation.extra;
  }
}

}  // namespace
}  // namespace hapmoe::engine
