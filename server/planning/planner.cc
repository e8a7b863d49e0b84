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
      if (Certified(*progress.improved)) {
        auto incumbent = BuildIncumbent(read_, progress);
        if (incumbent.ok()) observer_->OnIncumbent(*std::move(incumbent));
      }
    }
    if (Due()) observer_->OnProgress(ProgressToWire(progress, best_seconds_));
  }

  // Where the search is of allocations.
  void Tell(int64_t done, int64_t most) {
    if (observer_ == nullptr || !Due()) return;
    v1::Progress progress;
    progress.set_candidates(most);
    progress.set_candidates_done(done);
    observer_->OnProgress(progress);
  }

 private:
  bool Certified(const search::Costed& plan) const {
    if (request_.constraints.engine == plan.plan.engine) return CertifiedPlan(request_, plan);
    search::SearchRequest request = request_;  // Any engine: that of the space being searched.
    request.constraints.engine = plan.plan.engine;
    return CertifiedPlan(request, plan);
  }

  bool Due() {
    const Clock::time_point now = Clock::now();
    if (now < next_) return false;
    next_ = now + interval_;
    return true;
  }

  const ReadProblem& read_;
  const search::SearchRequest& request_;
  PlanObserver* const observer_;
  const std::chrono::nanoseconds interval_;
  Clock::time_point next_;
  double best_seconds_ = 0;
};

// The answer of one search, or why there is none.
absl::StatusOr<v1::PlanAnswer> AnswerOf(const ReadProblem& read, const search::Outcome& outcome,
                                        const EngineSearch& engines, const SearchRun& run) {
  // An answer for a caller that went away is not worth building.
  const bool cancelled = outcome.termination.limit == search::Limit::kCancelled;
  if (cancelled || !outcome.best.has_value()) return BuildFailure(outcome, run.times());
  HAPMOE_ASSIGN_OR_RETURN(v1::PlanAnswer answer, BuildAnswer(read, outcome));
  SetTimes(run.times(), *answer.mutable_termination()->mutable_statistics());
  for (const v1::EngineComparison& engine : engines.comparisons()) *answer.add_engines() = engine;
  return answer;
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

std::shared_ptr<const CorrectedProfiles> Planner::CorrectionsOf(
    const ProfileCatalog& catalog) const {
  return corrections_ == nullptr ? nullptr : corrections_->Current(catalog);
}

absl::StatusOr<v1::PlanAnswer> Planner::Plan(const std::string& request_id,
                                             const v1::Problem& problem,
                                             const std::shared_ptr<Interrupter>& interrupter,
                                             PlanObserver* observer,
                                             const v1::LaunchOptions& launch) const {
  const int64_t call_start = ThreadCpuNanoseconds();
  const std::shared_ptr<const ProfileCatalog> catalog = profiles_.catalog();
  HAPMOE_ASSIGN_OR_RETURN(ReadProblem read, ReadPlanRequest(request_id, problem, *catalog, engines_,
                                                            {&launch, options_.schedulers}));
  Correct(CorrectionsOf(*catalog), read);
  SearchRun run(solver_, pool_, timer_, call_start, BudgetOf(read), interrupter);
  EngineSearch engines(read, run);
  const search::SearchRequest request = SearchRequestOf(read);
  ProgressTeller teller(read, request, observer, options_.progress_interval);
  if (read.objective.kind != search::Objective::Kind::kTime) {
    absl::StatusOr<search::Choice> choice = search::Choose(
        request, read.objective, read.allocations, SearchSilently(engines), *interrupter,
        [&teller](int64_t done, int64_t most) { teller.Tell(done, most); });
    if (!choice.ok()) return FromCore(choice.status());
    return Remembered(problem, BuildChoice(read, *choice, interrupter->cause(), run.times()));
  }
  absl::StatusOr<search::Outcome> outcome = engines.Search(
      request, [&teller](const search::Progress& progress) { teller.Tell(progress); });
  if (!outcome.ok()) return FromCore(outcome.status());
  return Remembered(problem, AnswerOf(read, *outcome, engines, run));
}

absl::StatusOr<v1::PlanAnswer> Planner::Remembered(const v1::Problem& problem,
                                                   absl::StatusOr<v1::PlanAnswer> answer) const {
  if (corrections_ == nullptr || !answer.ok()) return answer;
  const auto remember = [&](const v1::ExecutionPlan& plan) {
    v1::IterationReport ran;
    *ran.mutable_job() = problem.job();
    *ran.mutable_cluster() = problem.cluster();
    *ran.mutable_plan() = plan;
    corrections_->Remember(plan.plan_id(), std::move(ran));
  };
  remember(answer->plan());
  if (answer->has_uniform()) remember(answer->uniform().plan());
  for (const v1::Alternative& alternative : answer->alternatives()) remember(alternative.plan());
  return answer;
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

absl::StatusOr<v1::FrontierResponse> Planner::Frontier(
    const v1::FrontierRequest& request, const std::shared_ptr<Interrupter>& interrupter) const {
  const int64_t call_start = ThreadCpuNanoseconds();
  const std::shared_ptr<const ProfileCatalog> catalog = profiles_.catalog();
  HAPMOE_ASSIGN_OR_RETURN(ReadProblem read, ReadFrontierRequest(request, *catalog, engines_));
  Correct(CorrectionsOf(*catalog), read);
  SearchRun run(solver_, pool_, timer_, call_start, BudgetOf(read), interrupter);
  EngineSearch engines(read, run);
  const absl::StatusOr<std::vector<search::FrontierPoint>> points =
      search::Frontier(SearchRequestOf(read), {read.allocations, read.memory_steps},
                       SearchSilently(engines), *interrupter, [](int64_t, int64_t) {});
  if (!points.ok()) return FromCore(points.status());
  HAPMOE_ASSIGN_OR_RETURN(v1::FrontierResponse response,
                          BuildFrontier(read, *points, interrupter->cause(), run.times()));
  response.set_request_id(request.request_id());
  return response;
}

absl::StatusOr<v1::ExplainResponse> Planner::Explain(
    const v1::ExplainRequest& request, const std::shared_ptr<Interrupter>& interrupter) const {
  const int64_t call_start = ThreadCpuNanoseconds();
  const std::shared_ptr<const ProfileCatalog> catalog = profiles_.catalog();
  HAPMOE_ASSIGN_OR_RETURN(ReadExplanation read, ReadExplainRequest(request, *catalog, engines_));
  const std::shared_ptr<const CorrectedProfiles> corrections = CorrectionsOf(*catalog);
  Correct(corrections, read.problem);
  if (read.layout.has_value()) Correct(corrections, read.layout->problem);
  SearchRun run(solver_, pool_, timer_, call_start, BudgetOf(read.problem), interrupter);
  EngineSearch engines(read.problem, run);
  const absl::StatusOr<search::Outcome> outcome =
      SearchSilently(engines)(SearchRequestOf(read.problem));
  if (!outcome.ok()) return FromCore(outcome.status());
  HAPMOE_ASSIGN_OR_RETURN(
      v1::PlanAnswer best,
      Remembered(request.problem(), AnswerOf(read.problem, *outcome, engines, run)));
  HAPMOE_ASSIGN_OR_RETURN(v1::ExplainResponse response,
                          BuildExplanation(read, std::move(best), *outcome->best));
  if (response.has_layout()) {
    RememberLayout(request.problem().job(), request.problem().cluster(), request.world_size(),
                   response.layout());
  }
  response.set_request_id(request.request_id());
  return response;
}

std::chrono::nanoseconds Planner::BudgetOf(const ReadProblem& read) const {
  return std::min(read.limits.time_budget.value_or(options_.max_time_budget),
                  options_.max_time_budget);
}

absl::StatusOr<v1::EvaluateResponse> Planner::Evaluate(const v1::EvaluateRequest& request) const {
  const std::shared_ptr<const ProfileCatalog> catalog = profiles_.catalog();
  HAPMOE_ASSIGN_OR_RETURN(ReadLayout layout, ReadEvaluateRequest(request, *catalog, engines_));
  Correct(CorrectionsOf(*catalog), layout.problem);
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
