#include "core/cost/coverage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/cost/evaluate.h"
#include "core/cost/mesh_cost.h"
#include "tests/core/testing/fixtures.h"

namespace hapmoe::cost {
namespace {

using hapmoe::testing::ScaledProfile;
using hapmoe::testing::SmallModel;
using hapmoe::testing::SmallPool;
using hapmoe::testing::SmallTraining;

// Six layers on two stages of one accelerator each, four micro-batches; layers 0 and 1 are dense.
struct Case {
  Problem problem;
  plan::Plan plan;

  Case() {
    problem.model = SmallModel(6, 256, 4);
    problem.model.layer_kinds[0] = model::LayerKind::kDense;
    problem.model.layer_kinds[1] = model::LayerKind::kDense;
    problem.training = SmallTraining(4);
    problem.cluster.pools = {SmallPool("fast", 1, 1), SmallPool("slow", 1, 1)};
    problem.profiles = {ScaledProfile("fast", 2, 1e12), ScaledProfile("slow", 1, 1e12)};
    for (int64_t pool = 0; pool < 2; ++pool) {
      plan::Chunk chunk;
      chunk.first_layer = 3 * pool;
      chunk.layers = 3;
      chunk.embedding = pool == 0;
      chunk.loss = pool == 1;
      plan.meshes.push_back(
          {.pool = pool, .degrees = {}, .stages = {{.chunks = {chunk}, .recompute = {}}}});
    }
    plan.global_batch = 4;
    plan.micro_batches = 4;
  }
};

Evidence Sum(const std::vector<OperationCoverage>& list) {
  Evidence sum;
  for (const OperationCoverage& one : list) sum += one.evidence;
  return sum;
}

double SecondsOf(const std::vector<OperationCoverage>& list, const std::string& operation,
                 const std::string& accelerator) {
  double seconds = 0;
  for (const OperationCoverage& one : list) {
    if (one.operation == operation && one.accelerator == accelerator) {
      seconds += one.evidence.total();
    }
  }
  return seconds;
}

// Nothing is lost or counted twice: the list adds up to what the prediction rests on, but for the
// optimizer step, which is no operation of the model.
TEST(CoverageTest, AddsUpToTheEvidenceOfThePrediction) {
  for (const int64_t prediction_layers : {0, 1}) {
    SCOPED_TRACE(prediction_layers);
    Case one;
    one.problem.model.mtp_layers = prediction_layers;
    one.plan.meshes[1].stages[0].chunks[0].mtp_layers = prediction_layers;
    const auto prediction = Evaluate(one.problem, one.plan);
    ASSERT_TRUE(prediction.ok()) << prediction.status();
    const Evidence sum = Sum(CoverageOf(one.problem, one.plan));
    double expected = prediction->evidence.measured_seconds +
                      prediction->evidence.interpolated_seconds +
                      prediction->evidence.analytic_seconds;
    for (const plan::Mesh& mesh : one.plan.meshes) {
      const MeshCost costs(one.problem, mesh.pool, mesh.degrees, 1, false, {});
      expected -= costs.Tail(costs.Stage(mesh.stages[0])).optimizer_seconds;
    }
    EXPECT_GT(expected, 0);
    EXPECT_NEAR(sum.total() / expected, 1, 1e-9);
  }
}

TEST(CoverageTest, CountsEachOperationOnItsOwnAccelerator) {
  const Case one;
  const auto list = CoverageOf(one.problem, one.plan);
  // Three layers on each; the slow side takes twice as long for each.
  const double fast = SecondsOf(list, "core_attention", "fast");
  EXPECT_GT(fast, 0);
  EXPECT_NEAR(SecondsOf(list, "core_attention", "slow") / fast, 2, 1e-9);
  // One MoE layer on the fast side against three on the slow one.
  const double router = SecondsOf(list, "router", "fast");
  EXPECT_GT(router, 0);
  EXPECT_NEAR(SecondsOf(list, "router", "slow") / router, 6, 1e-9);
}

TEST(CoverageTest, RecomputationIsNotCountedAgain) {
  Case one;
  const double plain = Sum(CoverageOf(one.problem, one.plan)).total();
  one.plan.meshes[0].stages[0].recompute.granularity = model::Recompute::Granularity::kFull;
  EXPECT_DOUBLE_EQ(Sum(CoverageOf(one.problem, one.plan)).total(), plain);
}

TEST(CoverageTest, CalculatedTimeComesFirstAndMeasuredShapesSayThatTheyAre) {
  Case one;
  const auto before = CoverageOf(one.problem, one.plan);
  ASSERT_GT(before.size(), 2u);
  EXPECT_TRUE(std::is_sorted(before.begin(), before.end(), [](const auto& a, const auto& b) {
    return a.evidence.analytic_seconds > b.evidence.analytic_seconds;
  }));
  const auto attention = std::find_if(before.begin(), before.end(), [](const auto& entry) {
    return entry.operation == "core_attention" && entry.accelerator == "slow";
  });
  ASSERT_NE(attention, before.end());
  EXPECT_EQ(attention->evidence.measured_seconds, 0);

  // A table whose one sample is that very shape.
  auto profile = std::make_shared<profile::AcceleratorProfile>(*one.problem.profiles[1]);
  const profile::OperationShape shape{
      static_cast<double>(attention->m), static_cast<double>(attention->n),
      static_cast<double>(attention->k), static_cast<double>(attention->groups)};
  profile->tables.emplace_back(profile::TableKind::kAttention, profile::MatrixPrecision::kBf16,
                               profile::BaseFit{},
                               *profile->ChipFor(profile::MatrixPrecision::kBf16),
                               profile::OperationTable::Samples{{shape}, {1e-3}}, 1.0, "test");
  one.problem.profiles[1] = profile;
  for (const OperationCoverage& entry : CoverageOf(one.problem, one.plan)) {
    if (entry.operation != "core_attention" || entry.accelerator != "slow") continue;
    // Forward is measured; backward is calculated from it.
    EXPECT_GT(entry.evidence.measured_seconds, 0);
    EXPECT_GT(entry.evidence.analytic_seconds, 0);
  }
}

}  // namespace
}  // namespace hapmoe::cost
