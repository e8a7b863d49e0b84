// Solvers for tests: slow ones, and ones whose answers are known.
#ifndef HAPMOE_TESTS_SERVER_TESTING_FAKE_SOLVER_H_
#define HAPMOE_TESTS_SERVER_TESTING_FAKE_SOLVER_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "core/search/search.h"
#include "server/planning/plan_solver.h"

namespace hapmoe::server {

// Every accelerator in as much data parallelism as leaves none idle, layers spread evenly; costed
// as it is.
search::Costed TrivialPlan(const search::SearchRequest& request);

// What a test sees and steers while a SlowSolver searches. Thread safe.
struct SlowSearch {
  std::atomic<int> started{0};
  std::atomic<int> ended{0};
  std::atomic<int> seen_cancelled{0};
  std::atomic<int> seen_time{0};
};

// Searches until it is interrupted, telling its progress every millisecond. Answers with
// TrivialPlan as its incumbent, or with none.
class SlowSolver : public PlanSolver {
 public:
  SlowSolver(std::shared_ptr<SlowSearch> search, bool finds_plan)
      : search_(std::move(search)), finds_plan_(finds_plan) {}

  absl::StatusOr<search::Outcome> Search(
      const search::SearchRequest& request, Executor& executor, const Interrupter& interrupter,
      absl::FunctionRef<void(const search::Progress&)> progress) const override;

 private:
  const std::shared_ptr<SlowSearch> search_;
  const bool finds_plan_;
};

// Answers what a function says.
class FunctionSolver : public PlanSolver {
 public:
  using Function = std::function<absl::StatusOr<search::Outcome>(const search::SearchRequest&)>;
  explicit FunctionSolver(Function function) : function_(std::move(function)) {}

  absl::StatusOr<search::Outcome> Search(
      const search::SearchRequest& request, Executor&, const Interrupter&,
      absl::FunctionRef<void(const search::Progress&)>) const override {
    return function_(request);
  }

 private:
  const Function function_;
};

}  // namespace hapmoe::server

#endif  // HAPMOE_TESTS_SERVER_TESTING_FAKE_SOLVER_H_
