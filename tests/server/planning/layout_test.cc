#include "server/planning/layout.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hapmoe::server {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Pools of these numbers of accelerators.
cluster::Cluster Pools(std::initializer_list<int64_t> sizes) {
  cluster::Cluster cluster;
  for (const int64_t size : sizes) {
    cluster::Pool& pool = cluster.pools.emplace_back();
    pool.name = "pool" + std::to_string(cluster.pools.size() - 1);
    pool.nodes = 1;
    pool.accelerators_per_node = size;
  }
  return cluster;
}

// One mesh; stage i holds i + 1 layers.
plan::Plan Stages(int64_t stages, int64_t ranks) {
  plan::Plan plan;
  plan::Mesh& mesh = plan.meshes.emplace_back();
  mesh.degrees.dp = ranks;
  for (int64_t i = 0; i < stages; ++i) {
    mesh.stages.emplace_back().chunks.emplace_back().layers = i + 1;
  }
  return plan;
}

TEST(SplitByPool, OnePoolIsOneMesh) {
  Violations violations;
  const plan::Plan plan = SplitByPool(Stages(4, 2), Pools({8}), violations);
  EXPECT_THAT(violations, IsEmpty());
  ASSERT_THAT(plan.meshes, SizeIs(1));
  EXPECT_THAT(plan.meshes[0].stages, SizeIs(4));
}

TEST(SplitByPool, FillsPoolsInOrder) {
  Violations violations;
  // Stages of 4 ranks: 0 and 1 on the first pool, 2 on the second, 3 on the third.
  const plan::Plan plan = SplitByPool(Stages(4, 4), Pools({8, 4, 8}), violations);
  EXPECT_THAT(violations, IsEmpty());
  ASSERT_THAT(plan.meshes, SizeIs(3));
  EXPECT_THAT(plan.meshes[0].stages, SizeIs(2));
  EXPECT_EQ(plan.meshes[2].pool, 2);
  EXPECT_EQ(plan.meshes[2].degrees.dp, 4);
  EXPECT_EQ(plan.meshes[2].stages[0].layers(), 4);
}

TEST(SplitByPool, StageOnTwoPoolsIsAFault) {
  Violations violations;
  SplitByPool(Stages(2, 8), Pools({12, 4}), violations);  // Stage 1 has ranks 8 to 15.
  ASSERT_THAT(violations, SizeIs(1));
  EXPECT_EQ(violations[0].rule, "stage_within_pool");
  EXPECT_THAT(violations[0].message, HasSubstr("ranks 8 to 15"));
}

TEST(SplitByPool, StagesThatAreNoRunsOfRanksNeedOnePool) {
  plan::Plan plan = Stages(2, 8);
  plan.rank_order = plan::RankOrder::kDataOutermost;
  Violations violations;
  SplitByPool(plan, Pools({16, 16}), violations);
  EXPECT_THAT(violations, IsEmpty());
  SplitByPool(plan, Pools({8, 8}), violations);
  EXPECT_THAT(violations, SizeIs(1));
}

}  // namespace
}  // namespace hapmoe::server
