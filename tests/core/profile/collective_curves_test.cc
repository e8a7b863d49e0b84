#include "core/profile/collective_curves.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace hapmoe::profile {
namespace {

constexpr double kRate = 100;  // Bytes per second of the links.

// 2 s of latency, then 50 bytes a second.
CollectiveCurve Good() {
  CollectiveCurve curve;
  curve.primitive = CollectivePrimitive::kAllGather;
  curve.ranks = 4;
  curve.bytes = {10, 100, 1000};
  curve.seconds = {2, 4, 22};
  curve.held_bytes = {55, 550};
  curve.held_seconds = {3, 12};  // The lines give 3 and 13: 0 and 1/12 off.
  curve.error_bound = 0.05;
  return curve;
}

std::string RuleOf(const CollectiveCurve& curve) {
  const Violations violations = CollectiveCurves({curve}).Check(kRate);
  return violations.empty() ? "" : violations.front().rule;
}

TEST(CollectiveCurveTest, DrawsStraightLinesBetweenPoints) {
  const CollectiveCurve curve = Good();
  EXPECT_EQ(curve.Seconds(1), 2);      // The latency.
  EXPECT_EQ(curve.Seconds(100), 4);    // A point.
  EXPECT_EQ(curve.Seconds(55), 3);     // Half way from 10 to 100.
  EXPECT_EQ(curve.Seconds(2000), 44);  // The last rate.
  EXPECT_NEAR(curve.HeldError(), 1.0 / 24, 1e-12);
}

TEST(CollectiveCurvesTest, ReadsTheNearestNumberOfRanks) {
  CollectiveCurve two = Good();
  two.ranks = 2;
  two.seconds = {1, 2, 11};
  const CollectiveCurves curves({Good(), two});
  const auto ranks = [&](int64_t asked) {
    return curves.Read(CollectivePrimitive::kAllGather, asked, 100)->ranks;
  };
  EXPECT_EQ(ranks(2), 2);
  EXPECT_EQ(ranks(3), 4);
  EXPECT_EQ(ranks(4), 4);
  EXPECT_EQ(ranks(64), 4);
  EXPECT_EQ(curves.Read(CollectivePrimitive::kAllGather, 2, 100)->seconds, 2);
  EXPECT_FALSE(curves.Read(CollectivePrimitive::kAllToAll, 2, 100).has_value());
  EXPECT_FALSE(curves.Read(CollectivePrimitive::kAllGather, 1, 100).has_value());
}

TEST(CollectiveCurvesTest, TakesAGoodCurve) { EXPECT_EQ(RuleOf(Good()), ""); }

TEST(CollectiveCurvesTest, RefusesPointsThatAreNoCurve) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<std::pair<std::string, void (*)(CollectiveCurve&)>> changes = {
      {"ragged", [](CollectiveCurve& c) { c.seconds.pop_back(); }},
      {"empty", [](CollectiveCurve& c) { c.bytes = c.seconds = {}; }},
      {"bytes fall", [](CollectiveCurve& c) { std::swap(c.bytes[0], c.bytes[1]); }},
      {"seconds fall", [](CollectiveCurve& c) { c.seconds[2] = 3; }},
      {"zero", [](CollectiveCurve& c) { c.seconds[0] = 0; }},
      {"ragged held", [](CollectiveCurve& c) { c.held_bytes.pop_back(); }},
  };
  for (const auto& [name, change] : changes) {
    CollectiveCurve curve = Good();
    change(curve);
    EXPECT_EQ(RuleOf(curve), "collective_points_valid") << name;
  }
  for (std::vector<double> CollectiveCurve::*column :
       {&CollectiveCurve::bytes, &CollectiveCurve::seconds, &CollectiveCurve::held_bytes,
        &CollectiveCurve::held_seconds}) {
    CollectiveCurve curve = Good();
    (curve.*column)[1] = nan;
    EXPECT_EQ(RuleOf(curve), "collective_points_valid");
  }
}

TEST(CollectiveCurvesTest, RefusesACurveThatMissesItsStatedError) {
  CollectiveCurve curve = Good();
  curve.error_bound = 0.04;  // It misses by 1/24 = 0.0417.
  EXPECT_EQ(RuleOf(curve), "collective_error_within_bound");
  curve.error_bound = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(RuleOf(curve), "collective_error_bound_in_range");
}

TEST(CollectiveCurvesTest, RefusesTimesThatTheLinksCannotMake) {
  CollectiveCurve curve = Good();
  // 1000 x 3/4 bytes over 100 a second take 7.5 s.
  curve.held_bytes = curve.held_seconds = {};
  curve.seconds[2] = 7.4;
  EXPECT_EQ(RuleOf(curve), "collective_within_peak");
  curve.seconds[2] = 7.6;
  EXPECT_EQ(RuleOf(curve), "");
  // A switch that reduces lets every rank send and receive the tensor once: 10 s.
  curve.primitive = CollectivePrimitive::kAllReduce;
  EXPECT_EQ(RuleOf(curve), "collective_within_peak");
}

TEST(CollectiveCurvesTest, RefusesRanksAndRepeats) {
  CollectiveCurve curve = Good();
  curve.ranks = 1;
  EXPECT_EQ(RuleOf(curve), "collective_ranks_in_range");
  const Violations twice = CollectiveCurves({Good(), Good()}).Check(kRate);
  ASSERT_EQ(twice.size(), 1u);
  EXPECT_EQ(twice[0].rule, "collective_listed_once");
  EXPECT_EQ(twice[0].field, "collectives[1]");
}

}  // namespace
}  // namespace hapmoe::profile
