#include "core/cost/band.h"

#include <gtest/gtest.h>

#include <cmath>

namespace hapmoe::cost {
namespace {

constexpr BandErrors kErrors = {.measured = 0.02,
                                .interpolated = 0.06,
                                .analytic = 0.16,
                                .communication = 0.3,
                                .launch = 0.4,
                                .routing = 0.2,
                                .common = 0.05};

double HalfWidth(const Evidence& evidence, double seconds = 1) {
  return std::log(BandOf(evidence, seconds, kErrors).high_seconds / seconds) / 1.2816;
}

TEST(Band, KindsOfComputeAddUpAndOtherKindsAddInSquares) {
  // 0.5 x 0.02 + 0.5 x 0.16 = 0.09 with the common 0.05.
  EXPECT_NEAR(HalfWidth({.measured_seconds = 2, .analytic_seconds = 2}), std::hypot(0.09, 0.05),
              1e-12);
  // Half of it communication: 0.5 x 0.3 apart from 0.5 x 0.02.
  EXPECT_NEAR(HalfWidth({.measured_seconds = 3, .communication_seconds = 3}),
              std::sqrt(0.01 * 0.01 + 0.15 * 0.15 + 0.05 * 0.05), 1e-12);
  EXPECT_NEAR(HalfWidth({}), 0.05, 1e-12);
  // All of it measured, a quarter of it routed.
  EXPECT_NEAR(HalfWidth({.measured_seconds = 4, .routed_seconds = 1}),
              std::sqrt(0.02 * 0.02 + 0.05 * 0.05 + 0.05 * 0.05), 1e-12);
}

TEST(Band, IsTheSameShareOfAnyTimeAndAsFarBelowAsAbove) {
  const Evidence evidence = {.interpolated_seconds = 1, .launch_seconds = 1};
  EXPECT_NEAR(HalfWidth(evidence, 1), HalfWidth(evidence, 30), 1e-12);
  const Band band = BandOf(evidence, 4, kErrors);
  EXPECT_NEAR(band.low_seconds * band.high_seconds, 16, 1e-9);
}

TEST(Band, BetterEvidenceNarrowsIt) {
  EXPECT_LT(HalfWidth({.measured_seconds = 1}), HalfWidth({.interpolated_seconds = 1}));
  EXPECT_LT(HalfWidth({.interpolated_seconds = 1}), HalfWidth({.analytic_seconds = 1}));
}

}  // namespace
}  // namespace hapmoe::cost
