#include "core/cost/fabric.h"

#include <gtest/gtest.h>

#include "tests/core/testing/fixtures.h"

namespace hapmoe::cost {
namespace {

using hapmoe::testing::TestFabric;

TEST(ReachTest, IsThatOfTheFarthestTwo) {
  Fabric fabric = TestFabric();  // Domains of 8.
  EXPECT_EQ(ReachOf(fabric, 0, 8), Reach::kIsland);
  EXPECT_EQ(ReachOf(fabric, 8, 16), Reach::kIsland);
  EXPECT_EQ(ReachOf(fabric, 7, 9), Reach::kNetwork);
  EXPECT_EQ(ReachOf(fabric, 0, 9), Reach::kNetwork);
  fabric.bridge = profile::Bridge{.island = 4, .bytes_per_second = 30};
  EXPECT_EQ(ReachOf(fabric, 4, 8), Reach::kIsland);
  EXPECT_EQ(ReachOf(fabric, 2, 6), Reach::kDomain);
  EXPECT_EQ(ReachOf(fabric, 6, 10), Reach::kNetwork);
  // Islands of 3, 3 and 2 in each domain.
  fabric.bridge->island = 3;
  EXPECT_EQ(ReachOf(fabric, 6, 8), Reach::kIsland);
  EXPECT_EQ(ReachOf(fabric, 8, 11), Reach::kIsland);
  EXPECT_EQ(ReachOf(fabric, 8, 12), Reach::kDomain);
}

TEST(FabricTest, ADomainEndsWithItsNodeUnlessTheFabricCrossesNodes) {
  profile::AcceleratorProfile profile = hapmoe::testing::UnitProfile();
  profile.scale_up_domain = 8;
  const auto domain = [&](int64_t accelerators_per_node) {
    return FabricOf(hapmoe::testing::SmallPool("a", 2, accelerators_per_node), profile).domain;
  };
  EXPECT_EQ(domain(4), 4);
  EXPECT_EQ(domain(8), 8);
  EXPECT_EQ(domain(16), 16);
  profile.scale_up_crosses_nodes = true;
  EXPECT_EQ(domain(4), 8);
  EXPECT_EQ(domain(16), 16);
}

}  // namespace
}  // namespace hapmoe::cost
