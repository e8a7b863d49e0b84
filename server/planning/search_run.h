// The searches of one call: under one time budget, with their processor time counted.
#ifndef HAPMOE_SERVER_PLANNING_SEARCH_RUN_H_
#define HAPMOE_SERVER_PLANNING_SEARCH_RUN_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "core/base/interrupter.h"
#include "core/base/memory_budget.h"
#include "core/search/search.h"
#include "server/concurrency/cpu_meter.h"
#include "server/concurrency/deadline_timer.h"
#include "server/concurrency/thread_pool.h"
#include "server/planning/answer.h"
#include "server/planning/plan_solver.h"

namespace hapmoe::server {

// Whether an incumbent stands up to core/search/certificate.h; logged where it does not.
bool CertifiedPlan(const search::SearchRequest& request, const search::Costed& plan);

// Whether all that an outcome shows does.
bool CertifiedOutcome(const search::SearchRequest& request, const search::Outcome& outcome);

// Trips the interrupter when the time budget has passed since construction; nothing stands for a
// budget that the caller keeps. Used by the thread that the call runs on.
class SearchRun {
 public:
  // All must outlive this object. `memory` may be null: nobody counts. `call_start`:
  // ThreadCpuNanoseconds() when the call began.
  SearchRun(const PlanSolver& solver, ThreadPool& pool, DeadlineTimer& timer, MemoryBudget* memory,
            int64_t call_start, std::optional<std::chrono::nanoseconds> budget,
            const std::shared_ptr<Interrupter>& interrupter)
      : solver_(solver),
        call_start_(call_start),
        executor_(pool, helpers_),
        interrupter_(interrupter) {
    if (memory != nullptr) memory_.emplace(*memory, *interrupter_);
    if (!budget.has_value()) return;
    deadline_ =
        timer.Set(start_ + std::chrono::duration_cast<Clock::duration>(*budget), interrupter);
  }

  // May be called again: every search shares the budget. INTERNAL, and logged: a plan does not
  // stand up to core/search/certificate.h.
  absl::StatusOr<search::Outcome> Search(const search::SearchRequest& request,
                                         absl::FunctionRef<void(const search::Progress&)> progress);

  // Of all searches so far, and of the call so far.
  CallTimes times() const {
    const auto seconds = [](int64_t nanoseconds) {
      return 1e-9 * static_cast<double>(nanoseconds);
    };
    CallTimes times;
    times.search_cpu_seconds = seconds(search_nanoseconds_) + helpers_.seconds();
    times.total_cpu_seconds = seconds(ThreadCpuNanoseconds() - call_start_) + helpers_.seconds();
    if (memory_.has_value()) {
      const MemoryBudget& all = memory_->budget();
      times.memory = {memory_->wanted_bytes(), all.most_alone_bytes(), all.most_bytes()};
    }
    times.search_wall_seconds = std::chrono::duration<double>(search_wall_end_ - start_).count();
    return times;
  }

  const Interrupter& interrupter() const { return *interrupter_; }
  // Null: nobody counts.
  MemoryMeter* memory() { return memory_.has_value() ? &*memory_ : nullptr; }

 private:
  using Clock = std::chrono::steady_clock;

  const PlanSolver& solver_;
  const int64_t call_start_;
  const Clock::time_point start_ = Clock::now();
  CpuMeter helpers_;
  MeteredExecutor executor_;
  const std::shared_ptr<Interrupter> interrupter_;
  std::optional<MemoryMeter> memory_;
  DeadlineTimer::Registration deadline_;
  int64_t search_nanoseconds_ = 0;
  Clock::time_point search_wall_end_ = start_;
};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_PLANNING_SEARCH_RUN_H_
