#include "tests/bench/load/latencies.h"

#include "gtest/gtest.h"

namespace hapmoe::bench {
namespace {

using std::chrono::microseconds;

TEST(Latencies, QuantilesAreWithinTwoPercent) {
  Latencies latencies;
  EXPECT_EQ(latencies.QuantileSeconds(0.5), 0);
  for (int i = 1; i <= 1000; ++i) latencies.Add(microseconds(i * 10));
  EXPECT_EQ(latencies.count(), 1000);
  EXPECT_NEAR(latencies.QuantileSeconds(0.5), 5e-3, 5e-3 * 0.02);
  EXPECT_NEAR(latencies.QuantileSeconds(0.99), 9.9e-3, 9.9e-3 * 0.02);
  EXPECT_NEAR(latencies.MostSeconds(), 10e-3, 10e-3 * 0.02);
}

TEST(Latencies, TimesBeyondTheBucketsCountAtTheirEnds) {
  Latencies latencies;
  latencies.Add(std::chrono::nanoseconds(0));
  latencies.Add(std::chrono::hours(10));
  EXPECT_NEAR(latencies.QuantileSeconds(0.5), 1e-6, 1e-9);
  EXPECT_NEAR(latencies.MostSeconds(), 3600, 100);
}

}  // namespace
}  // namespace hapmoe::bench
