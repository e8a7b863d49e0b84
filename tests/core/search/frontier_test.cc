#include "core/search/frontier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>

#include "tests/core/search/table_solver.h"
#include "tests/core/testing/fixtures.h"

namespace hapmoe::search {
namespace {

using hapmoe::testing::ScaledProfile;
using hapmoe::testing::SmallModel;
using hapmoe::testing::SmallPool;
using hapmoe::testing::SmallTraining;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A frontier by a solver of the test's own.
std::vector<FrontierPoint> FrontierOf(TableSolver& table, const FrontierRequest& frontier) {
  auto points = Frontier(table.request(), frontier, table.solve(), table.interrupter(),
                         [](const FrontierProgress&) {});
  EXPECT_TRUE(points.ok()) << points.status();
  return *std::move(points);
}

TEST(FrontierTest, HasAPointForEachAllocationInOrder) {
  TableSolver table({4});
  table.Set({1}, {.seconds = 8, .bytes = 10});
  table.Set({2}, {.seconds = 4, .bytes = 10});
  table.Set({4}, {.seconds = 3, .bytes = 10});
  const auto points = FrontierOf(table, {AllocationsOf({{1, 2, 4}})});
  ASSERT_EQ(points.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(points[i].planned());
    EXPECT_EQ(points[i].accelerators, int64_t{4} << i);
    EXPECT_EQ(points[i].why, "");
    EXPECT_TRUE(points[i].on_pareto_front);  // Each is faster, or takes fewer.
  }
  EXPECT_EQ(points[1].best().prediction.iteration_seconds, 4);
}

// What a frontier says of itself on the way is what it answers when its time ends there.
TEST(FrontierTest, SaysOnTheWayWhatItWouldAnswerNow) {
  const auto table_of = [](int64_t trip_after) {
    auto table = std::make_unique<TableSolver>(std::vector<int64_t>{4});
    table->Set({1}, {.seconds = 8, .bytes = 10});
    table->Set({2}, {.seconds = 4, .bytes = 10});
    table->Set({4}, {.short_of = "memory"});
    if (trip_after > 0) table->TripAfter(trip_after);
    return table;
  };
  const FrontierRequest frontier = {AllocationsOf({{1, 2, 4}}), /*memory_steps=*/1};
  const auto table = table_of(0);
  std::vector<std::vector<FrontierPoint>> told;
  const auto all = Frontier(table->request(), frontier, table->solve(), table->interrupter(),
                            [&](const FrontierProgress& progress) {
                              EXPECT_EQ(progress.done, static_cast<int64_t>(told.size()) + 1);
                              EXPECT_EQ(progress.most, 6);
                              told.push_back(progress.so_far());
                            });
  ASSERT_TRUE(all.ok());
  ASSERT_GE(told.size(), 3u);
  for (size_t k = 0; k < 3; ++k) {
    SCOPED_TRACE(k);
    const auto cut_table = table_of(static_cast<int64_t>(k) + 1);
    const auto cut = FrontierOf(*cut_table, frontier);
    ASSERT_EQ(cut.size(), told[k].size());
    for (size_t i = 0; i < cut.size(); ++i) {
      EXPECT_EQ(cut[i].planned(), told[k][i].planned());
      EXPECT_EQ(cut[i].why, told[k][i].why);
      EXPECT_EQ(cut[i].on_pareto_front, told[k][i].on_pareto_front);
    }
  }
  EXPECT_THAT(told[0][2].why, HasSubstr("time ran out"));
}

TEST(FrontierTest, SaysThatMemoryRanOut) {
  TableSolver table({4});
  Interrupter stop;
  stop.Trip(Interrupter::Cause::kMemory);
  const auto points = Frontier(table.request(), {AllocationsOf({{1}}), 0}, table.solve(), stop,
                               [](const FrontierProgress&) {});
  ASSERT_TRUE(points.ok());
  EXPECT_THAT(points->front().why, HasSubstr("memory ran out"));
  EXPECT_FALSE(points->front().settled);
}

TEST(FrontierTest, SearchesEverythingUnlessAcceleratorsMayIdle) {
  for (const bool idle : {false, true}) {
    TableSolver table({4});
    table.AllowIdle(idle);
    for (const int64_t nodes : {1, 2, 4}) table.Set({nodes}, {.short_of = "memory"});
    const auto points = FrontierOf(table, {AllocationsOf({{1, 2, 4}})});
    EXPECT_EQ(table.searched(), idle ? 1 : 3);
    EXPECT_EQ(points[0].outcome.has_value(), !idle);
    EXPECT_THAT(points[0].why, HasSubstr(idle ? "Nothing fits: more nodes" : "Short of memory"));
    EXPECT_THAT(points[2].why, HasSubstr("Short of memory"));
  }
}

TEST(FrontierTest, RulesOfDivisibilityTellNothingOfSmallerAllocations) {
  TableSolver table({4});
  table.AllowIdle(true);
  table.Set({4}, {.short_of = "constraint_pp"});
  table.Set({2}, {.seconds = 4, .bytes = 10});
  const auto points = FrontierOf(table, {AllocationsOf({{2, 4}})});
  EXPECT_TRUE(points[0].planned());
  EXPECT_FALSE(points[1].planned());
}

TEST(FrontierTest, OnePoolTellsNothingOfAnother) {
  TableSolver table({2, 2});
  table.AllowIdle(true);
  table.Set({2, 0}, {.short_of = "memory"});
  table.Set({0, 2}, {.seconds = 4, .bytes = 10});
  table.Set({1, 0}, {.short_of = "memory"});
  table.Set({0, 1}, {.seconds = 8, .bytes = 10});
  const auto points = FrontierOf(table, {{{{0, 1}}, {{0, 2}}, {{1, 0}}, {{2, 0}}}});
  EXPECT_TRUE(points[0].planned());
  EXPECT_TRUE(points[1].planned());
  EXPECT_FALSE(points[2].outcome.has_value());  // Within 2 nodes of the same pool.
  EXPECT_EQ(table.searched(), 3);
}

TEST(FrontierTest, StopsWhenInterruptedAndSaysSo) {
  TableSolver table({4});
  for (const int64_t nodes : {1, 2, 4}) table.Set({nodes}, {.seconds = 4, .bytes = 10});
  table.TripAfter(2);
  const auto points = FrontierOf(table, {AllocationsOf({{1, 2, 4}}), /*memory_steps=*/3});
  ASSERT_EQ(points.size(), 3u);
  EXPECT_TRUE(points[0].planned());
  EXPECT_TRUE(points[1].planned());
  EXPECT_FALSE(points[2].outcome.has_value());
  EXPECT_THAT(points[2].why, HasSubstr("time ran out"));
}

TEST(FrontierTest, FailsAsTheSearchDoes) {
  TableSolver table({1});
  const auto points = Frontier(
      table.request(), {AllocationsOf({{1}})},
      [](const SearchRequest&) -> absl::StatusOr<Outcome> {
        return absl::InvalidArgumentError("no bf16");
      },
      table.interrupter(), [](const FrontierProgress&) {});
  EXPECT_EQ(points.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ParetoFrontTest, LeavesOutWhatAnotherPointBeats) {
  TableSolver table({4});
  table.Set({1}, {.seconds = 8, .bytes = 10});
  table.Set({2}, {.seconds = 4, .bytes = 12});
  table.Set({3}, {.seconds = 4, .bytes = 12});  // As the one before, on more.
  table.Set({4}, {.seconds = 4, .bytes = 11});  // Less memory.
  const auto points = FrontierOf(table, {AllocationsOf({{1, 2, 3, 4}})});
  std::vector<bool> front;
  for (const FrontierPoint& point : points) front.push_back(point.on_pareto_front);
  EXPECT_THAT(front, ElementsAre(true, true, false, true));
}

TEST(ParetoFrontTest, OfEqualPointsTheFirstIsOnIt) {
  TableSolver table({1, 1});
  table.Set({0, 1}, {.seconds = 4, .bytes = 10});
  table.Set({1, 0}, {.seconds = 4, .bytes = 10});
  const auto points = FrontierOf(table, {{{{0, 1}}, {{1, 0}}}});
  EXPECT_TRUE(points[0].on_pareto_front);
  EXPECT_FALSE(points[1].on_pareto_front);
}

// The real search, on 12 dense layers over two pools.
SearchRequest MixedRequest() {
  SearchRequest request;
  request.problem.model = SmallModel(12, 512);
  request.problem.training = SmallTraining(64);
  request.problem.cluster.pools = {SmallPool("fast", 2, 4), SmallPool("slow", 2, 4)};
  request.problem.profiles = {ScaledProfile("fast", 3, 4e9), ScaledProfile("slow", 1, 4e9)};
  return request;
}

std::vector<FrontierPoint> Solved(const SearchRequest& request, const FrontierRequest& frontier) {
  InlineExecutor executor;
  const Interrupter interrupter;
  return Frontier(
             request, frontier,
             [&](const SearchRequest& cut) {
               return Search(cut, executor, interrupter, [](const Progress&) {});
             },
             interrupter, [](const FrontierProgress&) {})
      .value();
}

TEST(ParetoFrontTest, TightenedSearchesTradeTimeForMemory) {
  const SearchRequest request = MixedRequest();
  const FrontierRequest frontier = {{{{2, 2}}}, /*memory_steps=*/4};
  const auto points = Solved(request, frontier);
  ASSERT_GT(points.size(), 1u);
  for (size_t i = 1; i < points.size(); ++i) {
    const cost::Prediction& before = points[i - 1].best().prediction;
    const cost::Prediction& after = points[i].best().prediction;
    EXPECT_TRUE(points[i].on_pareto_front);
    EXPECT_LT(after.device_memory_bytes(), before.device_memory_bytes());
    EXPECT_GE(after.iteration_seconds, before.iteration_seconds);
    EXPECT_GT(points[i].memory_headroom_ratio, points[i - 1].memory_headroom_ratio);
  }
}

TEST(FrontierTest, SkippingIsSafe) {
  // What is skipped because a larger allocation does not fit does not fit when it is searched.
  std::mt19937 random(11);
  int64_t skipped = 0;
  for (int trial = 0; trial < 8; ++trial) {
    SCOPED_TRACE(trial);
    SearchRequest request = MixedRequest();
    request.constraints.allow_idle_accelerators = true;
    const double memory = 0.1e9 + static_cast<double>(random() % 20) * 0.05e9;
    request.problem.profiles = {ScaledProfile("fast", 3, memory), ScaledProfile("slow", 1, memory)};
    for (const FrontierPoint& point :
         Solved(request, {AllocationsOf(DoubledSizes(request.problem.cluster))})) {
      if (point.outcome.has_value()) continue;
      ++skipped;
      InlineExecutor executor;
      const Interrupter interrupter;
      const auto alone =
          Search(Cut(request, point.allocation), executor, interrupter, [](const Progress&) {});
      EXPECT_FALSE(alone->best.has_value());
    }
  }
  EXPECT_GT(skipped, 0);
}

}  // namespace
}  // namespace hapmoe::search
