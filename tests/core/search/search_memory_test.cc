// What a search says it holds against what it allocates, and what it makes of less.
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/memory_budget.h"
#include "core/search/certificate.h"
#include "core/search/search.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/concurrency/thread_pool.h"
#include "tests/core/plan/allocation_counter.h"
#include "tests/core/testing/fixtures.h"

namespace hapmoe::search {
namespace {

using testing::ScaledProfile;
using testing::SmallModel;
using testing::SmallPool;
using testing::SmallTraining;

constexpr int64_t kPlenty = int64_t{1} << 40;

struct Case {
  std::string name;
  std::string engine;
  int64_t nodes;  // Of each of two pools.
  bool allow_idle;
};

// Where candidates take most, where the tables of the dynamic program do, and both.
std::vector<Case> Cases() {
  const int64_t nodes = testing::Instances(16, 8);
  return {{"manyCandidates", plan::kMegatronLm, nodes, true},
          {"fewCandidates", plan::kMegatronLm, nodes, false},
          {"degreesPerStage", plan::kFlagScale, 2, true}};
}

SearchRequest RequestOf(const Case& one) {
  SearchRequest request;
  request.constraints.engine = one.engine;
  request.constraints.allow_idle_accelerators = one.allow_idle;
  request.problem.model = SmallModel(32, 512, 8);
  request.problem.training = SmallTraining(256);
  request.problem.cluster.pools = {SmallPool("fast", one.nodes, 4),
                                   SmallPool("slow", one.nodes, 4)};
  request.problem.profiles = {ScaledProfile("fast", 3, 5e9), ScaledProfile("slow", 1, 5e9)};
  return request;
}

struct Metered {
  Outcome outcome;
  int64_t peak_bytes = 0;
  int64_t wanted_bytes = 0;
  int64_t allocated_bytes = 0;
  int64_t left_bytes = 0;
};

Metered SearchWith(int64_t most_bytes, SearchRequest request, Executor& executor) {
  MemoryBudget budget(most_bytes, 1);
  Interrupter interrupter;
  MemoryMeter meter(budget, interrupter);
  request.memory = &meter;
  Metered metered;
  ResetPeakBytes();
  const int64_t before = LiveBytes();
  auto outcome = Search(request, executor, interrupter, [](const Progress&) {});
  metered.allocated_bytes = PeakBytes() - before;
  EXPECT_TRUE(outcome.ok()) << outcome.status();
  if (outcome.ok()) metered.outcome = *std::move(outcome);
  metered.peak_bytes = meter.peak_bytes();
  metered.wanted_bytes = meter.wanted_bytes();
  metered.left_bytes = meter.used_bytes();
  return metered;
}

Metered SearchWith(int64_t most_bytes, const SearchRequest& request) {
  InlineExecutor executor;
  return SearchWith(most_bytes, request, executor);
}

class SearchMemoryTest : public ::testing::TestWithParam<Case> {};

// The meter tells all but little things.
TEST_P(SearchMemoryTest, TheMeterFollowsWhatIsAllocated) {
  const Metered all = SearchWith(kPlenty, RequestOf(GetParam()));
  EXPECT_EQ(all.outcome.termination.limit, Limit::kNone);
  EXPECT_EQ(all.wanted_bytes, 0);
  EXPECT_EQ(all.left_bytes, 0);
  EXPECT_GT(all.allocated_bytes, 1 << 20);
  EXPECT_GT(static_cast<double>(all.peak_bytes), 0.75 * static_cast<double>(all.allocated_bytes));
  EXPECT_LT(static_cast<double>(all.peak_bytes), 1.25 * static_cast<double>(all.allocated_bytes));
}

TEST_P(SearchMemoryTest, EnoughMemoryChangesNothing) {
  const SearchRequest request = RequestOf(GetParam());
  InlineExecutor executor;
  Interrupter interrupter;
  const auto free = Search(request, executor, interrupter, [](const Progress&) {});
  const Metered once = SearchWith(kPlenty, request);
  const Metered exact = SearchWith(once.peak_bytes, request);
  ASSERT_TRUE(free.ok() && free->best.has_value());
  for (const Metered* metered : {&once, &exact}) {
    const Outcome& outcome = metered->outcome;
    ASSERT_TRUE(outcome.best.has_value());
    EXPECT_EQ(outcome.best->prediction.iteration_seconds, free->best->prediction.iteration_seconds);
    EXPECT_EQ(outcome.termination.lower_bound_seconds, free->termination.lower_bound_seconds);
    EXPECT_EQ(outcome.termination.statistics.labels, free->termination.statistics.labels);
    EXPECT_EQ(outcome.termination.limit, Limit::kNone);
  }
}

// Whatever there is, it is kept, and what is answered holds: the plan is one, and the bound is not
// above what is best with all the memory that it takes.
TEST_P(SearchMemoryTest, LessMemoryEndsTheSearchWithWhatItHas) {
  const SearchRequest request = RequestOf(GetParam());
  const Metered all = SearchWith(kPlenty, request);
  ASSERT_TRUE(all.outcome.best.has_value());
  const double best = all.outcome.best->prediction.iteration_seconds;
  server::ThreadPool pool(/*threads=*/3, /*queue_capacity=*/16);
  InlineExecutor inline_executor;
  int refused = 0;
  int incumbents = 0;
  for (const int64_t percent : {1, 10, 25, 40, 50, 60, 70, 80, 90, 95, 98, 99}) {
    for (Executor* executor :
         {static_cast<Executor*>(&inline_executor), static_cast<Executor*>(&pool)}) {
      SCOPED_TRACE(percent);
      const int64_t most = all.peak_bytes * percent / 100;
      const Metered less = SearchWith(most, request, *executor);
      EXPECT_LE(less.peak_bytes, most);
      EXPECT_EQ(less.left_bytes, 0);
      // What is not counted, and the rows that are remembered even so.
      EXPECT_LT(less.allocated_bytes, most + all.allocated_bytes / 4 + (1 << 20));
      if (executor == &inline_executor) {
        EXPECT_EQ(less.outcome.termination.limit, Limit::kMemory);
        EXPECT_GT(less.wanted_bytes, most);
      }
      EXPECT_FALSE(less.outcome.infeasibility.has_value());
      if (!less.outcome.best.has_value()) {
        ++refused;
        continue;
      }
      ++incumbents;
      EXPECT_TRUE(CheckOutcome(request, less.outcome).ok());
      EXPECT_LE(less.outcome.termination.lower_bound_seconds, best * (1 + 1e-9));
      EXPECT_GE(less.outcome.best->prediction.iteration_seconds, best * (1 - 1e-9));
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(incumbents, 0);
}

INSTANTIATE_TEST_SUITE_P(All, SearchMemoryTest, ::testing::ValuesIn(Cases()),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace hapmoe::search
