#include "core/search/objectives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <tuple>

#include "tests/core/search/table_solver.h"
#include "tests/core/testing/fixtures.h"

namespace hapmoe::search {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using Kind = Objective::Kind;

Choice ChooseOf(TableSolver& table, const Objective& objective,
                const std::vector<Allocation>& allocations) {
  auto choice = Choose(table.request(), objective, allocations, table.solve(), table.interrupter(),
                       [](const ChoiceProgress&) {});
  EXPECT_TRUE(choice.ok()) << choice.status();
  return *std::move(choice);
}

// One to four nodes of one pool, four accelerators each: 8, 5, 4 and 3 seconds.
class FourNodes : public TableSolver {
 public:
  FourNodes() : TableSolver({4}) {
    Set({1}, {.seconds = 8});
    Set({2}, {.seconds = 5});
    Set({3}, {.seconds = 4});
    Set({4}, {.seconds = 3});
  }
};
const std::vector<Allocation>& OneToFour() {
  static const auto& allocations = *new std::vector<Allocation>{{{1}}, {{2}}, {{3}}, {{4}}};
  return allocations;
}

TEST(PriceTest, IsThatOfAllAcceleratorsOfTheAllocation) {
  TableSolver table({4, 2});
  table.SetPrices({2, 0.5});
  const cluster::Cluster& cluster = table.request().problem.cluster;
  EXPECT_EQ(PricePerHour(cluster, {{3, 1}}), 26);  // 12 x 2 + 4 x 0.5
  // 130 tokens/s x 3600 s / 26 an hour.
  EXPECT_EQ(TokensPerPrice(cluster, {{3, 1}}, 130), 18000);
}

TEST(FewestTest, TakesTheFewestThatMeetTheDeadlineAndStopsThere) {
  struct Case {
    Objective objective;
    std::optional<size_t> winner;
  };
  const Case cases[] = {
      {{Kind::kFewest, 100, std::nullopt}, 0},
      {{Kind::kFewest, 5, std::nullopt}, 1},
      {{Kind::kFewest, 4.5, std::nullopt}, 2},
      {{Kind::kFewest, 2, std::nullopt}, std::nullopt},
      {{Kind::kFewest, std::nullopt, 250}, 2},  // 1000 tokens in 4 seconds.
      {{Kind::kFewest, 5, 300}, 3},             // Both must hold: 1000 / 300 = 3.33 s.
  };
  for (const auto& [objective, winner] : cases) {
    FourNodes table;
    const Choice choice = ChooseOf(table, objective, OneToFour());
    EXPECT_EQ(choice.winner, winner);
    EXPECT_EQ(choice.proven, winner.has_value());
    EXPECT_EQ(table.searched(), winner.has_value() ? static_cast<int64_t>(*winner) + 1 : 4);
    EXPECT_EQ(choice.infeasibility.has_value(), !winner.has_value());
  }
}

TEST(FewestTest, SaysWhyInNumbers) {
  FourNodes table;
  EXPECT_EQ(ChooseOf(table, {Kind::kFewest, 5, std::nullopt}, OneToFour()).why,
            "8 accelerators (a 2 nodes) are the fewest found to meet 5 s an iteration: 5 s an "
            "iteration, 200 tokens/s. The best of fewer, 4 accelerators (a 1 node), gives 8 s an "
            "iteration, 125 tokens/s. Of 4 allocations 2 were searched; no other can be a better "
            "choice.");
}

TEST(FewestTest, SaysWhichLimitNothingMeets) {
  FourNodes table;
  const Choice late = ChooseOf(table, {Kind::kFewest, 2, std::nullopt}, OneToFour());
  EXPECT_EQ(late.infeasibility->binding_rule, "deadline");
  EXPECT_EQ(late.infeasibility->summary,
            "No allocation was found to meet 2 s an iteration: the fastest, 16 accelerators (a 4 "
            "nodes), gives 3 s an iteration, 333 tokens/s.");
  EXPECT_EQ(late.infeasibility->suggestion, "Allow 3.000 s an iteration.");
  FourNodes again;
  const Choice slow = ChooseOf(again, {Kind::kFewest, 9, 1e6}, OneToFour());
  EXPECT_EQ(slow.infeasibility->binding_rule, "throughput");
  EXPECT_EQ(slow.infeasibility->suggestion, "Ask for at most 333 tokens/s.");
}

TEST(FewestTest, IsNotProvenWhereABoundLeavesRoom) {
  FourNodes table;
  table.Set({1}, {.seconds = 8, .lower_bound = 4.9});
  const Choice choice = ChooseOf(table, {Kind::kFewest, 5, std::nullopt}, OneToFour());
  EXPECT_EQ(choice.winner, 1u);
  EXPECT_FALSE(choice.proven);
  EXPECT_THAT(choice.why, HasSubstr("leave room"));
}

TEST(FewestTest, OfAsManyTheFasterWins) {
  TableSolver table({1, 1});
  table.Set({1, 0}, {.seconds = 4});
  table.Set({0, 1}, {.seconds = 3});
  const Choice choice =
      ChooseOf(table, {Kind::kFewest, 5, std::nullopt}, {{{1, 0}}, {{0, 1}}, {{1, 1}}});
  EXPECT_EQ(choice.winner, 1u);
  EXPECT_FALSE(choice.points[2].outcome.has_value());
  EXPECT_EQ(choice.points[2].why, "Fewer accelerators meet the limit.");
}

TEST(FewestTest, ABoundOfAllRulesOutItsPartsWhereAcceleratorsMayIdle) {
  FourNodes table;
  table.AllowIdle(true);
  const Choice choice = ChooseOf(table, {Kind::kFewest, 2, std::nullopt}, OneToFour());
  EXPECT_EQ(table.searched(), 1);
  EXPECT_FALSE(choice.winner.has_value());
  EXPECT_THAT(choice.points[0].why, HasSubstr("takes less than 3 s, more than the limit of 2 s"));
  EXPECT_EQ(choice.infeasibility->binding_rule, "deadline");
}

TEST(FewestTest, WhatBindsTheLargestIsToldWhereNothingFits) {
  TableSolver table({2});
  table.Set({1}, {.short_of = "memory"});
  table.Set({2}, {.short_of = "host_memory"});
  const Choice choice = ChooseOf(table, {Kind::kFewest, 5, std::nullopt}, {{{1}}, {{2}}});
  EXPECT_EQ(choice.infeasibility->binding_rule, "host_memory");
}

TEST(FewestTest, AnInterruptedChoiceProvesNothing) {
  FourNodes table;
  table.TripAfter(1);
  const Choice choice = ChooseOf(table, {Kind::kFewest, 5, std::nullopt}, OneToFour());
  EXPECT_FALSE(choice.winner.has_value());
  EXPECT_FALSE(choice.infeasibility.has_value());
  EXPECT_EQ(table.searched(), 1);
}

TEST(FewestTest, AnInterruptedChoiceKeepsWhatItHas) {
  FourNodes table;
  table.TripAfter(2);
  const Choice choice = ChooseOf(table, {Kind::kFewest, 6, std::nullopt}, OneToFour());
  EXPECT_EQ(choice.winner, 1u);
  EXPECT_TRUE(choice.proven);  // One node takes 8 seconds at least.
  TableSolver priced({4});
  priced.SetPrices({1});
  priced.Set({1}, {.seconds = 8});
  priced.TripAfter(1);
  const Choice best = ChooseOf(priced, {Kind::kPrice, std::nullopt, std::nullopt}, OneToFour());
  EXPECT_EQ(best.winner, 0u);
  EXPECT_FALSE(best.proven);
  EXPECT_THAT(best.why, HasSubstr("the time ran out"));
  EXPECT_FALSE(best.points[3].settled);
}

TEST(FewestTest, SaysOnTheWayWhatItWouldChooseNow) {
  FourNodes table;
  std::vector<Choice> told;
  const Objective objective = {Kind::kFewest, 4.5, std::nullopt};
  const auto choice = Choose(table.request(), objective, OneToFour(), table.solve(),
                             table.interrupter(), [&](const ChoiceProgress& progress) {
                               told.push_back(progress.so_far());
                               EXPECT_EQ(progress.done, static_cast<int64_t>(told.size()));
                               EXPECT_EQ(progress.most, 4);
                             });
  ASSERT_TRUE(choice.ok());
  ASSERT_EQ(told.size(), 4u);
  // Neither one nor two nodes meet 4.5 s; what is not searched yet says so.
  EXPECT_FALSE(told[1].winner.has_value());
  EXPECT_EQ(told[1].points[3].allocation, OneToFour()[3]);
  EXPECT_FALSE(told[1].points[3].settled);
  EXPECT_THAT(told[1].points[3].why, HasSubstr("time ran out"));
  EXPECT_EQ(told[2].winner, 2u);
  EXPECT_EQ(told.back().winner, choice->winner);
  EXPECT_EQ(told.back().why, choice->why);
}

TEST(PriceObjectiveTest, TakesTheMostTokensForItsPrice) {
  // a: 1 node 4 x 3 = 12 an hour; b: 4 x 1 = 4 an hour.
  TableSolver table({1, 1});
  table.SetPrices({3, 1});
  table.Set({1, 0}, {.seconds = 2});    // 500 tokens/s for 12: 41.7
  table.Set({0, 1}, {.seconds = 8});    // 125 for 4: 31.25
  table.Set({1, 1}, {.seconds = 1.7});  // 588 for 16: 36.8
  const std::vector<Allocation> allocations = {{{0, 1}}, {{1, 0}}, {{1, 1}}};
  const Choice choice = ChooseOf(table, {Kind::kPrice, std::nullopt, std::nullopt}, allocations);
  EXPECT_EQ(choice.winner, 1u);
  EXPECT_TRUE(choice.proven);
  // 500 x 3600 / 12 and 588.2 x 3600 / 16.
  EXPECT_EQ(choice.why,
            "4 accelerators (a 1 node): 1.5e+05 tokens for one unit of price, 2 s an "
            "iteration, 500 tokens/s at 12 an hour, the most found. Next: 8 accelerators (a 1 "
            "node, b 1 node): 1.324e+05 tokens for one unit of price, 1.7 s an iteration, 588 "
            "tokens/s at 16 an hour. Of 3 allocations 3 were searched; no other can be a better "
            "choice.");
  // Where the dear one is too slow the next best is taken.
  const Choice fast = ChooseOf(table, {Kind::kPrice, 1.9, std::nullopt}, allocations);
  EXPECT_EQ(fast.winner, 2u);
  EXPECT_THAT(fast.why, HasSubstr("among those that meet 1.9 s an iteration"));
}

TEST(PriceObjectiveTest, OfAsGoodTheFewerWin) {
  TableSolver table({2});
  table.SetPrices({1});
  table.Set({1}, {.seconds = 4});
  table.Set({2}, {.seconds = 2});
  EXPECT_EQ(ChooseOf(table, {Kind::kPrice, std::nullopt, std::nullopt}, {{{1}}, {{2}}}).winner, 0u);
}

TEST(PriceObjectiveTest, SkipsWhatABoundOfAllRulesOut) {
  // All four nodes take 3 seconds at least, and so does each part: 1000 / 3 tokens a second for 2
  // nodes and more is beaten by 1000 / 3.5 for one.
  TableSolver table({4});
  table.AllowIdle(true);
  table.SetPrices({1});
  table.Set({1}, {.seconds = 3.5});
  table.Set({4}, {.seconds = 3});
  const Choice choice = ChooseOf(table, {Kind::kPrice, std::nullopt, std::nullopt}, OneToFour());
  EXPECT_EQ(choice.winner, 0u);
  EXPECT_TRUE(choice.proven);
  EXPECT_EQ(table.searched(), 2);
  EXPECT_THAT(choice.points[1].why, HasSubstr("as many tokens for its price"));
  EXPECT_THAT(choice.why, Not(HasSubstr("leave room")));
}

// Skipping changes no choice: with the real search, on random jobs, the winner is the one that a
// look at every allocation picks.
TEST(ChooseTest, PicksWhatSearchingEverythingPicks) {
  std::mt19937 random(21);
  int64_t skipped = 0;
  int64_t chosen = 0;
  for (int trial = 0; trial < 24; ++trial) {
    SCOPED_TRACE(trial);
    SearchRequest request;
    request.problem.model =
        hapmoe::testing::SmallModel(4 + static_cast<int64_t>(random() % 5), 256);
    request.problem.training = hapmoe::testing::SmallTraining(64);
    request.problem.cluster.pools = {hapmoe::testing::SmallPool("fast", 2, 4),
                                     hapmoe::testing::SmallPool("slow", 2, 4)};
    const double memory = 0.2e9 + static_cast<double>(random() % 10) * 0.1e9;
    request.problem.profiles = {hapmoe::testing::ScaledProfile("fast", 3, memory),
                                hapmoe::testing::ScaledProfile("slow", 1, memory)};
    request.problem.cluster.pools[0].price_per_accelerator_hour = 1 + random() % 4;
    request.problem.cluster.pools[1].price_per_accelerator_hour = 1;
    request.constraints.allow_idle_accelerators = trial % 2 == 0;
    InlineExecutor executor;
    const Interrupter interrupter;
    const auto solve = [&](const SearchRequest& cut) {
      return Search(cut, executor, interrupter, [](const Progress&) {});
    };
    const std::vector<Allocation> allocations =
        AllocationsOf(FinestSizes(request.problem.cluster, 64));
    std::vector<FrontierPoint> all;
    for (const Allocation& allocation : allocations) {
      all.push_back(AllocationSearches(request, solve, interrupter).Search(allocation).value());
    }
    std::vector<double> seconds;
    for (const FrontierPoint& point : all) {
      if (point.planned()) seconds.push_back(point.best().prediction.iteration_seconds);
    }
    Objective objective;
    objective.kind = trial % 3 == 0 ? Kind::kPrice : Kind::kFewest;
    objective.deadline_seconds = seconds.empty() ? 1 : seconds[random() % seconds.size()];

    std::optional<size_t> best;
    const auto figures = [&](size_t i) {
      const double took = all[i].best().prediction.iteration_seconds;
      const double price = objective.kind == Kind::kPrice
                               ? took * PricePerHour(request.problem.cluster, allocations[i])
                               : 0;
      return std::tuple(price, all[i].accelerators, took, i);
    };
    for (size_t i = 0; i < all.size(); ++i) {
      if (!all[i].planned() ||
          all[i].best().prediction.iteration_seconds > *objective.deadline_seconds) {
        continue;
      }
      if (!best.has_value() || figures(i) < figures(*best)) best = i;
    }
    const auto choice =
        Choose(request, objective, allocations, solve, interrupter, [](const ChoiceProgress&) {});
    ASSERT_TRUE(choice.ok());
    EXPECT_EQ(choice->winner, best);
    chosen += best.has_value() ? 1 : 0;
    for (const FrontierPoint& point : choice->points) skipped += point.outcome.has_value() ? 0 : 1;
  }
  EXPECT_GT(skipped, 0);
  EXPECT_GT(chosen, 12);
}

}  // namespace
}  // namespace hapmoe::search
