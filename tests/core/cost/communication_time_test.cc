#include "core/cost/communication_time.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/core/testing/fixtures.h"

namespace hapmoe::cost {
namespace {

using model::Collective;

using hapmoe::testing::TestFabric;

struct Case {
  std::string name;
  Collective collective;
  GroupPlacement group;
  double bytes;
  double want;
};

class CollectiveTest : public ::testing::TestWithParam<Case> {};

TEST_P(CollectiveTest, TakesTheSumByHand) {
  const Case& c = GetParam();
  EXPECT_NEAR(
      CollectiveSeconds(c.collective, SplitOf(c.group, TestFabric()), TestFabric(), c.bytes),
      c.want, 1e-12);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, CollectiveTest,
    ::testing::Values(
        Case{"OneRankIsFree", Collective::kAllReduce, {1, 1}, 1000, 0},
        Case{"NothingIsFree", Collective::kAllToAll, {8, 1}, 0, 0},
        // 800 x 7/8 over all links (7 pairs of 20 would do 140, the domain 100), 7 steps.
        Case{"GatherInside", Collective::kAllGather, {8, 1}, 800, 700.0 / 100 + 7 * 0.01},
        // Two ranks have one pair between them: 800 / 2 over 20.
        Case{"GatherOfAPair", Collective::kReduceScatter, {2, 1}, 800, 400.0 / 20 + 0.01},
        Case{"ReduceIsTwice", Collective::kAllReduce, {8, 1}, 800, 2 * (700.0 / 100 + 7 * 0.01)},
        // Two domains of 8, one ring through all: a rail carries 1600/8 x 15/16 = 187.5 over 10;
        // inside 1600 x 15/16 over 100 runs beside it and is faster.
        Case{"GatherAcross", Collective::kAllGather, {16, 1}, 1600, 18.75 + 7 * 0.01 + 0.1},
        // A tree between two domains: a rail carries 1600/8 = 200 each way over 10, beside
        // 2 x 1600 x 15/16 = 3000 over 100 inside, which is slower, with 2 x 7 steps; 2 hops.
        Case{"ReduceByTree", Collective::kAllReduce, {16, 1}, 1600, 30 + 14 * 0.01 + 2 * 0.1},
        // Two ranks in two domains: the tree's 80 over 10, not the rings' 2 x 80/2.
        Case{"ReducePair", Collective::kAllReduce, {2, 8}, 80, 8 + 2 * 0.1},
        // Four: two rings, 2 x 80 x 3/4 over 10 and 6 hops; the tree's 2 x 80 and 4 are slower.
        Case{"ReduceByRings", Collective::kAllReduce, {4, 8}, 80, 12 + 6 * 0.1},
        // Tiny: the tree's 2 x log2(4) hops.
        Case{"ReduceTiny", Collective::kAllReduce, {4, 8}, 0.1, 0.02 + 4 * 0.1},
        // Stride 8: every rank is in a domain of its own. 400 x 3/4 over 10.
        Case{"GatherStrided", Collective::kAllGather, {4, 8}, 400, 30.0 + 3 * 0.1},
        // 800 sent by each of 16: 8/16 leave the domain, 400 over 10.
        Case{"AllToAllAcross", Collective::kAllToAll, {16, 1}, 800, 40.0 + 7 * 0.01 + 0.1},
        // 800 sent by each of 8: 7/8 over 100.
        Case{"AllToAllInside", Collective::kAllToAll, {8, 1}, 800, 7.0 + 7 * 0.01},
        Case{"RingInside", Collective::kRing, {4, 1}, 60, 3 * 0.01 + 60.0 / 20},
        Case{"RingAcross", Collective::kRing, {4, 8}, 60, 3 * 0.1 + 60.0 / 10}),
    [](const ::testing::TestParamInfo<Case>& one) { return one.param.name; });

// The domain of 8 is two islands of 4, which together send 30 B/s to each other.
class BridgeTest : public ::testing::TestWithParam<Case> {};

TEST_P(BridgeTest, IsSharedByAllThatCrossIt) {
  const Case& c = GetParam();
  Fabric fabric = TestFabric();
  fabric.domain_latency_seconds = 0;
  fabric.bridge = profile::Bridge{.island = 4, .bytes_per_second = 30};
  EXPECT_NEAR(CollectiveSeconds(c.collective, SplitOf(c.group, fabric), fabric, c.bytes), c.want,
              1e-12);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, BridgeTest,
    ::testing::Values(
        // Stays in an island: 800 x 3/4 over the 60 of three pairs.
        Case{"GatherInAnIsland", Collective::kAllGather, {4, 1}, 800, 600.0 / 60},
        // One ring through both: 800 x 7/8 over the bridge.
        Case{"GatherInBoth", Collective::kAllGather, {8, 1}, 800, 700.0 / 30},
        // Every second rank: two groups, each of whose rings passes 800 x 3/4.
        Case{"TwoGroups", Collective::kReduceScatter, {4, 2}, 800, 2 * 600.0 / 30},
        // Four pairs, each of which passes 2 x 800 / 2.
        Case{"FourPairs", Collective::kAllReduce, {2, 4}, 800, 4 * 800.0 / 30},
        // 4 ranks send 800 x 4/8 each to the other island.
        Case{"AllToAll", Collective::kAllToAll, {8, 1}, 800, 4 * 400.0 / 30},
        // Two groups, of which 2 ranks each send 800 x 2/4.
        Case{"AllToAllOfTwoGroups", Collective::kAllToAll, {4, 2}, 800, 2 * 2 * 400.0 / 30},
        // 3 steps of 20: of two rings at once.
        Case{"Ring", Collective::kRing, {4, 2}, 60, 3 * 2 * 20.0 / 30},
        // Over two domains: the ring's 160 x 15/16 pass the bridge more slowly than 1/8 of that the
        // network, which adds a hop.
        Case{"GatherAcrossDomains", Collective::kAllGather, {16, 1}, 160, 150.0 / 30 + 0.1}),
    [](const ::testing::TestParamInfo<Case>& one) { return one.param.name; });

TEST(RouteTest, SharesTheBridgeAmongTheRanksOfAStage) {
  Fabric fabric = TestFabric();
  fabric.bridge = profile::Bridge{.island = 4, .bytes_per_second = 30};
  EXPECT_EQ(RouteWithin(fabric, 2, Reach::kIsland).bytes_per_second, 20);
  EXPECT_EQ(RouteWithin(fabric, 3, Reach::kDomain).bytes_per_second, 10);
  EXPECT_EQ(RouteWithin(fabric, 4, Reach::kDomain).bytes_per_second, 7.5);
  EXPECT_EQ(RouteWithin(fabric, 8, Reach::kDomain).bytes_per_second, 7.5);
  EXPECT_EQ(RouteWithin(fabric, 8, Reach::kNetwork).bytes_per_second, 10);
}

profile::CollectiveCurve CurveOf(profile::CollectivePrimitive primitive, int64_t ranks,
                                 double latency, double rate) {
  profile::CollectiveCurve curve;
  curve.primitive = primitive;
  curve.ranks = ranks;
  curve.bytes = {1, 1001};
  curve.seconds = {latency, latency + 1000 / rate};
  curve.error_bound = 0.1;
  return curve;
}

TEST(MeasuredTest, TakesPrecedenceOverTheLinks) {
  using profile::CollectivePrimitive;
  const profile::CollectiveCurves curves({CurveOf(CollectivePrimitive::kAllGather, 4, 0.5, 50),
                                          CurveOf(CollectivePrimitive::kAllToAll, 4, 0.25, 40)});
  Fabric fabric = TestFabric();
  fabric.pair_bytes_per_second = 100;  // Behind a switch.
  fabric.curves = &curves;
  const auto seconds = [&](Collective collective, GroupPlacement group, double bytes) {
    return CollectiveSeconds(collective, SplitOf(group, fabric), fabric, bytes);
  };
  EXPECT_NEAR(seconds(Collective::kAllGather, {4, 1}, 501), 0.5 + 500 / 50.0, 1e-12);
  // Not measured: what moves the same bytes in the same steps.
  EXPECT_NEAR(seconds(Collective::kReduceScatter, {4, 1}, 501), 10.5, 1e-12);
  // Eight were not measured: the time of four and four more steps of 0.01, none for all-to-all.
  EXPECT_NEAR(seconds(Collective::kAllGather, {8, 1}, 501), 10.54, 1e-12);
  EXPECT_NEAR(seconds(Collective::kAllToAll, {8, 1}, 501), 0.25 + 500 / 40.0, 1e-12);
  // Beside training everything inside takes longer.
  fabric.domain_contention = 2;
  EXPECT_NEAR(seconds(Collective::kAllGather, {4, 1}, 501), 21, 1e-12);
}

TEST(MeasuredTest, NeverBeatsTheLinksThatFewerRanksOfAMeshHave) {
  using profile::CollectivePrimitive;
  const profile::CollectiveCurves curves({CurveOf(CollectivePrimitive::kAllGather, 8, 0.5, 100)});
  Fabric fabric = TestFabric();  // Pairs of 20, so two have 20 and not 100.
  fabric.curves = &curves;
  EXPECT_NEAR(CollectiveSeconds(Collective::kAllGather, SplitOf({2, 1}, fabric), fabric, 1000),
              500 / 20.0, 1e-12);
}

TEST(CollectiveSecondsTest, GrowsWithBytesAndGroups) {
  using profile::CollectivePrimitive;
  const profile::CollectiveCurves curves({CurveOf(CollectivePrimitive::kAllGather, 2, 0.1, 150),
                                          CurveOf(CollectivePrimitive::kAllGather, 8, 0.5, 100),
                                          CurveOf(CollectivePrimitive::kAllToAll, 8, 0.1, 80)});
  for (const profile::CollectiveCurves* some :
       {static_cast<const profile::CollectiveCurves*>(nullptr), &curves}) {
    Fabric fabric = TestFabric();
    fabric.curves = some;
    for (const Collective collective :
         {Collective::kAllGather, Collective::kReduceScatter, Collective::kAllReduce,
          Collective::kAllToAll, Collective::kRing}) {
      for (const int64_t stride : {1, 2, 8}) {
        double before_group = 0;
        for (const int64_t size : {2, 4, 8, 16, 64}) {
          const GroupSplit split = SplitOf({size, stride}, fabric);
          double before = 0;
          for (double bytes = 0.5; bytes < 1e6; bytes *= 3) {
            const double seconds = CollectiveSeconds(collective, split, fabric, bytes);
            EXPECT_GE(seconds, before) << size << " x " << stride << ", " << bytes;
            before = seconds;
          }
          // The same bytes for each rank.
          const double group =
              CollectiveSeconds(collective, split, fabric, 1000.0 * static_cast<double>(size));
          EXPECT_GE(group, before_group * 0.95) << size << " x " << stride;
          before_group = group;
        }
      }
    }
  }
}

TEST(DispatchTest, CountsTheDistinctTargets) {
  // 4 parts of 2 of 8 experts, 2 drawn: missed by 6/8 x 5/7.
  EXPECT_NEAR(TargetShare({.experts = 8, .topk = 2}, 4), 1 - 30.0 / 56, 1e-12);
  EXPECT_NEAR(TargetShare({.experts = 8, .topk = 8}, 8), 1, 1e-12);
  // 2 of 4 groups, 2 parts each: a group is chosen half the time, then a part of 1 of the pool's 4
  // experts is missed by 3/4 x 2/3.
  EXPECT_NEAR(TargetShare({.experts = 8, .topk = 2, .groups = 4, .group_topk = 2}, 8), 0.25, 1e-12);
  // 1 of 4 groups over 2 parts: all tokens go to one part.
  EXPECT_NEAR(TargetShare({.experts = 8, .topk = 2, .groups = 4, .group_topk = 1}, 2), 0.5, 1e-12);
}

TEST(DispatchTest, SendsOnceToEachDomainAndRank) {
  model::Operation op;
  op.collective = Collective::kDispatch;
  op.group = model::Group::kDispatch;
  op.bytes = 100;
  op.routing = {.experts = 16, .topk = 16};  // Every rank gets every token.
  const plan::Degrees degrees{.tp = 1, .cp = 1, .dp = 16, .ep = 16, .etp = 1};
  Fabric fabric = TestFabric();
  // One copy to the other domain, 100 over 10; inside 100 x 16 x 7/8 = 1400 over 100.
  EXPECT_NEAR(OperationSeconds(op, StageLinks(fabric, degrees)), 14 + 0.01 + 0.1, 1e-12);
  fabric.network_bytes_per_second = 5;
  EXPECT_NEAR(OperationSeconds(op, StageLinks(fabric, degrees)), 20 + 0.01 + 0.1, 1e-12);
  fabric.domain = 72;  // 1500 over 100, no network.
  EXPECT_NEAR(OperationSeconds(op, StageLinks(fabric, degrees)), 15 + 0.01, 1e-12);
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
  EXPECT_EQ(RouteWithin(TestFabric(), 4, Reach::kIsland).bytes_per_second, 20);
  EXPECT_EQ(RouteWithin(TestFabric(), 4, Reach::kNetwork).bytes_per_second, 10);
}

}  // namespace
}  // namespace hapmoe::cost
