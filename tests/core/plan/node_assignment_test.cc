// Nodes of a plan, on clusters that fit in the head.
#include "core/plan/node_assignment.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hapmoe::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

cluster::Pool PoolOf(std::string name, int64_t nodes, int64_t accelerators_per_node) {
  cluster::Pool pool;
  pool.name = std::move(name);
  pool.nodes = nodes;
  pool.accelerators_per_node = accelerators_per_node;
  return pool;
}

// Stages of 4 ranks: tp = 2, dp = 2.
Mesh MeshOf(int64_t pool, int64_t stages) {
  Mesh mesh;
  mesh.pool = pool;
  mesh.degrees = {2, 1, 2, 1, 2};
  mesh.stages.resize(stages, Stage{{Chunk{}}, {}});
  return mesh;
}

Plan PlanOf(std::vector<Mesh> meshes) {
  Plan plan;
  plan.meshes = std::move(meshes);
  return plan;
}

std::vector<std::string> Hosts(const NodeAssignment& assignment) {
  std::vector<std::string> hosts;
  for (const AssignedNode& node : assignment.nodes) hosts.push_back(node.host);
  return hosts;
}

TEST(AssignNodesTest, SeveralStagesShareANode) {
  const absl::StatusOr<NodeAssignment> nodes =
      AssignNodes(PlanOf({MeshOf(0, 4)}), {{PoolOf("a", 3, 8)}, {}});
  ASSERT_TRUE(nodes.ok()) << nodes.status();
  EXPECT_THAT(nodes->nodes,
              ElementsAre(AssignedNode{0, "a-0", 0, 0, 0, 8}, AssignedNode{1, "a-1", 0, 1, 8, 8}));
  EXPECT_THAT(nodes->stages,
              ElementsAre(StagePlacement{0, 4, true, {0}}, StagePlacement{4, 4, true, {0}},
                          StagePlacement{8, 4, true, {1}}, StagePlacement{12, 4, true, {1}}));
  EXPECT_FALSE(nodes->hosts_named);
}

TEST(AssignNodesTest, AStageSpansNodesAndMayBeginInsideOne) {
  // Nodes of 3: ranks 0-1, 2-4, 5-7. Stage 0 is ranks 0-3, stage 1 ranks 4-7.
  const absl::StatusOr<NodeAssignment> nodes =
      AssignNodes(PlanOf({MeshOf(0, 2)}), {{PoolOf("a", 3, 3)}, {}});
  ASSERT_TRUE(nodes.ok()) << nodes.status();
  EXPECT_THAT(nodes->stages,
              ElementsAre(StagePlacement{0, 4, true, {0, 1}}, StagePlacement{4, 4, true, {1, 2}}));
  EXPECT_EQ(nodes->nodes[0].processes, 2);  // One accelerator idles.
}

TEST(AssignNodesTest, RestOfANodeIdlesWhereTheRunOnItsPoolBegins) {
  // Three stages of 4 on nodes of 8: the first node starts 4; the next pool begins a node.
  const absl::StatusOr<NodeAssignment> nodes = AssignNodes(
      PlanOf({MeshOf(0, 3), MeshOf(1, 1)}), {{PoolOf("a", 2, 8), PoolOf("b", 1, 4)}, {}});
  ASSERT_TRUE(nodes.ok()) << nodes.status();
  EXPECT_THAT(nodes->nodes,
              ElementsAre(AssignedNode{0, "a-0", 0, 0, 0, 4}, AssignedNode{1, "a-1", 0, 1, 4, 8},
                          AssignedNode{2, "b-0", 1, 0, 12, 4}));
}

TEST(AssignNodesTest, APoolThatReturnsGoesOnWithItsNextNode) {
  cluster::Cluster cluster{{PoolOf("a", 2, 8), PoolOf("b", 1, 8)}, {}};
  cluster.pools[0].hosts = {"fast0", "fast1"};
  cluster.pools[1].hosts = {"slow0"};
  const absl::StatusOr<NodeAssignment> nodes =
      AssignNodes(PlanOf({MeshOf(0, 1), MeshOf(1, 2), MeshOf(0, 1)}), cluster);
  ASSERT_TRUE(nodes.ok()) << nodes.status();
  EXPECT_THAT(Hosts(*nodes), ElementsAre("fast0", "slow0", "fast1"));
  EXPECT_TRUE(nodes->hosts_named);
  EXPECT_EQ(nodes->nodes[2].first_rank, 12);
}

TEST(AssignNodesTest, ConsecutiveMeshesOnOnePoolShareNodes) {
  const absl::StatusOr<NodeAssignment> nodes =
      AssignNodes(PlanOf({MeshOf(0, 1), MeshOf(0, 1)}), {{PoolOf("a", 1, 8)}, {}});
  ASSERT_TRUE(nodes.ok()) << nodes.status();
  EXPECT_EQ(nodes->nodes.size(), 1u);
}

TEST(AssignNodesTest, NamesThePoolThatHasTooFewNodes) {
  // a, b, a with 4 ranks each run on two nodes of a, though one has as many accelerators.
  const absl::StatusOr<NodeAssignment> nodes =
      AssignNodes(PlanOf({MeshOf(0, 1), MeshOf(1, 1), MeshOf(0, 1)}),
                  {{PoolOf("a", 1, 8), PoolOf("b", 1, 8)}, {}});
  EXPECT_EQ(nodes.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(nodes.status().message()),
              HasSubstr("needs 2 nodes of pool \"a\" with 8 accelerators each, and it has 1"));
}

TEST(AssignNodesTest, RefusesMoreRanksThanNumbersCanSay) {
  // 2^62 x 2 stages would be negative, 2^32 x 2^32 nothing.
  for (const Degrees degrees : {Degrees{.tp = int64_t{1} << 31, .dp = int64_t{1} << 31},
                                Degrees{.tp = int64_t{1} << 32, .dp = int64_t{1} << 32}}) {
    Mesh mesh = MeshOf(0, 2);
    mesh.degrees = degrees;
    const absl::Status status = AssignNodes(PlanOf({mesh}), {{PoolOf("a", 1, 8)}, {}}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr("more than the 8 accelerators"));
  }
}

TEST(AssignNodesTest, RefusesMeshesThatNameNoPool) {
  for (int64_t pool : {-1, 1}) {
    EXPECT_EQ(AssignNodes(PlanOf({MeshOf(pool, 1)}), {{PoolOf("a", 1, 8)}, {}}).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(AssignNodes(Plan(), {{PoolOf("a", 1, 8)}, {}}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(AssignNodesTest, DerivedNamesHoldOnlyWhatHostNamesHold) {
  const absl::StatusOr<NodeAssignment> nodes =
      AssignNodes(PlanOf({MeshOf(0, 1)}), {{PoolOf("my pool/\n$", 1, 8)}, {}});
  ASSERT_TRUE(nodes.ok()) << nodes.status();
  EXPECT_EQ(nodes->nodes[0].host, "my-pool----0");
}

TEST(AssignNodesTest, DataOutermostStagesAlternate) {
  // tp = 2, pp = 2, dp = 2: ranks 0-1 stage 0, 2-3 stage 1, 4-5 stage 0, 6-7 stage 1.
  Plan plan = PlanOf({MeshOf(0, 2)});
  plan.rank_order = RankOrder::kDataOutermost;
  std::vector<int64_t> stages;
  for (int64_t rank = 0; rank < 8; ++rank) stages.push_back(StageOfRank(plan, rank));
  EXPECT_THAT(stages, ElementsAre(0, 0, 1, 1, 0, 0, 1, 1));
  const absl::StatusOr<NodeAssignment> nodes = AssignNodes(plan, {{PoolOf("a", 2, 4)}, {}});
  ASSERT_TRUE(nodes.ok()) << nodes.status();
  EXPECT_THAT(nodes->stages, ElementsAre(StagePlacement{0, 4, false, {0, 1}},
                                         StagePlacement{2, 4, false, {0, 1}}));

  plan.meshes = {MeshOf(0, 1), MeshOf(1, 1)};
  EXPECT_THAT(AssignNodes(plan, {{PoolOf("a", 2, 4), PoolOf("b", 2, 4)}, {}}).status().ToString(),
              HasSubstr("--use-tp-pp-dp-mapping"));
}

TEST(StageOfRankTest, CountsStagesOfAllMeshes) {
  const Plan plan = PlanOf({MeshOf(0, 2), MeshOf(1, 1)});
  std::vector<int64_t> stages;
  for (int64_t rank = 0; rank < 12; rank += 3) stages.push_back(StageOfRank(plan, rank));
  EXPECT_THAT(stages, ElementsAre(0, 0, 1, 2));
}

}  // namespace
}  // namespace hapmoe::plan
