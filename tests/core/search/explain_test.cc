// Sentences against tests/golden/explain; HAPMOE_REGENERATE_GOLDENS=1 writes them instead.
#include "core/search/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/core/testing/fixtures.h"

namespace hapmoe::search {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
using Granularity = model::Recompute::Granularity;

void ExpectGolden(const std::vector<std::string>& sentences, const std::string& name) {
  const std::string path = absl::StrCat(HAPMOE_SOURCE_DIR, "/tests/golden/explain/", name);
  const std::string text = absl::StrCat(absl::StrJoin(sentences, "\n"), "\n");
  if (std::getenv("HAPMOE_REGENERATE_GOLDENS") != nullptr) {
    std::ofstream(path, std::ios::binary) << text;
    return;
  }
  std::ifstream file(path, std::ios::binary);
  ASSERT_TRUE(file.is_open()) << path;
  EXPECT_EQ(text, std::string(std::istreambuf_iterator<char>(file), {}));
}

cost::Problem TwoPools() {
  cost::Problem problem;
  problem.cluster.pools = {testing::SmallPool("fast", 4, 8), testing::SmallPool("slow", 2, 8)};
  problem.profiles = {testing::ScaledProfile("H800-SXM", 3, 80e9),
                      testing::ScaledProfile("A100-SXM", 1, 80e9)};
  return problem;
}

// One stage of a plan in a test.
struct StageOf {
  int64_t pool;
  int64_t layers;
  double seconds;  // Of one micro-batch.
  double gibibytes;
  Granularity recompute = Granularity::kNone;
};

// A plan of consecutive stages, a mesh each, whose iteration is the sum of the parts of its time.
Costed Make(plan::Degrees degrees, const std::vector<StageOf>& stages,
            const cost::TimeBreakdown& time) {
  Costed costed;
  costed.plan.micro_batches = 32;
  for (const StageOf& of : stages) {
    plan::Mesh& mesh = costed.plan.meshes.emplace_back();
    mesh.pool = of.pool;
    mesh.degrees = degrees;
    plan::Stage& stage = mesh.stages.emplace_back();
    stage.chunks.emplace_back().layers = of.layers;
    stage.recompute.granularity = of.recompute;
    cost::StagePrediction& predicted = costed.prediction.stages.emplace_back();
    predicted.forward_seconds = of.seconds / 3;
    predicted.backward_seconds = of.seconds - of.seconds / 3;
    predicted.memory.parameters_bytes = of.gibibytes * kGiB;
    predicted.memory.budget_bytes = 75 * kGiB;
  }
  costed.prediction.time = time;
  costed.prediction.iteration_seconds =
      time.compute_seconds + time.recompute_seconds + time.tensor_parallel_seconds +
      time.context_parallel_seconds + time.expert_parallel_seconds + time.pipeline_seconds +
      time.bubble_seconds + time.gradient_sync_seconds + time.optimizer_seconds +
      time.launch_seconds;
  return costed;
}

// 5, 14 and 13 layers where the accelerators' speeds put them.
Costed Best() {
  return Make({.tp = 1, .cp = 2, .dp = 8, .ep = 8},
              {{1, 5, 0.153, 23.6}, {0, 14, 0.155, 50.6}, {0, 13, 0.149, 40.5}},
              {.stage = 1,
               .compute_seconds = 4.6,
               .expert_parallel_seconds = 0.35,
               .pipeline_seconds = 0.03,
               .bubble_seconds = 0.27,
               .gradient_sync_seconds = 0.05,
               .optimizer_seconds = 0.02});
}

// As many layers everywhere.
Costed Even() {
  return Make({.tp = 2, .cp = 1, .dp = 8, .ep = 8},
              {{0, 10, 0.11, 44}, {0, 11, 0.12, 40}, {1, 11, 0.34, 70}},
              {.stage = 2,
               .compute_seconds = 8.2,
               .tensor_parallel_seconds = 0.9,
               .expert_parallel_seconds = 0.34,
               .pipeline_seconds = 0.02,
               .bubble_seconds = 0.1,
               .gradient_sync_seconds = 0.05,
               .optimizer_seconds = 0.02});
}

TEST(ExplainTest, SlowerLayoutIsTakenApart) {
  const Explanation explanation = Explain(TwoPools(), Best(), Even());
  ExpectGolden(explanation.sentences, "slower.txt");
  double best = 0;
  double given = 0;
  for (const TermDifference& term : explanation.terms) {
    best += term.best_seconds;
    given += term.given_seconds;
  }
  EXPECT_DOUBLE_EQ(best, Best().prediction.iteration_seconds);
  EXPECT_DOUBLE_EQ(given, Even().prediction.iteration_seconds);
}

TEST(ExplainTest, LayoutThatDoesNotFitSaysSoFirst) {
  Costed full = Even();
  full.prediction.stages[1].memory.parameters_bytes = 80 * kGiB;
  full.prediction.stages[2].memory.parameters_bytes = 81.5 * kGiB;
  for (plan::Mesh& mesh : full.plan.meshes) {
    mesh.stages[0].recompute.granularity = Granularity::kFull;
  }
  full.plan.meshes[0].stages[0].recompute.granularity = Granularity::kSelective;
  ExpectGolden(Explain(TwoPools(), Best(), full).sentences, "misfit.txt");
}

TEST(ExplainTest, FasterLayoutIsAdmitted) {
  ExpectGolden(Explain(TwoPools(), Even(), Best()).sentences, "faster.txt");
}

TEST(ExplainTest, TheSameLayoutHasNothingToExplain) {
  ExpectGolden(Explain(TwoPools(), Best(), Best()).sentences, "same.txt");
}

TEST(ExplainTest, SingleStageOnOnePool) {
  cost::Problem problem = TwoPools();
  problem.cluster.pools.resize(1);
  problem.profiles.resize(1);
  const Costed best =
      Make({.dp = 8}, {{0, 1, 0.004, 9}}, {.compute_seconds = 0.1, .launch_seconds = 0.02});
  Costed given =
      Make({.tp = 8, .dp = 1}, {{0, 1, 0.009, 4}},
           {.compute_seconds = 0.1, .tensor_parallel_seconds = 0.1, .launch_seconds = 0.09});
  given.plan.micro_batch = 4;
  given.plan.micro_batches = 1;
  ExpectGolden(Explain(problem, best, given).sentences, "single.txt");
}

TEST(ExplainTest, HostMemoryIsNamedWhereItBinds) {
  Costed given = Even();
  given.prediction.stages[0].memory.host_bytes = 12 * kGiB;
  given.prediction.stages[0].memory.host_budget_bytes = 10 * kGiB;
  EXPECT_EQ(Explain(TwoPools(), Best(), given).sentences.front(),
            "The layout does not fit: stage 0 on H800-SXM lacks 2.00 GiB of host memory for each "
            "rank.");
}

TEST(ExplainTest, EveryPartOfTheTimeCanBeTheReason) {
  using Time = cost::TimeBreakdown;
  const std::pair<double Time::*, const char*> parts[] = {
      {&Time::compute_seconds, "compute"},
      {&Time::recompute_seconds, "recompute"},
      {&Time::tensor_parallel_seconds, "tensor parallel"},
      {&Time::context_parallel_seconds, "context parallel"},
      {&Time::expert_parallel_seconds, "expert parallel"},
      {&Time::pipeline_seconds, "pipeline transfers"},
      {&Time::bubble_seconds, "bubble"},
      {&Time::gradient_sync_seconds, "gradient sync"},
      {&Time::optimizer_seconds, "optimizer"},
      {&Time::launch_seconds, "host launches"}};
  const Costed best = Make({}, {{0, 1, 0.1, 9}}, {.compute_seconds = 1});
  for (const auto& [part, name] : parts) {
    Time time = {.compute_seconds = 1};
    time.*part += 2;
    const Costed given = Make({}, {{0, 1, 0.1, 9}}, time);
    EXPECT_THAT(Explain(TwoPools(), best, given).sentences,
                Contains(HasSubstr(absl::StrCat("longer in ", name, " by 2 s ("))));
  }
}

TEST(KindOfTest, NamesWhatDiffers) {
  const plan::Plan plan = Best().plan;
  EXPECT_EQ(KindOf(TwoPools(), plan, plan), "the same layout");

  plan::Plan degrees = plan;
  for (plan::Mesh& mesh : degrees.meshes) mesh.degrees.tp = 8;
  degrees.meshes.pop_back();
  degrees.meshes.back().stages[0].chunks[0].layers = 27;
  EXPECT_EQ(KindOf(TwoPools(), degrees, plan),
            "tp 8 instead of 1, 2 stages instead of 3, accelerators 256 instead of 48");

  plan::Plan batch = plan;
  batch.micro_batch = 2;
  EXPECT_EQ(KindOf(TwoPools(), batch, plan), "micro-batch 2 instead of 1");

  plan::Plan pools = plan;
  pools.meshes[0].pool = 0;
  EXPECT_EQ(KindOf(TwoPools(), pools, plan), "other pools in turn");

  plan::Plan layers = plan;
  layers.meshes[0].stages[0].chunks[0].layers = 6;
  layers.meshes[1].stages[0].chunks[0].layers = 13;
  EXPECT_EQ(KindOf(TwoPools(), layers, plan), "layers 6 13 13 instead of 5 14 13");

  plan::Plan recompute = plan;
  recompute.meshes[0].stages[0].recompute.granularity = Granularity::kFull;
  EXPECT_EQ(KindOf(TwoPools(), recompute, plan),
            "recomputation full on 1 of 3 stages instead of none");

  plan::Plan by_mesh = plan;
  by_mesh.meshes[0].degrees.ep = 4;
  EXPECT_EQ(KindOf(TwoPools(), by_mesh, plan), "ep 4|8|8 instead of 8");

  plan::Plan dispatch = plan;
  dispatch.dispatcher = model::Dispatcher::kFlex;
  EXPECT_EQ(KindOf(TwoPools(), dispatch, plan), "dispatcher flex instead of allgather");
  // Where tokens stay on their ranks nothing dispatches them.
  for (plan::Mesh& mesh : dispatch.meshes) mesh.degrees.ep = mesh.degrees.etp = 1;
  EXPECT_EQ(KindOf(TwoPools(), dispatch, plan), "ep 1 instead of 8");
}

}  // namespace
}  // namespace hapmoe::search
