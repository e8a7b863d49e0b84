// Jobs that Megatron-LM refuses: each is refused here too, by exactly the rules it breaks.
#include <set>
#include <string>
#include <vector>

#include "core/engine/megatron_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/engine/refusals.h"

namespace hapmoe::engine {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Violations Check(const Argv& argv, int64_t world_size, const plan::Environment& environment,
                 int architecture = 9) {
  Violations violations;
  const MegatronJob job = ParseMegatronJob(argv, violations);
  const Violations more = CheckMegatronJob(
      job, {.world_size = world_size, .environment = &environment, .architecture = architecture});
  violations.insert(violations.end(), more.begin(), more.end());
  return violations;
}

std::vector<Refusal> All() {
  std::vector<Refusal> all;
  for (auto* part : {&WorldAndDimensions, &BatchAndLayers, &Layouts, &Recomputation, &ExpertOptions,
                     &OptimizerAndPrecision}) {
    for (Refusal& refusal : (*part)()) all.push_back(std::move(refusal));
  }
  return all;
}

class RefusalTest : public ::testing::TestWithParam<Refusal> {};

TEST_P(RefusalTest, NamesTheRulesAndTheValues) {
  const Refusal& refusal = GetParam();
  const Violations violations =
      Check(refusal.argv, refusal.world_size, refusal.environment, refusal.architecture);
  std::vector<std::string> rules;
  std::string messages;
  for (const Violation& violation : violations) {
    rules.push_back(violation.rule);
    messages += violation.message + "\n";
  }
  EXPECT_THAT(rules, ElementsAreArray(refusal.rules)) << messages;
  EXPECT_THAT(messages.substr(0, messages.find('\n')), HasSubstr(refusal.words));
}

INSTANTIATE_TEST_SUITE_P(Rules, RefusalTest, ::testing::ValuesIn(All()),
                         [](const auto& param_info) { return param_info.param.name; });

TEST(RefusalCoverage, EveryRuleHasACase) {
  std::set<std::string> seen;
  for (const Refusal& refusal : All()) seen.insert(refusal.rules.begin(), refusal.rules.end());
  for (const plan::Rule& rule : plan::MegatronRules()) {
    // Arguments cannot say it: sizes below 1 are refused when they are read.
    if (rule.name == "degrees_positive") continue;
    EXPECT_TRUE(seen.count(std::string(rule.name))) << rule.name;
  }
}

TEST(AcceptedJobs, BreakNoRule) {
  const std::pair<Argv, int64_t> jobs[] = {
      {D("--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --sequence-parallel"),
       16},
      {DenseTp2Pp4("--pipeline-model-parallel-layout Et*7|t*9|t*9|t*7L"), 8},
      {DenseTp2Pp4("--num-layers 30 --account-for-embedding-in-pipeline-split "
                   "--account-for-loss-in-pipeline-split"),
       8},
      {DenseTp2Pp4("--recompute-granularity full --recompute-method block "
                   "--recompute-num-layers 99"),
       8},
      {E("--expert-model-parallel-size 8 --expert-tensor-parallel-size 1"), 8},
      {E("--expert-tensor-parallel-size 4"), 8},  // Larger than tp.
      {L("--tensor-model-parallel-size 2 --sequence-parallel --pipeline-model-parallel-size 16 "
         "--expert-model-parallel-size 64 --expert-tensor-parallel-size 1 "
         "--pipeline-model-parallel-layout Et*3|(tt|)*29,m|L"),
       1024},
      {Words("--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 "
             "--max-position-embeddings 1024 --micro-batch-size 4 --global-batch-size 8 --fp16"),
       1},
      {DenseTp2Pp4("--num-layers 1 --pipeline-model-parallel-layout E||t|L"), 8},
  };
  for (const auto& [argv, world_size] : jobs) {
    EXPECT_THAT(Check(argv, world_size, kOneConnection), IsEmpty());
  }
}

TEST(EnvironmentRules, HoldWhereNothingIsKnownOfIt) {
  Violations violations;
  const MegatronJob job = ParseMegatronJob(DenseTp2Pp4(""), violations);
  EXPECT_THAT(violations, IsEmpty());
  EXPECT_THAT(CheckMegatronJob(job, {.world_size = 8}), IsEmpty());
  const plan::Environment empty;
  EXPECT_THAT(CheckMegatronJob(job, {.world_size = 8, .environment = &empty, .architecture = 10}),
              IsEmpty());
}

TEST(JobScope, LeavesOutWhatAPlanWillDecide) {
  Violations violations;
  const MegatronJob job =
      ParseMegatronJob(DenseTp2Pp4("--num-layers 30 --fp16"), violations);  // 30 layers on 4.
  const Violations found = CheckMegatronJob(job, {.world_size = 12}, plan::kJobScope);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found.front().rule, "bf16_excludes_fp16");
}

}  // namespace
}  // namespace hapmoe::engine
