#include "core/model/router_statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "core/model/operations.h"
#include "tests/core/testing/fixtures.h"

namespace hapmoe::model {
namespace {

using hapmoe::testing::Mixtral8x7B;
using hapmoe::testing::SmallTraining;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

TEST(RouterStatisticsTest, BusiestRankOverTheMeanOfRanks) {
  // Ranks of two experts bear 40 and 60 of 100 in the first layer, 90 and 10 in the second: 1.2 and
  // 1.8 times the mean of 50. Ranks of one bear at most 30 / 25 = 1.2 and 80 / 25 = 3.2.
  const RouterStatistics statistics{{{10, 30, 30, 30}, {80, 10, 5, 5}}};
  EXPECT_DOUBLE_EQ(ImbalanceOf(statistics, 2, kNoLimit).time, 1.5);
  EXPECT_DOUBLE_EQ(ImbalanceOf(statistics, 2, kNoLimit).memory, 1.8);
  EXPECT_DOUBLE_EQ(ImbalanceOf(statistics, 2, kNoLimit).saved, 1.8);
  EXPECT_DOUBLE_EQ(ImbalanceOf(statistics, 4, kNoLimit).time, 2.2);
  EXPECT_DOUBLE_EQ(ImbalanceOf(statistics, 4, kNoLimit).memory, 3.2);
  // Capacity holds each layer to 1.5: (1.2 + 1.5) / 2.
  EXPECT_DOUBLE_EQ(ImbalanceOf(statistics, 4, 1.5).time, 1.35);
  EXPECT_DOUBLE_EQ(ImbalanceOf(statistics, 4, 1.5).memory, 1.5);
}

TEST(RouterStatisticsTest, OneRankBearsTheMean) {
  EXPECT_EQ(ImbalanceOf({{{80, 10, 5, 5}}}, 1, kNoLimit).time, 1);
  EXPECT_EQ(ImbalanceOf({{{80, 10, 5, 5}}}, 1, kNoLimit).memory, 1);
}

TEST(RouterStatisticsTest, EqualCountsAreEven) {
  for (const int64_t ep : {1, 2, 4, 8}) {
    const RouterStatistics equal{{std::vector<int64_t>(8, 7), std::vector<int64_t>(8, 1)}};
    EXPECT_EQ(ImbalanceOf(equal, ep, kNoLimit).time, 1) << ep;
    EXPECT_EQ(ImbalanceOf(equal, ep, kNoLimit).memory, 1) << ep;
  }
}

TEST(RouterStatisticsTest, MoreSkewIsNeverLessLoad) {
  for (const int64_t ep : {2, 4}) {
    double before = 0;
    for (int64_t busy = 25; busy <= 100; busy += 15) {
      const int64_t rest = (100 - busy) / 3;
      const double now = ImbalanceOf({{{busy, rest, rest, rest}}}, ep, kNoLimit).time;
      EXPECT_GT(now, before) << "ep " << ep << ", busy " << busy;
      before = now;
    }
  }
}

TEST(RouterStatisticsTest, TheLargestCountsDoNotOverflow) {
  const int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_DOUBLE_EQ(ImbalanceOf({{{most, most, 0, 0}}}, 2, kNoLimit).time, 2);
}

TEST(RouterStatisticsTest, EveryFaultIsNamed) {
  const auto rules = [](const RouterStatistics& statistics) {
    std::vector<std::string> names;
    for (const Violation& violation : Validate(statistics, 2, 2, "router")) {
      names.push_back(violation.rule + " " + violation.field);
    }
    return names;
  };
  EXPECT_THAT(rules({{{1, 2}, {0, 3}}}), IsEmpty());
  EXPECT_THAT(rules({{{1, 2}}}), ElementsAre("router_statistics_layers router"));
  EXPECT_THAT(rules({{{1, 2, 3}, {1, -2}}}),
              ElementsAre("router_statistics_experts router[0]",
                          "router_statistics_not_negative router[1][1]"));
  EXPECT_THAT(rules({{{0, 0}, {1, 1}}}), ElementsAre("router_statistics_not_all_zero router[0]"));
}

TEST(RouterStatisticsTest, TimeTakesTheMeanAndMemoryTheMostOfLayers) {
  const TransformerSpec model = Mixtral8x7B();
  TrainingSpec skewed = SmallTraining(8);
  const Sharding sharding{.ep = 2};
  // 1.0 and 2.0 times the mean: 1.5 in time, 2 in memory.
  skewed.router_statistics = std::make_shared<const RouterStatistics>(
      RouterStatistics{{{1, 1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 0, 0, 0, 0}}});
  const Operations even = LayerOperations(model, SmallTraining(8), LayerKind::kMoe, sharding);
  const Operations uneven = LayerOperations(model, skewed, LayerKind::kMoe, sharding);
  ASSERT_EQ(even.size(), uneven.size());
  int experts = 0;
  for (size_t i = 0; i < even.size(); ++i) {
    if (std::string(even[i].name).rfind("experts_", 0) != 0) continue;
    ++experts;
    EXPECT_DOUBLE_EQ(uneven[i].saved_bytes, 2 * even[i].saved_bytes) << even[i].name;
    if (even[i].kind != OperationKind::kGroupedGemm) continue;
    EXPECT_DOUBLE_EQ(uneven[i].flops, 1.5 * even[i].flops) << even[i].name;
  }
  EXPECT_EQ(experts, 3);
  EXPECT_EQ(ModelFlops(model, skewed, 1), ModelFlops(model, SmallTraining(8), 1));

  TransformerSpec padded = model;
  padded.moe->capacity_factor = 1.25;
  EXPECT_DOUBLE_EQ(ExpertImbalance(padded, skewed, sharding).memory, 1.25);
  padded.moe->pad_to_capacity = true;
  EXPECT_EQ(ExpertImbalance(padded, skewed, sharding).memory, 1);
}

}  // namespace
}  // namespace hapmoe::model
