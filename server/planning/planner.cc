#include "server/planning/planner.h"

#include <algorithm>
#include <utility>

#include "core/base/status_macros.h"
#include "core/cost/coverage.h"
#include "core/cost/evaluate.h"
#include "core/search/certificate.h"
#include "server/concurrency/cpu_meter.h"
#include "server/errors/errors.h"
#include "server/log/log.h"
#include "server/planning/answer.h"
#include "server/planning/problem_reader.h"
#include "server/wire/to_wire.h"

namespace hapmoe::server {
namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

// Lets no plan out that does not stand up to a check of its own. A failure is a fault of ours: the
// log tells it, and callers an internal fault.
absl::Status Certified(absl::Status status, absl::string_view what) {
  if (!status.ok()) {
    LogLine(Severity::kError, "certificate_failed")
        .Add("of", what)
        .Add("message", status.message());
  }
  return status;
}

// Passes on what a search tells to an observer, in its words and not too often.
class ProgressTeller {
 public:
  ProgressTeller(const ReadProblem& read, const search::SearchRequest& request,
                 PlanObserver* observer, std::chrono::nanoseconds interval)
      : read_(read), request_(request), observer_(observer), interval_(interval) {}

  void Tell(const search::Progress& progress) {
    if (observer_ == nullptr) return;
    if (progress.improved != nullptr) {
      best_seconds_ = progress.improved->prediction.iteration_seconds;
      // One that cannot be shown is no reason to stop: the answer will tell.
      if (Certified(search::CheckPlan(request_, *progress.improved), "incumbent").ok()) {
        auto incumbent = BuildIncumbent(read_, progress);
        if (incumbent.ok()) observer_->OnIncumbent(*std::move(incumbent));
      }
    }
    const Clock::time_point now = Clock::now();
    if (now < next_) return;
    next_ = now + interval_;
    observer_->OnProgress(ProgressToWire(progress, best_seconds_));
  }

 private:
  const ReadProblem& read_;
  const search::SearchRequest& request_;
  PlanObserver* const observer_;
  const std::chrono::nanoseconds interval_;
  Clock::time_point next_;
  double best_seconds_ = 0;
};

}  // namespace

Planner::Planner(const ProfileStore& profiles, const EngineCatalog& engines,
                 const PlanSolver& solver, ThreadPool& pool, DeadlineTimer& timer, Options options)
    : profiles_(profiles),
      engines_(engines),
      solver_(solver),
      pool_(pool),
      timer_(timer),
      options_(options) {}

absl::StatusOr<v1::PlanAnswer> Planner::Plan(const std::string& request_id,
                                             const v1::Problem& problem,
                                             const std::shared_ptr<Interrupter>& interrupter,
                                             PlanObserver* observer) const {
  const int64_t call_start = ThreadCpuNanoseconds();
  HAPMOE_ASSIGN_OR_RETURN(const ReadProblem read,
                          ReadPlanRequest(request_id, problem, *profiles_.catalog(), engines_));
  const search::SearchRequest request = SearchRequestOf(read);

  const auto budget = std::min(read.limits.time_budget.value_or(options_.max_time_budget),
                               options_.max_time_budget);
  const Clock::time_point search_start = Clock::now();
  const DeadlineTimer::Registration deadline = timer_.Set(search_start + budget, interrupter);
  CpuMeter helpers;
  MeteredExecutor executor(pool_, helpers);
  ProgressTeller teller(read, request, observer, options_.progress_interval);
  const int64_t search_cpu_start = ThreadCpuNanoseconds();
  absl::StatusOr<search::Outcome> outcome =
      solver_.Search(request, executor, *interrupter,
                     [&teller](const search::Progress& progress) { teller.Tell(progress); });
  CallTimes times;
  times.search_cpu_seconds =
      1e-9 * static_cast<double>(ThreadCpuNanoseconds() - search_cpu_start) + helpers.seconds();
  times.search_wall_seconds = Seconds(Clock::now() - search_start);
  const auto total = [&] {
    return 1e-9 * static_cast<double>(ThreadCpuNanoseconds() - call_start) + helpers.seconds();
  };

  if (!outcome.ok()) return FromCore(outcome.status());
  // An answer for a caller that went away is not worth building.
  const bool cancelled = outcome->termination.limit == search::Limit::kCancelled;
  if (cancelled || !outcome->best.has_value()) {
    times.total_cpu_seconds = total();
    return BuildFailure(*outcome, times);
  }
  HAPMOE_RETURN_IF_ERROR(Certified(search::CheckOutcome(request, *outcome), "answer"));
  HAPMOE_ASSIGN_OR_RETURN(v1::PlanAnswer answer, BuildAnswer(read, *outcome));
  times.total_cpu_seconds = total();
  SetTimes(times, *answer.mutable_termination()->mutable_statistics());
  return answer;
}

absl::StatusOr<v1::EvaluateResponse> Planner::Evaluate(const v1::EvaluateRequest& request) const {
  HAPMOE_ASSIGN_OR_RETURN(const ReadLayout layout,
                          ReadEvaluateRequest(request, *profiles_.catalog(), engines_));
  const absl::StatusOr<cost::Prediction> prediction =
      cost::Evaluate(layout.problem.problem, layout.plan);
  if (!prediction.ok()) return FromCore(prediction.status());
  HAPMOE_ASSIGN_OR_RETURN(v1::EvaluateResponse response, BuildEvaluation(layout, *prediction));
  response.set_request_id(request.request_id());
  if (request.list_operations()) {
    const auto coverage = cost::CoverageOf(layout.problem.problem, layout.plan);
    *response.mutable_operations() = CoverageToWire(coverage);
  }
  return response;
}

}  // namespace hapmoe::server
