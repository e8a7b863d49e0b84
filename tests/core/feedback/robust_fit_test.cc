#include "core/feedback/robust_fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace hapmoe::feedback {
namespace {

Matrix Diagonal(const std::vector<double>& values) {
  Matrix matrix(values.size());
  for (size_t i = 0; i < values.size(); ++i) matrix.at(i, i) = values[i];
  return matrix;
}

// Unknowns with a standard deviation of 0.1 each.
std::vector<PriorBlock> TenPercent(size_t unknowns) {
  return {{0, Diagonal(std::vector<double>(unknowns, 100))}};
}

LinearObservation Of(std::vector<double> gradient, double value, double deviation = 0.02) {
  return {.value = value, .offset = 0, .gradient = std::move(gradient), .deviation = deviation};
}

TEST(Matrix, InverseOfTwoByTwo) {
  Matrix matrix(2);
  matrix.at(0, 0) = 4;
  matrix.at(0, 1) = matrix.at(1, 0) = 1;
  matrix.at(1, 1) = 3;
  const Matrix inverse = Inverse(matrix);  // Determinant 11.
  EXPECT_NEAR(inverse.at(0, 0), 3.0 / 11, 1e-15);
  EXPECT_NEAR(inverse.at(0, 1), -1.0 / 11, 1e-15);
  EXPECT_NEAR(inverse.at(1, 1), 4.0 / 11, 1e-15);
  EXPECT_NEAR(matrix.Form({1, 2}), 4 + 2 * 2 + 3 * 4, 1e-15);
}

TEST(RobustFit, NothingObservedIsThePrior) {
  const Fit fit = FitRobustly({}, TenPercent(2), 2);
  EXPECT_EQ(fit.unknowns, (std::vector<double>{0, 0}));
  EXPECT_NEAR(fit.covariance.at(0, 0), 0.01, 1e-15);
}

TEST(RobustFit, WhatWasExpectedChangesNothingButIsLearnt) {
  const Fit fit = FitRobustly({Of({1, 0.5}, 0)}, TenPercent(2), 2);
  EXPECT_EQ(fit.unknowns, (std::vector<double>{0, 0}));
  EXPECT_LT(fit.covariance.at(0, 0), 0.01);
  EXPECT_NEAR(fit.weights[0], 1, 1e-3);
}

// With errors that are all but normal the answer is a weighted mean: precision 100 at 0 and
// 2500 at 0.1 give 250 / 2600.
TEST(RobustFit, IsTheWeightedMeanWhereErrorsAreNormal) {
  FitOptions options;
  options.error_freedom = 1e9;
  options.prior_freedom = 1e9;
  options.ignorance = 700;
  const Fit fit = FitRobustly({Of({1}, 0.1)}, TenPercent(1), 1, options);
  EXPECT_NEAR(fit.unknowns[0], 250.0 / 2600, 1e-6);
  EXPECT_NEAR(fit.covariance.at(0, 0), 1.0 / 2600, 1e-8);
}

TEST(RobustFit, GivesTheMostToTheUnknownThatMattersMost) {
  const Fit fit = FitRobustly({Of({0.8, 0.2, 0}, 0.1)}, TenPercent(3), 3);
  EXPECT_NEAR(fit.unknowns[0] / fit.unknowns[1], 4, 1e-9);
  EXPECT_EQ(fit.unknowns[2], 0);
  EXPECT_GE(fit.covariance.at(2, 2), 0.01);  // Nothing is learnt of it.
  EXPECT_LT(fit.covariance.at(0, 0), 0.01);
}

TEST(RobustFit, AWildObservationHasNoPull) {
  for (const double wild : {std::log(10.0), -std::log(10.0), std::log(30.0)}) {
    SCOPED_TRACE(wild);
    const Fit without = FitRobustly({Of({1}, 0.1)}, TenPercent(1), 1);
    const Fit with = FitRobustly({Of({1}, 0.1), Of({1}, wild)}, TenPercent(1), 1);
    EXPECT_NEAR(with.unknowns[0], without.unknowns[0], 1e-3);
    EXPECT_LT(with.weights[1], 1e-3);
    EXPECT_LT(std::abs(FitRobustly({Of({1}, wild)}, TenPercent(1), 1).unknowns[0]), 1e-3);
  }
}

TEST(RobustFit, AFarObservationIsBelievedWhereOthersAgree) {
  const double far = std::log(2.2);
  const double alone = FitRobustly({Of({1}, far, 0.1)}, TenPercent(1), 1).unknowns[0];
  const double three =
      FitRobustly({Of({1}, far, 0.1), Of({1}, far + 0.02, 0.1), Of({1}, far - 0.03, 0.1)},
                  TenPercent(1), 1)
          .unknowns[0];
  EXPECT_LT(alone, 0.3);
  EXPECT_NEAR(three, far, 0.1);
}

TEST(RobustFit, StaysWithinBounds) {
  FitOptions options;
  const std::vector<LinearObservation> high(5, Of({1, 0.1}, 2.0));
  const std::vector<LinearObservation> low(5, Of({1, 0.1}, -1.5));
  for (const auto& observations : {high, low}) {
    const Fit fit = FitRobustly(observations, TenPercent(2), 2, options);
    for (const double unknown : fit.unknowns) {
      EXPECT_GE(unknown, options.least);
      EXPECT_LE(unknown, options.most);
    }
  }
}

TEST(RobustFit, OrderDoesNotMatter) {
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  std::vector<LinearObservation> observations;
  for (int i = 0; i < 12; ++i) {
    const std::vector<double> shares = {0.7 + 0.1 * normal(random), 0.3 + 0.1 * normal(random)};
    observations.push_back(Of(shares, 0.15 + 0.05 * normal(random)));
  }
  const Fit first = FitRobustly(observations, TenPercent(2), 2);
  std::reverse(observations.begin(), observations.end());
  const Fit second = FitRobustly(observations, TenPercent(2), 2);
  for (size_t i = 0; i < 2; ++i) EXPECT_NEAR(first.unknowns[i], second.unknowns[i], 1e-9);
}

TEST(RobustFit, RecoversWhatMadeTheObservations) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::normal_distribution<double> normal(0, 0.01);
  const std::vector<double> truth = {0.2, -0.1};
  std::vector<LinearObservation> observations;
  for (int i = 0; i < 40; ++i) {
    const double share = uniform(random);
    observations.push_back(
        Of({share, 1 - share}, share * truth[0] + (1 - share) * truth[1] + normal(random), 0.01));
  }
  for (int i = 0; i < 6; ++i) observations[static_cast<size_t>(i)].value += 1;  // Outliers.
  const Fit fit = FitRobustly(observations, TenPercent(2), 2);
  EXPECT_NEAR(fit.unknowns[0], truth[0], 0.02);
  EXPECT_NEAR(fit.unknowns[1], truth[1], 0.02);
}

}  // namespace
}  // namespace hapmoe::feedback
