#include "core/model/assumed_imbalance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace hapmoe::model {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();
constexpr double kManyTokens = 1e12;

TEST(NormalQuantileTest, InvertsTheNormalDistribution) {
  for (const double x : {-6.0, -3.0, -1.959964, -0.5, 0.0, 0.1, 1.0, 2.34, 5.0}) {
    EXPECT_NEAR(NormalQuantile(0.5 * std::erfc(-x / std::sqrt(2.0))), x, 1e-7) << x;
  }
}

TEST(AssumedImbalanceTest, ForcedBalancingAndOneRankAreExactlyEven) {
  for (const auto& [balancing, ep] : {std::pair{Balancing::kForced, 8}, {Balancing::kNone, 1}}) {
    const Imbalance imbalance = AssumedImbalance(balancing, 64, 6, ep, 100, 0.99, kNoLimit);
    EXPECT_EQ(imbalance.time, 1);
    EXPECT_EQ(imbalance.memory, 1);
  }
}

// The figures that the spreads come from: a rank for each of 64 experts, 6 a token.
TEST(AssumedImbalanceTest, GivesBackThePublishedLoads) {
  EXPECT_NEAR(AssumedImbalance(Balancing::kExpertBias, 64, 6, 64, kManyTokens, 0, kNoLimit).time,
              1.04, 0.001);
  EXPECT_NEAR(AssumedImbalance(Balancing::kAuxiliaryLoss, 64, 6, 64, kManyTokens, 0, kNoLimit).time,
              1 + 0.62 / 2, 0.005);
}

TEST(AssumedImbalanceTest, TakesTheSumByHand) {
  // Four experts on each of 4 ranks, 4 of 16 a token: spread 0.138 / 2, times the root of 12/15:
  // 0.0617. The most of 4 lies 1.049 above the mean by Blom (quantile 3.625 / 4.25), and stays
  // below 2.807 in 99 of 100 (quantile 0.99^(1/4)).
  const Imbalance many =
      AssumedImbalance(Balancing::kAuxiliaryLoss, 16, 4, 4, kManyTokens, 0.99, kNoLimit);
  EXPECT_NEAR(many.time, 1 + 1.049 * 0.0617, 2e-4);
  EXPECT_NEAR(many.memory, 1 + 2.807 * 0.0617, 3e-4);
  EXPECT_NEAR(many.saved, 1 + 2.807 / 2 * 0.0617, 3e-4);  // Four passes together.
  // Mostly chance: 100 tokens a rank, the root of 1/100 + 0.018^2 / 4 times the same root.
  const Imbalance bias = AssumedImbalance(Balancing::kExpertBias, 16, 4, 4, 100, 0.99, kNoLimit);
  EXPECT_NEAR(bias.time, 1 + 1.049 * 0.1004 * 0.8944, 5e-4);
}

TEST(AssumedImbalanceTest, NeverExceedsCapacityOrAllTokensOnOneRank) {
  const Imbalance capped =
      AssumedImbalance(Balancing::kAuxiliaryLoss, 64, 6, 64, kManyTokens, 0.99, 1.25);
  EXPECT_EQ(capped.time, 1.25);
  EXPECT_EQ(capped.memory, 1.25);
  EXPECT_EQ(capped.saved, 1.25);
  EXPECT_EQ(AssumedImbalance(Balancing::kNone, 2, 1, 2, 0.01, 0.99, kNoLimit).memory, 2);
}

TEST(AssumedImbalanceTest, FollowsWhatEvensLoadsOut) {
  const auto load = [](Balancing balancing, int64_t experts, int64_t topk, int64_t ep,
                       double tokens, double quantile) {
    return AssumedImbalance(balancing, experts, topk, ep, tokens, quantile, kNoLimit);
  };
  const Imbalance base = load(Balancing::kAuxiliaryLoss, 64, 6, 8, 4096, 0.9);
  EXPECT_GE(base.memory, base.time);
  EXPECT_GT(load(Balancing::kNone, 64, 6, 8, 4096, 0.9).time, 1);
  EXPECT_LT(load(Balancing::kExpertBias, 64, 6, 8, 4096, 0.9).time, base.time);
  EXPECT_LT(load(Balancing::kSinkhorn, 64, 6, 8, 4096, 0.9).time, base.time);
  EXPECT_GT(load(Balancing::kAuxiliaryLoss, 64, 6, 16, 4096, 0.9).time, base.time);  // Ranks.
  EXPECT_LT(load(Balancing::kAuxiliaryLoss, 256, 6, 8, 4096, 0.9).time, base.time);  // Experts.
  EXPECT_LT(load(Balancing::kAuxiliaryLoss, 64, 32, 8, 4096, 0.9).time, base.time);  // A token's.
  EXPECT_LT(load(Balancing::kAuxiliaryLoss, 64, 6, 8, 65536, 0.9).time, base.time);  // Tokens.
  EXPECT_GT(load(Balancing::kAuxiliaryLoss, 64, 6, 8, 4096, 0.999).memory, base.memory);
  EXPECT_EQ(load(Balancing::kAuxiliaryLoss, 64, 64, 8, 4096, 0.9).time, 1);  // Every expert.
}

// Tokens that choose at random, against the formula without a spread of experts.
TEST(AssumedImbalanceTest, ChanceAgreesWithThrowingTokens) {
  constexpr int kRanks = 8;
  constexpr int kTokens = 512;  // A rank's mean; one expert a rank, one a token.
  constexpr int kTrials = 2000;
  std::mt19937 random(7);
  std::vector<double> most;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<int> loads(kRanks);
    for (int i = 0; i < kRanks * kTokens; ++i) ++loads[random() % kRanks];
    most.push_back(static_cast<double>(*std::max_element(loads.begin(), loads.end())) / kTokens);
  }
  double mean = 0;
  for (const double each : most) mean += each / kTrials;
  std::sort(most.begin(), most.end());
  // Biases spread experts by 0.018 beside it.
  const double chance = std::sqrt(1.0 / kTokens);
  const double with_spread = std::sqrt(0.018 * 0.018 + 1.0 / kTokens);
  const Imbalance assumed =
      AssumedImbalance(Balancing::kExpertBias, kRanks, 1, kRanks, kTokens, 0.99, kNoLimit);
  EXPECT_NEAR((assumed.time - 1) / with_spread, (mean - 1) / chance, 0.05);
  EXPECT_NEAR((assumed.memory - 1) / with_spread, (most[kTrials * 99 / 100] - 1) / chance, 0.2);
}

}  // namespace
}  // namespace hapmoe::model
