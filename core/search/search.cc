#include "core/search/search.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "core/base/status_macros.h"
#include "core/cost/evaluate.h"
#include "core/search/candidate_costs.h"
#include "core/search/diagnose.h"
#include "core/search/greedy.h"
#include "core/search/notes.h"
#include "core/search/pipeline_dp.h"
#include "core/search/space.h"
#include "core/search/uniform.h"

namespace hapmoe::search {
namespace {

// Candidates that are opened together. Fixed, so that what a wave knows of the best plan, and with
// it everything that is pruned, does not depend on the number of threads.
constexpr int64_t kWave = 8;
// Candidates that a quick plan is made for first.
constexpr int64_t kGreedy = 32;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A candidate and what has been found of it.
struct Entry {
  const Candidate* candidate = nullptr;
  std::unique_ptr<CandidateCosts> costs;  // Kept with a best plan only: there are many candidates.
  bool opened = false;
  bool too_large = false;            // For the dynamic program.
  double lower_bound_seconds = 0;    // Of all plans of the candidate that fit.
  double uniform_bound_seconds = 0;  // Of its uniform plans.
  int64_t labels = 0;
  int64_t simulated = 0;
  std::optional<Costed> best;
  std::optional<Costed> uniform;
};

class Searcher {
 public:
  Searcher(const SearchRequest& request, Executor& executor, const Interrupter& interrupter,
           absl::FunctionRef<void(const Progress&)> progress)
      : request_(request),
        executor_(executor),
        interrupter_(interrupter),
        progress_(progress),
        space_(EnumerateSpace(request, interrupter)),
        classes_(request.problem.model),
        options_(RecomputeOptionsOf(request)) {}

  Outcome Run() {
    CostCandidates();
    StartGreedily();
    OpenInWaves();
    Outcome outcome;
    outcome.termination = Terminate();
    if (best_.has_value()) {
      outcome.notes = NotesOn(request_, *best_, *best_entry_->costs);
      outcome.best = std::move(best_);
      outcome.uniform = std::move(uniform_);
    } else if (!interrupter_.tripped()) {
      outcome.infeasibility = Diagnose(request_, space_, interrupter_);
    }
    return outcome;
  }

 private:
  std::unique_ptr<CandidateCosts> CostsOf(const Entry& entry) const {
    return std::make_unique<CandidateCosts>(request_, *entry.candidate, classes_, options_);
  }

  // Costs every candidate and orders them by what they could take at best.
  void CostCandidates() {
    const int64_t count = static_cast<int64_t>(space_.candidates.size());
    entries_.resize(space_.candidates.size());
    executor_.ParallelFor(count, [&](int64_t i) {
      Entry& entry = entries_[static_cast<size_t>(i)];
      entry.candidate = &space_.candidates[static_cast<size_t>(i)];
      if (interrupter_.tripped()) return;
      const std::unique_ptr<CandidateCosts> costs = CostsOf(entry);
      entry.lower_bound_seconds = costs->lower_bound_seconds();
      entry.uniform_bound_seconds =
          UniformLowerBound(request_, *entry.candidate, costs->layer_seconds());
    });
    std::stable_sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
      return a.lower_bound_seconds < b.lower_bound_seconds;
    });
  }

  // Gives the exact search something to beat: its work shrinks with what it can rule out.
  void StartGreedily() {
    const int64_t count = std::min(kGreedy, static_cast<int64_t>(entries_.size()));
    executor_.ParallelFor(count, [&](int64_t i) {
      Entry& entry = entries_[static_cast<size_t>(i)];
      if (interrupter_.tripped()) return;
      entry.costs = CostsOf(entry);
      entry.best = GreedyPlan(request_, *entry.candidate, *entry.costs, interrupter_);
      if (entry.best.has_value()) ++entry.simulated;
    });
    for (int64_t i = 0; i < count; ++i) Settle(entries_[static_cast<size_t>(i)]);
    if (best_.has_value()) Report(/*done=*/0, /*improved=*/true);
  }

  void OpenInWaves() {
    const int64_t count = static_cast<int64_t>(entries_.size());
    for (int64_t start = 0; start < count && !interrupter_.tripped(); start += kWave) {
      const int64_t size = std::min(kWave, count - start);
      const double limit = best_seconds();
      const double uniform_limit =
          uniform_.has_value() ? uniform_->prediction.iteration_seconds : kInfinity;
      executor_.ParallelFor(size, [&](int64_t i) {
        Open(entries_[static_cast<size_t>(start + i)], limit, uniform_limit);
      });
      bool improved = false;
      for (int64_t i = start; i < start + size; ++i) {
        improved |= Settle(entries_[static_cast<size_t>(i)]);
      }
      Report(start + size, improved);
    }
  }

  void Report(int64_t done, bool improved) {
    Progress progress;
    progress.candidates = static_cast<int64_t>(entries_.size());
    progress.candidates_done = done;
    progress.lower_bound_seconds = LowerBound();
    progress.improved = improved ? &*best_ : nullptr;
    progress_(progress);
  }

  double best_seconds() const {
    return best_.has_value() ? best_->prediction.iteration_seconds : kInfinity;
  }

  // Finds the best plans of a candidate below the limits. Runs beside others of its wave.
  void Open(Entry& entry, double limit, double uniform_limit) {
    const bool open = entry.lower_bound_seconds < limit;
    if (interrupter_.tripped() || (!open && entry.uniform_bound_seconds >= uniform_limit)) return;
    if (entry.costs == nullptr) entry.costs = CostsOf(entry);
    entry.uniform = BestUniformPlan(request_, *entry.candidate, *entry.costs, options_,
                                    uniform_limit, interrupter_);
    if (!open) return;
    const PipelineResult result = SolvePipelines(entry.costs->problem(), limit, interrupter_);
    if (result.interrupted) return;
    if (result.too_large) {
      entry.too_large = true;
      entry.best = GreedyPlan(request_, *entry.candidate, *entry.costs, interrupter_);
      return;
    }
    entry.opened = true;
    entry.labels = result.labels;
    // No plan that fits takes less than the first bound, nor, where none is below the limit, less
    // than the limit.
    entry.lower_bound_seconds =
        std::max(entry.lower_bound_seconds,
                 result.plans.empty() ? limit : result.plans.front().lower_bound_seconds);
    double best = limit;
    for (const BoundedPlan& bounded : result.plans) {
      if (bounded.lower_bound_seconds >= best) break;
      cost::Prediction prediction =
          cost::Predict(request_.problem, bounded.plan, entry.costs->CostsOf(bounded.plan));
      ++entry.simulated;
      if (!prediction.fits() || prediction.iteration_seconds >= best) continue;
      best = prediction.iteration_seconds;
      entry.best = Costed{bounded.plan, std::move(prediction)};
    }
    // A uniform plan is a plan too, and the bound's best need not be the simulation's.
    if (entry.uniform.has_value() && entry.uniform->prediction.iteration_seconds < best) {
      entry.best = entry.uniform;
    }
  }

  // Takes over what a candidate found, in the order of candidates; true if it is the best so far.
  bool Settle(Entry& entry) {
    if (entry.uniform.has_value() &&
        (!uniform_.has_value() ||
         entry.uniform->prediction.iteration_seconds < uniform_->prediction.iteration_seconds)) {
      uniform_ = std::move(entry.uniform);
    }
    entry.uniform.reset();
    const bool improved = TakeBest(entry);
    if (&entry != best_entry_) entry.costs.reset();  // Frees memory: it will not be asked again.
    return improved;
  }

  bool TakeBest(Entry& entry) {
    const bool improved =
        entry.best.has_value() && entry.best->prediction.iteration_seconds < best_seconds();
    if (improved) {
      best_ = std::move(entry.best);
      best_entry_ = &entry;
    }
    entry.best.reset();
    return improved;
  }

  // The least that any plan of the space can take.
  double LowerBound() const {
    double bound = best_seconds();
    for (const Entry& entry : entries_) bound = std::min(bound, entry.lower_bound_seconds);
    return bound;
  }

  Termination Terminate() {
    Termination termination;
    termination.restrictions = space_.restrictions;
    termination.lower_bound_seconds = best_.has_value() ? LowerBound() : 0;
    Statistics& statistics = termination.statistics;
    statistics.candidates = static_cast<int64_t>(entries_.size());
    statistics.pruned = space_.pruned;
    for (const auto& [rule, pruned] : space_.pruned) statistics.candidates += pruned;
    if (std::any_of(entries_.begin(), entries_.end(),
                    [](const Entry& entry) { return entry.too_large; })) {
      termination.restrictions.push_back(
          "degrees with too many placements on these pools got a quick plan, not a search");
    }
    for (const Entry& entry : entries_) {
      statistics.labels += entry.labels;
      statistics.plans_simulated += entry.simulated;
      if (!entry.opened) continue;
      ++statistics.candidates_opened;
      if (entry.simulated == 0) ++statistics.pruned["no_better_plan_fits"];
    }
    const int64_t closed = static_cast<int64_t>(entries_.size()) - statistics.candidates_opened;
    if (closed > 0) statistics.pruned["lower_bound"] = closed;
    switch (interrupter_.cause()) {
      case Interrupter::Cause::kNone:
        termination.limit = Limit::kNone;
        break;
      case Interrupter::Cause::kTime:
        termination.limit = Limit::kTime;
        break;
      case Interrupter::Cause::kCancelled:
        termination.limit = Limit::kCancelled;
        break;
    }
    const bool closed_gap =
        best_.has_value() && termination.lower_bound_seconds >= best_seconds() * (1 - 1e-9);
    termination.reason = closed_gap ? Reason::kOptimal : Reason::kIncumbent;
    return termination;
  }

  const SearchRequest& request_;
  Executor& executor_;
  const Interrupter& interrupter_;
  absl::FunctionRef<void(const Progress&)> progress_;
  const Space space_;
  const RangeClasses classes_;
  const RecomputeOptions options_;
  std::vector<Entry> entries_;
  std::optional<Costed> best_;
  Entry* best_entry_ = nullptr;  // Where best_ was found; its costs are kept.
  std::optional<Costed> uniform_;
};

}  // namespace

absl::StatusOr<Outcome> Search(const SearchRequest& request, Executor& executor,
                               const Interrupter& interrupter,
                               absl::FunctionRef<void(const Progress&)> progress) {
  for (size_t pool = 0; pool < request.problem.cluster.pools.size(); ++pool) {
    HAPMOE_RETURN_IF_ERROR(cost::CheckPrecision(request.problem, static_cast<int64_t>(pool)));
  }
  return Searcher(request, executor, interrupter, progress).Run();
}

}  // namespace hapmoe::search
