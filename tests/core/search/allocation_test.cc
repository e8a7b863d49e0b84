#include "core/search/allocation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/cost/evaluate.h"
#include "core/plan/node_assignment.h"
#include "tests/core/testing/fixtures.h"

namespace hapmoe::search {
namespace {

using hapmoe::testing::ScaledProfile;
using hapmoe::testing::SmallModel;
using hapmoe::testing::SmallPool;
using hapmoe::testing::SmallTraining;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

cluster::Cluster ClusterOf(const std::vector<int64_t>& nodes) {
  cluster::Cluster cluster;
  for (size_t i = 0; i < nodes.size(); ++i) {
    cluster.pools.push_back(SmallPool(std::string(1, static_cast<char>('a' + i)), nodes[i], 4));
  }
  return cluster;
}

TEST(AllocationSizesTest, DoubleUpToThePoolAndHoldItsFullSize) {
  EXPECT_THAT(DoubledSizes(ClusterOf({6})), ElementsAre(ElementsAre(1, 2, 4, 6)));
  EXPECT_THAT(DoubledSizes(ClusterOf({1})), ElementsAre(ElementsAre(1)));
  EXPECT_THAT(DoubledSizes(ClusterOf({4, 3})),
              ElementsAre(ElementsAre(0, 1, 2, 4), ElementsAre(0, 1, 2, 3)));
}

TEST(AllocationSizesTest, FinestAreAllNumbersWhereThoseAreFewEnough) {
  // 4 x 3 numbers of nodes, the empty allocation not counted: 11.
  EXPECT_THAT(FinestSizes(ClusterOf({3, 2}), 11),
              ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(0, 1, 2)));
  // Doubled ones are the same 11 here; 0, 1 and all make 8.
  EXPECT_THAT(FinestSizes(ClusterOf({3, 2}), 10),
              ElementsAre(ElementsAre(0, 1, 3), ElementsAre(0, 1, 2)));
  EXPECT_THAT(FinestSizes(ClusterOf({5}), 11), ElementsAre(ElementsAre(1, 2, 3, 4, 5)));
  // 8 x 7 x 7 doubled sizes are too many for 64 allocations, 5 x 5 x 5 too, and 4 x 4 x 4 make 63.
  EXPECT_THAT(
      FinestSizes(ClusterOf({64, 32, 32}), 64),
      ElementsAre(ElementsAre(0, 1, 8, 64), ElementsAre(0, 1, 8, 32), ElementsAre(0, 1, 8, 32)));
  // 3^4 - 1 = 80 allocations of 0, 1 and all nodes are too many too.
  EXPECT_THAT(
      FinestSizes(ClusterOf({9, 9, 9, 9}), 64),
      ElementsAre(ElementsAre(0, 9), ElementsAre(0, 9), ElementsAre(0, 9), ElementsAre(0, 9)));
  // Sizes whose product no integer holds.
  const cluster::Cluster huge = ClusterOf(std::vector<int64_t>(64, 65536));
  EXPECT_EQ(CountAllocations(FinestSizes(huge, 64)), kMaxAllocations + 1);
}

TEST(AllocationSizesTest, CountIsThatOfTheAllocations) {
  for (const std::vector<int64_t>& nodes :
       std::vector<std::vector<int64_t>>{{1}, {7}, {1, 1}, {4, 3}, {2, 2, 2}}) {
    const AllocationSizes sizes = DoubledSizes(ClusterOf(nodes));
    EXPECT_EQ(CountAllocations(sizes), static_cast<int64_t>(AllocationsOf(sizes).size()));
  }
  EXPECT_EQ(CountAllocations(DoubledSizes(ClusterOf(std::vector<int64_t>(64, 65536)))),
            kMaxAllocations + 1);
}

TEST(AllocationsTest, ComeInOrderWithoutTheEmptyOne) {
  const std::vector<Allocation> allocations = AllocationsOf({{0, 2}, {0, 1}});
  ASSERT_EQ(allocations.size(), 3u);
  EXPECT_THAT(allocations[0].nodes, ElementsAre(0, 1));
  EXPECT_THAT(allocations[1].nodes, ElementsAre(2, 0));
  EXPECT_THAT(allocations[2].nodes, ElementsAre(2, 1));
  EXPECT_TRUE(allocations[0].Within(allocations[2]));
  EXPECT_FALSE(allocations[0].Within(allocations[1]));
  EXPECT_EQ(AcceleratorsOf(ClusterOf({4, 3}), allocations[2]), 12);  // (2 + 1) x 4
  EXPECT_EQ(AllocationText(ClusterOf({4, 3}), allocations[2]), "a 2 nodes, b 1 node");
}

// Three pools, all linked, the last with named hosts.
SearchRequest ThreePools() {
  SearchRequest request;
  request.problem.model = SmallModel(6, 256);
  request.problem.training = SmallTraining(64);
  request.problem.cluster = ClusterOf({2, 2, 3});
  request.problem.cluster.pools[2].hosts = {"c1", "c2", "c3"};
  request.problem.cluster.links = {{0, 1, {1e9, 1e-6}}, {0, 2, {2e9, 1e-6}}, {2, 1, {3e9, 1e-6}}};
  for (const cluster::Pool& pool : request.problem.cluster.pools) {
    request.problem.profiles.push_back(ScaledProfile(pool.name, 1, 20e9));
  }
  return request;
}

TEST(CutTest, DropsPoolsTheirLinksAndTheLastHosts) {
  const SearchRequest request = ThreePools();
  const SearchRequest cut = Cut(request, {{0, 1, 2}});
  ASSERT_EQ(cut.problem.cluster.pools.size(), 2u);
  EXPECT_EQ(cut.problem.cluster.pools[0].name, "b");
  EXPECT_EQ(cut.problem.cluster.pools[0].nodes, 1);
  EXPECT_EQ(cut.problem.cluster.pools[1].nodes, 2);
  EXPECT_THAT(cut.problem.cluster.pools[1].hosts, ElementsAre("c1", "c2"));
  ASSERT_EQ(cut.problem.cluster.links.size(), 1u);
  EXPECT_EQ(cut.problem.cluster.links[0].first_pool, 1);
  EXPECT_EQ(cut.problem.cluster.links[0].second_pool, 0);
  EXPECT_EQ(cut.problem.cluster.links[0].network.bytes_per_second, 3e9);
  EXPECT_THAT(cut.problem.profiles,
              ElementsAre(request.problem.profiles[1], request.problem.profiles[2]));
  EXPECT_THAT(cluster::Validate(cut.problem.cluster), IsEmpty());
}

TEST(CutTest, PlansOfAPartTakeTheSameOnTheWholeCluster) {
  const SearchRequest request = ThreePools();
  for (const Allocation& allocation : AllocationsOf({{0, 2}, {0, 1}, {0, 1, 3}})) {
    SCOPED_TRACE(AllocationText(request.problem.cluster, allocation));
    InlineExecutor executor;
    const Interrupter interrupter;
    auto outcome = Search(Cut(request, allocation), executor, interrupter, [](const Progress&) {});
    ASSERT_TRUE(outcome.ok());
    const Outcome whole = OnWholeCluster(allocation, *std::move(outcome));
    ASSERT_TRUE(whole.best.has_value());
    for (const std::optional<Costed>* costed : {&whole.best, &whole.uniform}) {
      if (!costed->has_value()) continue;
      EXPECT_EQ(cost::Evaluate(request.problem, (*costed)->plan)->iteration_seconds,
                (*costed)->prediction.iteration_seconds);
    }
    const auto nodes = plan::AssignNodes(whole.best->plan, request.problem.cluster);
    ASSERT_TRUE(nodes.ok());
    for (const plan::AssignedNode& node : nodes->nodes) {
      EXPECT_LT(node.index_in_pool, allocation.nodes[static_cast<size_t>(node.pool)]);
    }
  }
}

}  // namespace
}  // namespace hapmoe::search
