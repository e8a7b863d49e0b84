#include "core/cost/communication_time.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hapmoe::cost {
namespace {

using model::Collective;

// 100 B/s inside a domain of 8 and for a pair 20 B/s; 10 B/s between domains.
Fabric TestFabric() {
  Fabric fabric;
  fabric.domain_bytes_per_second = 100;
  fabric.pair_bytes_per_second = 20;
  fabric.network_bytes_per_second = 10;
  fabric.domain_latency_seconds = 0.01;
  fabric.network_latency_seconds = 0.1;
  fabric.domain = 8;
  return fabric;
}

struct Case {
  std::string name;
  Collective collective;
  GroupPlacement group;
  double bytes;
  double want;
};

class CollectiveTest : public testing::TestWithParam<Case> {};

TEST_P(CollectiveTest, TakesTheSumByHand) {
  const Case& c = GetParam();
  EXPECT_NEAR(CollectiveSeconds(c.collective, c.group, TestFabric(), c.bytes), c.want, 1e-12);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, CollectiveTest,
    testing::Values(
        Case{"OneRankIsFree", Collective::kAllReduce, {1, 1}, 1000, 0},
        Case{"NothingIsFree", Collective::kAllToAll, {8, 1}, 0, 0},
        // 800 x 7/8 over all links (7 pairs of 20 would do 140, the domain 100), 7 steps.
        Case{"GatherInside", Collective::kAllGather, {8, 1}, 800, 700.0 / 100 + 7 * 0.01},
        // Two ranks have one pair between them: 800 / 2 over 20.
        Case{"GatherOfAPair", Collective::kReduceScatter, {2, 1}, 800, 400.0 / 20 + 0.01},
        Case{"ReduceIsTwice", Collective::kAllReduce, {8, 1}, 800, 2 * (700.0 / 100 + 7 * 0.01)},
        // Two domains of 8: each rail carries 1600/8 x 1/2 = 100 over 10; inside 1600 x 15/16 over
        // 100 runs beside it and is slower.
        Case{"GatherAcross", Collective::kAllGather, {16, 1}, 1600, 15.0 + 7 * 0.01 + 0.1},
        // Stride 8: every rank is in a domain of its own. 400 x 3/4 over 10.
        Case{"GatherStrided", Collective::kAllGather, {4, 8}, 400, 30.0 + 3 * 0.1},
        // 800 sent by each of 16: 8/16 leave the domain, 400 over 10.
        Case{"AllToAllAcross", Collective::kAllToAll, {16, 1}, 800, 40.0 + 7 * 0.01 + 0.1},
        // 800 sent by each of 8: 7/8 over 100.
        Case{"AllToAllInside", Collective::kAllToAll, {8, 1}, 800, 7.0 + 7 * 0.01},
        Case{"RingInside", Collective::kRing, {4, 1}, 60, 3 * 0.01 + 60.0 / 20},
        Case{"RingAcross", Collective::kRing, {4, 8}, 60, 3 * 0.1 + 60.0 / 10}),
    [](const testing::TestParamInfo<Case>& one) { return one.param.name; });

TEST(PlacementTest, FollowsTheRankOrder) {
  const plan::Degrees degrees{.tp = 2, .cp = 2, .dp = 8, .ep = 4, .etp = 2};
  using model::Group;
  EXPECT_EQ(PlacementOf(Group::kTensor, degrees).stride, 1);
  EXPECT_EQ(PlacementOf(Group::kContext, degrees).stride, 2);
  EXPECT_EQ(DenseSyncPlacement(degrees).size, 16);
  EXPECT_EQ(DenseSyncPlacement(degrees).stride, 2);
  EXPECT_EQ(PlacementOf(Group::kExpert, degrees).stride, 2);
  EXPECT_EQ(PlacementOf(Group::kDispatch, degrees).size, 8);
  EXPECT_EQ(ExpertSyncPlacement(degrees).size, 4);  // 32 / (4 x 2)
  EXPECT_EQ(ExpertSyncPlacement(degrees).stride, 8);
}

TEST(RouteTest, UsesTheListedLinkElseTheSlowerNetwork) {
  cluster::Cluster cluster;
  cluster.pools.resize(3);
  cluster.links.push_back({.first_pool = 1, .second_pool = 0, .network = {5.0, 0.5}});
  Fabric fast = TestFabric();
  Fabric slow = TestFabric();
  slow.network_bytes_per_second = 2;
  slow.network_latency_seconds = 0.3;
  bool assumed = true;
  const Route listed = RouteBetween(cluster, 0, 1, fast, slow, &assumed);
  EXPECT_FALSE(assumed);
  EXPECT_EQ(listed.Seconds(10), 0.5 + 10 / 5.0);
  const Route guessed = RouteBetween(cluster, 0, 2, fast, slow, &assumed);
  EXPECT_TRUE(assumed);
  EXPECT_EQ(guessed.Seconds(10), 0.3 + 10 / 2.0);
}

TEST(RouteTest, StaysInsideADomainThatHoldsBothStages) {
  EXPECT_EQ(RouteWithin(TestFabric(), 4).bytes_per_second, 20);
  EXPECT_EQ(RouteWithin(TestFabric(), 8).bytes_per_second, 10);
}

}  // namespace
}  // namespace hapmoe::cost
