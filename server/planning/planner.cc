#include "server/planning/planner.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/status_macros.h"
#include "core/cost/coverage.h"
#include "core/cost/evaluate.h"
#include "core/search/frontier.h"
#include "core/search/objectives.h"
#include "server/planning/answer.h"
#include "server/planning/engine_search.h"
#include "server/planning/frontier_answer.h"
#include "server/planning/problem_reader.h"
#include "server/planning/search_run.h"
#include "server/wire/to_wire.h"

namespace hapmoe::server {
namespace {

using Clock = std::chrono::steady_clock;

// The answer of one search, or why there is none.
absl::StatusOr<v1::PlanAnswer> AnswerOf(const ReadProblem& read, const search::Outcome& outcome,
                                        const std::vector<v1::EngineComparison>& engines,
                                        const CallTimes& times) {
  // An answer for a caller that went away is not worth building.
  const bool cancelled = outcome.termination.limit == search::Limit::kCancelled;
  if (cancelled || !outcome.best.has_value()) return BuildFailure(outcome, times);
  HAPMOE_ASSIGN_OR_RETURN(v1::PlanAnswer answer, BuildAnswer(read, outcome));
  SetTimes(times, *answer.mutable_termination()->mutable_statistics());
  for (const v1::EngineComparison& engine : engines) *answer.add_engines() = engine;
  return answer;
}

// What one search came to, or would if its time ended now.
struct Found {
  // Of a search that has not ended, whose outcome is not checked yet; else null.
  std::shared_ptr<const search::SearchRequest> request;
  search::Outcome outcome;
  std::vector<v1::EngineComparison> engines;
  CallTimes times;

  absl::StatusOr<v1::PlanAnswer> Answer(const ReadProblem& read) const {
    if (request != nullptr && !CertifiedOutcome(*request, outcome)) {
      return absl::InternalError("an incumbent did not stand up to its check");
    }
    return AnswerOf(read, outcome, engines, times);
  }
};

Found SoFarOf(const search::SearchRequest& request, const search::Progress& progress,
              const EngineSearch& engines, const SearchRun& run) {
  auto kept = std::make_shared<search::SearchRequest>(request);
  kept->memory = nullptr;  // It outlives the run.
  search::Outcome outcome = progress.so_far();
  return {std::move(kept), std::move(outcome), engines.comparisons(), run.times()};
}

absl::StatusOr<v1::ExplainResponse> ExplanationOf(const ReadExplanation& read, const Found& found) {
  HAPMOE_ASSIGN_OR_RETURN(v1::PlanAnswer best, found.Answer(read.problem));
  return BuildExplanation(read, std::move(best), *found.outcome.best);
}

// Lets something be done once an interval.
class Pace {
 public:
  explicit Pace(std::chrono::nanoseconds interval) : interval_(interval) {}

  bool Due() {
    const Clock::time_point now = Clock::now();
    if (now < next_) return false;
    next_ = now + interval_;
    return true;
  }

 private:
  const std::chrono::nanoseconds interval_;
  Clock::time_point next_;
};

// Passes on what the searches of a run tell to an observer, in its words and not too often. Used by
// the thread of the run.
class ProgressTeller {
 public:
  // All but `observer`, which may be null, must outlive this.
  ProgressTeller(const std::shared_ptr<const PreparedPlan>& prepared,
                 const search::SearchRequest& request, const SearchRun& run,
                 const EngineSearch& engines, PlanObserver* observer,
                 std::chrono::nanoseconds interval)
      : prepared_(prepared),
        request_(request),
        run_(run),
        engines_(engines),
        observer_(observer),
        pace_(interval),
        so_far_pace_(interval) {}

  void Tell(const search::Progress& progress) {
    if (observer_ == nullptr) return;
    if (progress.improved != nullptr) {
      best_seconds_ = progress.improved->prediction.iteration_seconds;
      // One that cannot be shown is no reason to stop: the answer will tell.
      if (observer_->WantsIncumbents() && CertifiedPlan(request_, *progress.improved)) {
        auto incumbent = BuildIncumbent(prepared_->read, progress);
        if (incumbent.ok()) observer_->OnIncumbent(*std::move(incumbent));
      }
    }
    if (pace_.Due()) observer_->OnProgress(ProgressToWire(progress, best_seconds_));
    if (progress.so_far == nullptr || !observer_->WantsSoFar()) return;
    if (progress.improved == nullptr && !so_far_pace_.Due()) return;
    observer_->OnSoFar([prepared = prepared_, found = SoFarOf(request_, progress, engines_, run_)] {
      return found.Answer(prepared->read);
    });
  }

  // Where the search is of allocations.
  void Tell(const search::ChoiceProgress& told) {
    if (observer_ == nullptr) return;
    if (pace_.Due()) {
      v1::Progress progress;
      progress.set_candidates(told.most);
      progress.set_candidates_done(told.done);
      observer_->OnProgress(progress);
    }
    if (!observer_->WantsSoFar()) return;
    observer_->OnSoFar([prepared = prepared_, choice = told.so_far(), times = run_.times()] {
      search::Choice taken = choice;
      return BuildChoice(prepared->read, taken, Interrupter::Cause::kTime, times);
    });
  }

 private:
  const std::shared_ptr<const PreparedPlan>& prepared_;
  const search::SearchRequest& request_;
  const SearchRun& run_;
  const EngineSearch& engines_;
  PlanObserver* const observer_;
  Pace pace_;
  Pace so_far_pace_;
  double best_seconds_ = 0;
};

// The request, with what it searches charged to the run.
search::SearchRequest Metered(search::SearchRequest request, SearchRun& run) {
  request.memory = run.memory();
  return request;
}

// Searches of a run whose progress nobody is told.
auto SearchSilently(EngineSearch& engines) {
  return [&engines](const search::SearchRequest& request) {
    return engines.Search(request, [](const search::Progress&) {});
  };
}

}  // namespace

Planner::Planner(const ProfileStore& profiles, const EngineCatalog& engines,
                 const PlanSolver& solver, ThreadPool& pool, DeadlineTimer& timer, Options options,
                 CorrectionsSource* corrections)
    : profiles_(profiles),
      engines_(engines),
      solver_(solver),
      pool_(pool),
      timer_(timer),
      options_(options),
      corrections_(corrections) {}

ProfileView Planner::View() const {
  ProfileView view;
  view.catalog = profiles_.catalog();
  if (corrections_ != nullptr) view.corrections = corrections_->Current(*view.catalog);
  return view;
}

absl::StatusOr<v1::PlanAnswer> Planner::Plan(const std::string& request_id,
                                             const v1::Problem& problem,
                                             const std::shared_ptr<Interrupter>& interrupter,
                                             PlanObserver* observer,
                                             const v1::LaunchOptions& launch) const {
  HAPMOE_ASSIGN_OR_RETURN(const std::shared_ptr<const PreparedPlan> prepared,
                          Prepare(request_id, problem, launch, View()));
  return Search(prepared, BudgetOf(prepared->read), interrupter, observer);
}

absl::StatusOr<std::shared_ptr<const PreparedPlan>> Planner::Prepare(
    const std::string& request_id, const v1::Problem& problem, const v1::LaunchOptions& launch,
    const ProfileView& view) const {
  const int64_t call_start = ThreadCpuNanoseconds();
  HAPMOE_ASSIGN_OR_RETURN(ReadProblem read,
                          ReadPlanRequest(request_id, problem, *view.catalog, engines_,
                                          {&launch, options_.schedulers}));
  Correct(view.corrections, read);
  auto prepared = std::make_shared<PreparedPlan>();
  prepared->problem = problem;
  prepared->read = std::move(read);
  prepared->cpu_nanoseconds = ThreadCpuNanoseconds() - call_start;
  return prepared;
}

absl::StatusOr<v1::PlanAnswer> Planner::Search(const std::shared_ptr<const PreparedPlan>& prepared,
                                               std::optional<std::chrono::nanoseconds> budget,
                                               const std::shared_ptr<Interrupter>& interrupter,
                                               PlanObserver* observer) const {
  const int64_t call_start = ThreadCpuNanoseconds() - prepared->cpu_nanoseconds;
  const ReadProblem& read = prepared->read;
  SearchRun run(solver_, pool_, timer_, options_.memory, call_start, budget, interrupter);
  EngineSearch engines(read, run);
  const search::SearchRequest request = Metered(SearchRequestOf(read), run);
  ProgressTeller teller(prepared, request, run, engines, observer, options_.progress_interval);
  absl::StatusOr<v1::PlanAnswer> answer;
  if (read.objective.kind != search::Objective::Kind::kTime) {
    absl::StatusOr<search::Choice> choice = search::Choose(
        request, read.objective, read.allocations, SearchSilently(engines), *interrupter,
        [&teller](const search::ChoiceProgress& progress) { teller.Tell(progress); });
    if (!choice.ok()) return FromCore(choice.status());
    answer = BuildChoice(read, *choice, interrupter->cause(), run.times());
  } else {
    absl::StatusOr<search::Outcome> outcome = engines.Search(
        request, [&teller](const search::Progress& progress) { teller.Tell(progress); });
    if (!outcome.ok()) return FromCore(outcome.status());
    answer = AnswerOf(read, *outcome, engines.comparisons(), run.times());
  }
  if (answer.ok()) Remember(prepared->problem, *answer);
  return answer;
}

void Planner::Remember(const v1::Problem& problem, const v1::PlanAnswer& answer) const {
  if (corrections_ == nullptr) return;
  const auto remember = [&](const v1::ExecutionPlan& plan) {
    v1::IterationReport ran;
    *ran.mutable_job() = problem.job();
    *ran.mutable_cluster() = problem.cluster();
    *ran.mutable_plan() = plan;
    corrections_->Remember(plan.plan_id(), std::move(ran));
  };
  remember(answer.plan());
  if (answer.has_uniform()) remember(answer.uniform().plan());
  for (const v1::Alternative& alternative : answer.alternatives()) remember(alternative.plan());
}

void Planner::RememberLayout(const v1::Job& job, const v1::Cluster& cluster, int32_t world_size,
                             const v1::ExecutionPlan& plan) const {
  if (corrections_ == nullptr) return;
  v1::IterationReport ran;
  *ran.mutable_job() = job;
  *ran.mutable_cluster() = cluster;
  ran.set_world_size(world_size);
  corrections_->Remember(plan.plan_id(), std::move(ran));
}

absl::StatusOr<std::shared_ptr<const PreparedFrontier>> Planner::Prepare(
    const v1::FrontierRequest& request, const ProfileView& view) const {
  const int64_t call_start = ThreadCpuNanoseconds();
  auto prepared = std::make_shared<PreparedFrontier>();
  HAPMOE_ASSIGN_OR_RETURN(prepared->read, ReadFrontierRequest(request, *view.catalog, engines_));
  Correct(view.corrections, prepared->read);
  prepared->cpu_nanoseconds = ThreadCpuNanoseconds() - call_start;
  return prepared;
}

absl::StatusOr<v1::FrontierResponse> Planner::Search(
    const std::shared_ptr<const PreparedFrontier>& prepared,
    std::optional<std::chrono::nanoseconds> budget, const std::shared_ptr<Interrupter>& interrupter,
    SoFarObserver<v1::FrontierResponse>* observer) const {
  const int64_t call_start = ThreadCpuNanoseconds() - prepared->cpu_nanoseconds;
  const ReadProblem& read = prepared->read;
  SearchRun run(solver_, pool_, timer_, options_.memory, call_start, budget, interrupter);
  EngineSearch engines(read, run);
  const absl::StatusOr<std::vector<search::FrontierPoint>> points = search::Frontier(
      Metered(SearchRequestOf(read), run), {read.allocations, read.memory_steps},
      SearchSilently(engines), *interrupter, [&](const search::FrontierProgress& progress) {
        if (observer == nullptr || !observer->WantsSoFar()) return;
        observer->OnSoFar([prepared, points = progress.so_far(), times = run.times()] {
          return BuildFrontier(prepared->read, points, Interrupter::Cause::kTime, times);
        });
      });
  if (!points.ok()) return FromCore(points.status());
  return BuildFrontier(read, *points, interrupter->cause(), run.times());
}

absl::StatusOr<std::shared_ptr<const PreparedExplanation>> Planner::Prepare(
    const v1::ExplainRequest& request, const ProfileView& view) const {
  const int64_t call_start = ThreadCpuNanoseconds();
  auto prepared = std::make_shared<PreparedExplanation>();
  HAPMOE_ASSIGN_OR_RETURN(prepared->read, ReadExplainRequest(request, *view.catalog, engines_));
  Correct(view.corrections, prepared->read.problem);
  if (prepared->read.layout.has_value()) {
    Correct(view.corrections, prepared->read.layout->problem);
  }
  prepared->request = request;
  prepared->cpu_nanoseconds = ThreadCpuNanoseconds() - call_start;
  return prepared;
}

absl::StatusOr<v1::ExplainResponse> Planner::Search(
    const std::shared_ptr<const PreparedExplanation>& prepared,
    std::optional<std::chrono::nanoseconds> budget, const std::shared_ptr<Interrupter>& interrupter,
    SoFarObserver<v1::ExplainResponse>* observer) const {
  const int64_t call_start = ThreadCpuNanoseconds() - prepared->cpu_nanoseconds;
  const ReadExplanation& read = prepared->read;
  SearchRun run(solver_, pool_, timer_, options_.memory, call_start, budget, interrupter);
  EngineSearch engines(read.problem, run);
  const search::SearchRequest request = Metered(SearchRequestOf(read.problem), run);
  Pace pace(options_.progress_interval);
  const absl::StatusOr<search::Outcome> outcome =
      engines.Search(request, [&](const search::Progress& progress) {
        if (observer == nullptr || progress.so_far == nullptr || !observer->WantsSoFar()) return;
        if (progress.improved == nullptr && !pace.Due()) return;
        observer->OnSoFar([prepared, so_far = SoFarOf(request, progress, engines, run)] {
          return ExplanationOf(prepared->read, so_far);
        });
      });
  if (!outcome.ok()) return FromCore(outcome.status());
  HAPMOE_ASSIGN_OR_RETURN(
      v1::ExplainResponse response,
      ExplanationOf(read, {nullptr, *outcome, engines.comparisons(), run.times()}));
  Remember(prepared->request, response);
  return response;
}

void Planner::Remember(const v1::ExplainRequest& request,
                       const v1::ExplainResponse& response) const {
  Remember(request.problem(), response.best());
  if (!response.has_layout()) return;
  RememberLayout(request.problem().job(), request.problem().cluster(), request.world_size(),
                 response.layout());
}

std::chrono::nanoseconds Planner::BudgetOf(const ReadProblem& read) const {
  return std::min(read.limits.time_budget.value_or(options_.max_time_budget),
                  options_.max_time_budget);
}

absl::StatusOr<v1::EvaluateResponse> Planner::Evaluate(const v1::EvaluateRequest& request) const {
  const ProfileView view = View();
  HAPMOE_ASSIGN_OR_RETURN(ReadLayout layout, ReadEvaluateRequest(request, *view.catalog, engines_));
  Correct(view.corrections, layout.problem);
  const absl::StatusOr<cost::Prediction> prediction =
      cost::Evaluate(layout.problem.problem, layout.plan);
  if (!prediction.ok()) return FromCore(prediction.status());
  HAPMOE_ASSIGN_OR_RETURN(v1::EvaluateResponse response, BuildEvaluation(layout, *prediction));
  response.set_request_id(request.request_id());
  RememberLayout(request.job(), request.cluster(), request.world_size(), response.plan());
  if (request.list_operations()) {
    const auto coverage = cost::CoverageOf(layout.problem.problem, layout.plan);
    *response.mutable_operations() = CoverageToWire(coverage);
  }
  return response;
}

}  // namespace hapmoe::server
