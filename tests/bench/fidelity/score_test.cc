#include "tests/bench/fidelity/score.h"

#include <gtest/gtest.h>

namespace hapmoe::fidelity {
namespace {

TEST(ErrorsOf, AveragesSizesAndKeepsTheSignOfTheBias) {
  const Errors errors = ErrorsOf({0.1, -0.3, 0.2, -0.4});
  EXPECT_EQ(errors.count, 4);
  EXPECT_NEAR(errors.mean, 0.25, 1e-12);
  EXPECT_NEAR(errors.median, 0.25, 1e-12);
  EXPECT_NEAR(errors.bias, -0.1, 1e-12);
  EXPECT_NEAR(errors.worst, 0.4, 1e-12);
  EXPECT_EQ(ErrorsOf({}).count, 0);
}

TEST(KendallTau, CountsPairsInOrderLessPairsOutOfOrder) {
  // Of three pairs, one is out of order.
  EXPECT_NEAR(*KendallTau({{1, 10}, {2, 30}, {3, 20}}), 1.0 / 3, 1e-12);
  EXPECT_NEAR(*KendallTau({{3, 10}, {2, 20}, {1, 30}}), -1, 1e-12);
  // Ties do not count.
  EXPECT_NEAR(*KendallTau({{1, 10}, {1, 20}, {2, 30}}), 1, 1e-12);
  EXPECT_FALSE(KendallTau({{1, 10}, {1, 20}}).has_value());
}

TEST(Regret, IsWhatTheChosenRunTakesOverTheBest) {
  EXPECT_NEAR(Regret({{1, 12}, {2, 10}, {3, 20}}), 1.2, 1e-12);
  EXPECT_NEAR(Regret({{2, 12}, {1, 10}}), 1, 1e-12);
}

TEST(DetectionOf, CountsEveryOutcome) {
  std::vector<MeasuredRun> runs(5);
  runs[0].out_of_memory = true;
  runs[0].fits = false;
  runs[1].out_of_memory = true;
  runs[1].fits = true;
  runs[2].fits = true;
  runs[3].fits = false;
  // runs[4] was not predicted.
  const Detection detection = DetectionOf(runs);
  EXPECT_EQ(detection.caught, 1);
  EXPECT_EQ(detection.missed, 1);
  EXPECT_EQ(detection.false_alarms, 1);
  EXPECT_EQ(detection.ran, 2);
}

}  // namespace
}  // namespace hapmoe::fidelity
