// Which links the borders of a pipeline use, on clusters that fit in the head.
#include "core/cost/border.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/cost/evaluate.h"
#include "core/plan/node_assignment.h"
#include "tests/core/testing/fixtures.h"

namespace hapmoe::cost {
namespace {

using hapmoe::testing::ScaledProfile;
using hapmoe::testing::SmallModel;
using hapmoe::testing::SmallPool;
using hapmoe::testing::SmallTraining;

// Stages of one pool in a row.
struct StagesOnPool {
  int64_t pool = 0;
  int64_t stages = 1;
  int64_t ranks = 1;  // Of each, dp.
};

struct Case {
  std::string name;
  std::vector<StagesOnPool> runs;
  std::string reaches;  // Of each stage to the next: island, domain or network.
  int64_t island = 0;   // Where domains have islands.
  plan::RankOrder order = plan::RankOrder::kPipelineOutermost;
};

class BorderTest : public ::testing::TestWithParam<Case> {
 protected:
  // Two pools of four nodes of 8, which are domains.
  BorderTest() {
    problem_.model = SmallModel(16, 256, 4);
    problem_.training = SmallTraining(64);
    problem_.cluster.pools = {SmallPool("a", 4, 8), SmallPool("b", 4, 8)};
    for (const char* name : {"a", "b"}) {
      auto profile = std::make_shared<profile::AcceleratorProfile>(*ScaledProfile(name, 1, 1e12));
      if (GetParam().island > 0) {
        profile->bridge = profile::Bridge{.island = GetParam().island, .bytes_per_second = 1e9};
      }
      problem_.profiles.push_back(std::move(profile));
    }
    plan_.rank_order = GetParam().order;
    for (const StagesOnPool& run : GetParam().runs) {
      plan::Mesh mesh;
      mesh.pool = run.pool;
      mesh.degrees.dp = run.ranks;
      mesh.stages.resize(static_cast<size_t>(run.stages), plan::Stage{{plan::Chunk{}}, {}});
      plan_.meshes.push_back(std::move(mesh));
      for (int64_t i = 0; i < run.stages; ++i) {
        costs_.push_back(std::make_unique<MeshCost>(problem_, run.pool, plan_.meshes.back().degrees,
                                                    /*micro_batch=*/1, /*sequence_parallel=*/false,
                                                    std::vector<uint32_t>{}));
      }
    }
  }

  std::vector<const MeshCost*> costs() const {
    std::vector<const MeshCost*> costs;
    for (const auto& cost : costs_) costs.push_back(cost.get());
    return costs;
  }

  Problem problem_;
  plan::Plan plan_;
  std::vector<std::unique_ptr<MeshCost>> costs_;
};

TEST_P(BorderTest, ReachesAsFarAsItsRanksAreApart) {
  std::string reaches;
  for (const Reach reach : BorderReaches(problem_, plan_, costs())) {
    reaches += reach == Reach::kNetwork ? 'n' : reach == Reach::kDomain ? 'd' : 'i';
  }
  EXPECT_EQ(reaches, GetParam().reaches);
}

// The nodes that ranks are started on are those that borders are charged for.
TEST_P(BorderTest, IsInsideANodeWhereTheAssignmentHasOneForBothStages) {
  const auto nodes = plan::AssignNodes(plan_, problem_.cluster);
  ASSERT_TRUE(nodes.ok()) << nodes.status();
  const std::vector<Reach> reaches = BorderReaches(problem_, plan_, costs());
  for (size_t i = 0; i < reaches.size(); ++i) {
    if (GetParam().order == plan::RankOrder::kDataOutermost) continue;  // On many nodes each.
    const auto& from = nodes->stages[i].node_ranks;
    const auto& to = nodes->stages[(i + 1) % reaches.size()].node_ranks;
    const bool one_node = from.size() == 1 && from == to;
    EXPECT_EQ(reaches[i] != Reach::kNetwork, one_node) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Pipelines, BorderTest,
    ::testing::Values(
        Case{"OneNode", {{0, 4, 2}}, "iiii"},
        // Every second stage ends a node, the last goes back to another.
        Case{"TwoNodes", {{0, 4, 4}}, "inin"}, Case{"StagesOfANode", {{0, 2, 8}}, "nn"},
        Case{"StagesOfTwoNodes", {{0, 2, 16}}, "nn"},
        // The rest of the first node idles: 4, then 8.
        Case{"PartOfANode", {{0, 3, 4}}, "nin"},
        // 6 and 6 of 16: the first is on ranks 6 to 11 from the end.
        Case{"StagesOnPartsOfNodes", {{0, 2, 6}}, "nn"},
        Case{"TwoPools", {{0, 2, 4}, {1, 2, 4}}, "inin"},
        // The pool returns to a new node: only the last and the first are as far apart.
        Case{"APoolReturns", {{0, 2, 4}, {1, 1, 8}, {0, 2, 4}}, "innin"},
        Case{"PartOfANodeBeforeAnotherPool", {{0, 3, 4}, {1, 1, 8}}, "ninn"},
        Case{"StagesOfSeveralSizes", {{0, 2, 4}, {0, 4, 2}}, "iniiin"},
        Case{"Islands", {{0, 4, 2}}, "idid", 4}, Case{"StagesOfAnIsland", {{0, 4, 4}}, "dndn", 4},
        // Replicas of 4 lie in nodes, two in each.
        Case{"ReplicasInNodes", {{0, 4, 4}}, "iiii", 0, plan::RankOrder::kDataOutermost},
        // From the end, the second replica is on 6 to 11 and the third on 12 to 17: stages 3 and 4
        // of the one, and 1 and 2 of the other, are on two nodes.
        Case{"ReplicasAcrossNodes", {{0, 6, 4}}, "ininin", 0, plan::RankOrder::kDataOutermost}),
    [](const ::testing::TestParamInfo<Case>& one) { return one.param.name; });

// 8 layers on two nodes of 8, split evenly over `stages` stages of `dp` ranks.
struct EvenPipeline {
  EvenPipeline(int64_t stages, int64_t dp, int64_t global_batch) {
    problem.model = SmallModel(8, 256, 4);
    problem.training = SmallTraining(global_batch);
    problem.cluster.pools = {SmallPool("a", 2, 8)};
    problem.profiles = {ScaledProfile("a", 1, 1e12)};
    plan.meshes.push_back({.pool = 0, .degrees = {.dp = dp}, .stages = {}});
    const int64_t layers = 8 / stages;
    for (int64_t i = 0; i < stages; ++i) {
      plan::Chunk chunk = {.first_layer = layers * i, .layers = layers};
      chunk.embedding = i == 0;
      chunk.loss = i + 1 == stages;
      plan.meshes[0].stages.push_back({{chunk}, {}});
    }
    plan.global_batch = global_batch;
    plan.micro_batches = global_batch / dp;
  }
  double Seconds() const { return Evaluate(problem, plan)->iteration_seconds; }

  Problem problem;
  plan::Plan plan;
};

TEST(Borders, AcrossNodesAreAsSlowAsTheNetwork) {
  EvenPipeline pipeline(/*stages=*/4, /*dp=*/4, /*global_batch=*/64);
  const double fast = pipeline.Seconds();
  pipeline.problem.cluster.pools[0].network.bytes_per_second = 1e3;
  EXPECT_GT(pipeline.Seconds(), 2 * fast);
}

TEST(Stages, AcrossNodesReduceTheirGradientsOverTheNetwork) {
  EvenPipeline pipeline(/*stages=*/2, /*dp=*/6, /*global_batch=*/60);
  // The network carries borders, and the gradients of the stage on ranks 6 to 11 from the end.
  const double fast = pipeline.Seconds();
  pipeline.problem.cluster.pools[0].network.bytes_per_second = 1e6;
  const double slow = pipeline.Seconds();
  // On nodes of 6 both stages have one of their own, and borders alone are slower.
  pipeline.problem.cluster.pools = {SmallPool("a", 2, 6)};
  pipeline.problem.cluster.pools[0].network.bytes_per_second = 1e6;
  const double own_nodes = pipeline.Seconds();
  EXPECT_GT(own_nodes, fast);
  const double stage_gradient_bytes =
      4.0 *
      static_cast<double>(Evaluate(pipeline.problem, pipeline.plan)->stages[0].dense_parameters);
  // Two of the six are on one node, so that a rail carries a half of them once at least.
  EXPECT_GT(slow, own_nodes + 0.4 * stage_gradient_bytes / 1e6);
}

}  // namespace
}  // namespace hapmoe::cost
