#include "core/search/search.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "core/base/status_macros.h"
#include "core/cost/evaluate.h"
#include "core/search/alternatives.h"
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
constexpr size_t kWave = 8;
// Candidates that a quick plan is made for first: so many, or of more one in so many.
constexpr size_t kGreedy = 32;
constexpr size_t kGreedyShare = 200;
// Families of candidates whose costs are kept, some ten kilobytes for each pool; else they are
// worked out again when a candidate is opened.
constexpr size_t kKeptFamilies = 2000;
// Degrees whose virtual stages are opened first.
constexpr size_t kPromising = 12;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A candidate and what has been found of it.
struct Entry {
  const Candidate* candidate = nullptr;
  std::unique_ptr<CandidateCosts> costs;  // While it is open.
  size_t family = 0;  // Candidates that differ in virtual stages alone have the same.
  bool opened = false;
  bool beyond_capacity = false;      // As PipelineResult says, for all of the family.
  bool leaves_room = false;          // Its bound is below what its plans were seen to take.
  bool contiguous = false;           // Searched without returns to a pool.
  bool too_large = false;            // For the dynamic program.
  double lower_bound_seconds = 0;    // Of all plans of the candidate that fit.
  double uniform_bound_seconds = 0;  // Of its uniform plans.
  int64_t labels = 0;
  int64_t simulated = 0;
  std::unique_ptr<Costed> best;  // Few entries have one, and there are many entries.
  std::unique_ptr<Costed> uniform;
};

std::unique_ptr<Costed> Kept(std::optional<Costed> plan) {
  return plan.has_value() ? std::make_unique<Costed>(*std::move(plan)) : nullptr;
}

// The request, with a memo of the search's own.
SearchRequest Prepared(SearchRequest request) {
  request.problem.products = std::make_shared<cost::ProductMemo>();
  return request;
}

// A stable sort by merging, given up in any order when the interrupter is tripped: hundreds of
// thousands of entries take tens of milliseconds.
template <typename T, typename Less>
void SortUnlessTripped(std::vector<T>& values, Less less, const Interrupter& interrupter) {
  constexpr size_t kBlock = 4096;
  const auto at = [&values](size_t i) {
    return values.begin() + static_cast<std::ptrdiff_t>(std::min(i, values.size()));
  };
  for (size_t i = 0; i < values.size(); i += kBlock) {
    if (interrupter.tripped()) return;
    std::stable_sort(at(i), at(i + kBlock), less);
  }
  for (size_t sorted = kBlock; sorted < values.size(); sorted *= 2) {
    for (size_t i = 0; i + sorted < values.size(); i += 2 * sorted) {
      if (interrupter.tripped()) return;
      std::inplace_merge(at(i), at(i + sorted), at(i + 2 * sorted), less);
    }
  }
}

// About what the most virtual stages leave of a plan's time.
double WithoutBubble(const Costed& plan) {
  const double count = static_cast<double>(plan.plan.micro_batches);
  const double others = static_cast<double>(plan.plan.pipeline_stages() - 1);
  return plan.prediction.iteration_seconds * (count + others / kMaxVirtualStages) /
         (count + others);
}

class Searcher {
 public:
  Searcher(const SearchRequest& request, Executor& executor, const Interrupter& interrupter,
           absl::FunctionRef<void(const Progress&)> progress)
      : request_(Prepared(request)),
        executor_(executor),
        interrupter_(interrupter),
        progress_(progress),
        space_(EnumerateSpace(request_, interrupter)),
        charge_(request_.memory),
        classes_(request_.problem.model),
        options_(RecomputeOptionsOf(request_)) {}

  Outcome Run() {
    CostCandidates();
    // Quick plans know no prunings.
    if (!pruned()) StartGreedily();
    OpenPromising();
    OpenInWaves();
    CloseGaps();
    Outcome outcome;
    if (interrupter_.cause() == Interrupter::Cause::kCancelled) {
      // Statistics and notes would take longer than all that is left to do.
      outcome.termination.limit = Limit::kCancelled;
      return outcome;
    }
    outcome.termination = Terminate();
    if (best_.has_value()) {
      outcome.notes = NotesOn(request_, *best_, *CostsOf(*best_entry_));
      outcome.alternatives = std::move(alternatives_).Beside(best_->plan);
      outcome.best = std::move(best_);
      outcome.uniform = std::move(uniform_);
    } else if (pruned() && !interrupter_.tripped()) {
      outcome.infeasibility.emplace();
      outcome.infeasibility->summary = "Nothing that fits is left by the prunings.";
      outcome.infeasibility->binding_rule = "prunings";
      outcome.infeasibility->suggestion = "Leave the prunings out.";
    } else if (!interrupter_.tripped()) {
      outcome.infeasibility = Diagnose(request_, space_, interrupter_);
    }
    return outcome;
  }

 private:
  std::unique_ptr<CandidateCosts> CostsOf(const Entry& entry) const {
    if (entry.family < kept_costs_.size() && !kept_costs_[entry.family].empty()) {
      return std::make_unique<CandidateCosts>(request_, *entry.candidate, classes_, options_,
                                              kept_costs_[entry.family]);
    }
    return std::make_unique<CandidateCosts>(request_, *entry.candidate, classes_, options_);
  }

  // Costs every candidate and orders them by what they could take at best.
  void CostCandidates() {
    // Of a candidate beside itself: its entry, its place among the leaders and in the order, the
    // bound of its family and that from it on.
    constexpr size_t kEntryBytes =
        sizeof(Entry) + sizeof(size_t) + sizeof(void*) + 2 * sizeof(double);
    if (!charge_.Add(static_cast<int64_t>(space_.candidates.size() * kEntryBytes))) return;
    entries_.resize(space_.candidates.size());
    // Candidates that differ in virtual stages alone follow each other and share their costs.
    std::vector<size_t> leaders;
    for (size_t i = 0; i < entries_.size(); ++i) {
      entries_[i].candidate = &space_.candidates[i];
      if (i == 0 || !(space_.candidates[i].kinds == space_.candidates[i - 1].kinds) ||
          space_.candidates[i].dispatcher != space_.candidates[i - 1].dispatcher) {
        leaders.push_back(i);
      }
    }
    leaders.push_back(entries_.size());
    family_bounds_.assign(leaders.size(), 0);
    if (leaders.size() <= kKeptFamilies) kept_costs_.resize(leaders.size());
    executor_.ParallelFor(static_cast<int64_t>(leaders.size()) - 1, [&](int64_t group) {
      if (interrupter_.tripped()) return;
      const size_t begin = leaders[static_cast<size_t>(group)];
      KindCosts kind_costs = KindCostsOf(request_, *entries_[begin].candidate, options_);
      if (!kept_costs_.empty()) {
        int64_t bytes = 0;
        for (const auto& costs : kind_costs) {
          bytes += static_cast<int64_t>(costs.bytes());
          for (const auto& place : costs.distinct()) bytes += static_cast<int64_t>(place->bytes());
        }
        if (charge_.Add(bytes)) kept_costs_[static_cast<size_t>(group)] = kind_costs;
      }
      const CandidateCosts costs(request_, *entries_[begin].candidate, classes_, options_,
                                 std::move(kind_costs));
      for (size_t i = begin; i < leaders[static_cast<size_t>(group) + 1]; ++i) {
        Entry& entry = entries_[i];
        entry.family = static_cast<size_t>(group);
        entry.lower_bound_seconds =
            CandidateBound(request_, *entry.candidate, costs.layer_seconds());
        entry.uniform_bound_seconds =
            UniformLowerBound(request_, *entry.candidate, costs.layer_seconds());
      }
    });
    // Virtual stages gain a few percent at most and have bounds with more slack: what plain
    // schedules reach closes most of them.
    order_.reserve(entries_.size());
    for (Entry& entry : entries_) order_.push_back(&entry);
    SortUnlessTripped(
        order_,
        [](const Entry* a, const Entry* b) {
          return std::make_pair(a->candidate->virtual_stages > 1, a->lower_bound_seconds) <
                 std::make_pair(b->candidate->virtual_stages > 1, b->lower_bound_seconds);
        },
        interrupter_);
    least_from_.assign(order_.size() + 1, kInfinity);
    for (size_t i = order_.size(); i-- > 0;) {
      least_from_[i] = std::min(least_from_[i + 1], order_[i]->lower_bound_seconds);
    }
  }

  // Gives the exact search something to beat: its work shrinks with what it can rule out.
  void StartGreedily() {
    std::map<std::pair<int64_t, int64_t>, std::pair<double, size_t>> promising;
    std::vector<Entry*> all;
    for (Entry* entry : order_) {
      if (HasGreedyPlan(*entry->candidate)) all.push_back(entry);
    }
    // The quickest candidates may not fit at all.
    const size_t batch = std::max(kGreedy, entries_.size() / kGreedyShare);
    for (size_t start = 0; start < all.size() && !best_.has_value(); start += batch) {
      const size_t size = std::min(batch, all.size() - start);
      executor_.ParallelFor(static_cast<int64_t>(size), [&](int64_t i) {
        Entry& entry = *all[start + static_cast<size_t>(i)];
        if (interrupter_.tripped()) return;
        const std::unique_ptr<CandidateCosts> costs = CostsOf(entry);
        entry.best = Kept(GreedyPlan(request_, *entry.candidate, *costs, interrupter_));
        if (entry.best != nullptr) ++entry.simulated;
      });
      for (size_t i = start; i < start + size; ++i) {
        if (all[i]->best != nullptr) {
          const auto seconds_and_family =
              std::make_pair(WithoutBubble(*all[i]->best), all[i]->family);
          const auto [shape, added] = promising.try_emplace(
              {all[i]->candidate->units(), all[i]->candidate->micro_batches}, seconds_and_family);
          if (!added) shape->second = std::min(shape->second, seconds_and_family);
        }
        Settle(*all[i]);
      }
    }
    for (const auto& [shape, found] : promising) promising_.push_back(found);
    if (best_.has_value()) Report(/*done=*/0, /*improved=*/true);
  }

  // Opens the virtual stages of the degrees that look best: they are cheap to search, and what they
  // gain makes the rest of the search smaller.
  void OpenPromising() {
    std::sort(promising_.begin(), promising_.end());
    if (promising_.size() > kPromising) promising_.resize(kPromising);
    std::vector<Entry*> chosen;
    for (Entry* entry : order_) {
      const bool promising =
          std::any_of(promising_.begin(), promising_.end(),
                      [&](const auto& found) { return found.second == entry->family; });
      if (promising && entry->candidate->virtual_stages > 1) chosen.push_back(entry);
    }
    if (OpenAll(chosen)) Report(/*done=*/0, /*improved=*/true);
  }

  // Those with the least bounds first: what they turn up may close others.
  void CloseGaps() {
    std::vector<Entry*> open;
    for (Entry* entry : order_) {
      if (entry->leaves_room && entry->lower_bound_seconds < best_seconds()) open.push_back(entry);
    }
    std::stable_sort(open.begin(), open.end(), [](const Entry* a, const Entry* b) {
      return a->lower_bound_seconds < b->lower_bound_seconds;
    });
    for (size_t start = 0; start < open.size() && !interrupter_.tripped(); start += kWave) {
      const size_t size = std::min(kWave, open.size() - start);
      const double limit = best_seconds();
      executor_.ParallelFor(static_cast<int64_t>(size), [&](int64_t i) {
        CloseGap(*open[start + static_cast<size_t>(i)], limit);
      });
      bool improved = false;
      for (size_t i = start; i < start + size; ++i) improved |= Settle(*open[i]);
      if (improved) Report(order_.size(), improved);
    }
  }

  void OpenInWaves() {
    for (size_t start = 0; start < order_.size() && !interrupter_.tripped(); start += kWave) {
      const size_t end = std::min(order_.size(), start + kWave);
      const std::vector<Entry*> wave(order_.begin() + static_cast<std::ptrdiff_t>(start),
                                     order_.begin() + static_cast<std::ptrdiff_t>(end));
      const bool improved = OpenAll(wave);
      for (const Entry* entry : wave) {
        least_settled_ = std::min(least_settled_, entry->lower_bound_seconds);
      }
      Report(end, improved);
    }
  }

  // Opens entries beside each other; true if the best plan improved.
  bool OpenAll(const std::vector<Entry*>& wave) {
    const double limit = best_seconds();
    const double uniform_limit =
        uniform_.has_value() ? uniform_->prediction.iteration_seconds : kInfinity;
    executor_.ParallelFor(static_cast<int64_t>(wave.size()), [&](int64_t i) {
      Open(*wave[static_cast<size_t>(i)], limit, uniform_limit);
    });
    bool improved = false;
    for (Entry* entry : wave) {
      if (entry->beyond_capacity) {
        double& bound = family_bounds_[entry->family];
        bound = std::max(bound, limit);
      }
      improved |= Settle(*entry);
    }
    return improved;
  }

  // `done`: settled candidates, in order.
  void Report(size_t done, bool improved) {
    Progress progress;
    progress.candidates = static_cast<int64_t>(entries_.size());
    progress.candidates_done = static_cast<int64_t>(done);
    progress.lower_bound_seconds = std::min({best_seconds(), least_settled_, least_from_[done]});
    progress.improved = improved ? &*best_ : nullptr;
    progress.so_far = [this] { return SoFar(); };
    progress_(progress);
  }

  Outcome SoFar() const {
    Outcome outcome;
    outcome.termination = Terminate();
    outcome.termination.limit = Limit::kTime;
    if (!best_.has_value()) return outcome;
    outcome.notes = NotesOn(request_, *best_, *CostsOf(*best_entry_));
    outcome.alternatives = Alternatives(alternatives_).Beside(best_->plan);
    outcome.best = best_;
    outcome.uniform = uniform_;
    return outcome;
  }

  bool pruned() const { return request_.constraints.prunings.any(); }

  double best_seconds() const {
    return best_.has_value() ? best_->prediction.iteration_seconds : kInfinity;
  }

  // Finds the best plans of a candidate below the limits. Runs beside others of its wave.
  void Open(Entry& entry, double limit, double uniform_limit) {
    entry.lower_bound_seconds = std::max(entry.lower_bound_seconds, family_bounds_[entry.family]);
    const bool open = entry.lower_bound_seconds < limit;
    if (interrupter_.tripped() || (!open && entry.uniform_bound_seconds >= uniform_limit)) return;
    if (entry.costs == nullptr) entry.costs = CostsOf(entry);
    entry.uniform = Kept(BestUniformPlan(request_, *entry.candidate, *entry.costs, options_,
                                         uniform_limit, interrupter_));
    if (!open) return;
    FindBest(entry, limit);
    // A uniform plan is a plan too, and the bound's best need not be the simulation's.
    if (!pruned() && entry.uniform != nullptr &&
        entry.uniform->prediction.iteration_seconds <
            (entry.best != nullptr ? entry.best->prediction.iteration_seconds : limit)) {
      entry.best = std::make_unique<Costed>(*entry.uniform);
    }
  }

  // Finds the plan of a candidate that takes least, if it is below the limit, and what none takes
  // less than.
  void FindBest(Entry& entry, double limit) const {
    const PipelineResult result =
        SolvePipelines(entry.costs->problem(), limit, Sweep::kBest, interrupter_);
    if (result.interrupted) return;
    if (result.too_large) {
      entry.too_large = true;
      if (HasGreedyPlan(*entry.candidate)) {
        entry.best = Kept(GreedyPlan(request_, *entry.candidate, *entry.costs, interrupter_));
      }
      return;
    }
    entry.opened = true;
    if (result.beyond_capacity) {
      // One number of stages says nothing of others.
      entry.beyond_capacity =
          entry.candidate->stages == 0 || !request_.constraints.allow_idle_accelerators;
      entry.lower_bound_seconds = std::max(entry.lower_bound_seconds, limit);
      return;
    }
    entry.contiguous = result.contiguous;
    entry.labels = result.labels;
    double best = Simulate(entry, result.plans, limit);
    // The bound is of all placements.
    if (result.contiguous || pruned() || interrupter_.tripped()) return;
    // No plan that fits takes less than the first bound, nor, where none is below the limit, less
    // than the limit.
    const double first = result.plans.empty() ? limit : result.plans.front().lower_bound_seconds;
    entry.lower_bound_seconds = std::max(entry.lower_bound_seconds, std::min(first, best));
    entry.leaves_room = first < best;
  }

  // The bound of a candidate may leave room for a plan that is better than the best simulated one
  // of all: every such plan is tried.
  void CloseGap(Entry& entry, double limit) const {
    if (interrupter_.tripped() || entry.lower_bound_seconds >= limit) return;
    entry.costs = CostsOf(entry);
    const PipelineResult rest =
        SolvePipelines(entry.costs->problem(), limit, Sweep::kAll, interrupter_);
    if (rest.interrupted || rest.too_large) return;
    entry.labels += rest.labels;
    const double best = Simulate(entry, rest.plans, limit);
    // Where it was interrupted there are plans that nobody looked at.
    if (!interrupter_.tripped()) {
      entry.lower_bound_seconds = std::max(entry.lower_bound_seconds, best);
    }
  }

  // Simulates plans, best bound first, while they can take less than `best`; returns the least.
  double Simulate(Entry& entry, const std::vector<BoundedPlan>& plans, double best) const {
    for (const BoundedPlan& bounded : plans) {
      if (bounded.lower_bound_seconds >= best || interrupter_.tripped()) break;
      ++entry.simulated;
      if (entry.costs->SimulatedSeconds(bounded.plan, best) >= best) continue;
      cost::Prediction prediction =
          cost::Predict(request_.problem, bounded.plan, entry.costs->CostsOf(bounded.plan));
      if (!prediction.fits() || prediction.iteration_seconds >= best) continue;
      best = prediction.iteration_seconds;
      entry.best = std::make_unique<Costed>(Costed{bounded.plan, std::move(prediction)});
    }
    return best;
  }

  // Takes over what a candidate found, in the order of candidates; true if it is the best so far.
  bool Settle(Entry& entry) {
    if (entry.uniform != nullptr &&
        (!uniform_.has_value() ||
         entry.uniform->prediction.iteration_seconds < uniform_->prediction.iteration_seconds)) {
      uniform_ = std::move(*entry.uniform);
    }
    entry.uniform.reset();
    entry.costs.reset();  // Frees memory: there are many candidates.
    return TakeBest(entry);
  }

  bool TakeBest(Entry& entry) {
    const bool improved =
        entry.best != nullptr && entry.best->prediction.iteration_seconds < best_seconds();
    if (improved) {
      if (best_.has_value()) alternatives_.Note(*std::move(best_));
      best_ = std::move(*entry.best);
      best_entry_ = &entry;
    } else if (entry.best != nullptr) {
      alternatives_.Note(std::move(*entry.best));
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

  Termination Terminate() const {
    Termination termination;
    termination.restrictions = space_.restrictions;
    termination.lower_bound_seconds = best_.has_value() ? LowerBound() : 0;
    Statistics& statistics = termination.statistics;
    statistics.candidates = static_cast<int64_t>(entries_.size());
    statistics.pruned = space_.pruned;
    for (const auto& [rule, pruned] : space_.pruned) statistics.candidates += pruned;
    if (std::any_of(entries_.begin(), entries_.end(),
                    [](const Entry& entry) { return entry.contiguous; })) {
      termination.restrictions.push_back(
          "degrees with very many placements on these pools: a pool is left only when it is used "
          "up, and not returned to");
    }
    if (request_.constraints.prunings.load_balance_ratio.has_value()) {
      termination.restrictions.push_back(
          "stages hold about their share of the layers by peak rate");
    }
    if (request_.constraints.prunings.cross_type_ratio.has_value()) {
      termination.restrictions.push_back("no slow transfers between types");
    }
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
    termination.limit = LimitOf(interrupter_.cause());
    const bool closed_gap =
        best_.has_value() && termination.lower_bound_seconds >= best_seconds() * (1 - 1e-9);
    termination.reason = closed_gap ? Reason::kOptimal : Reason::kIncumbent;
    return termination;
  }

  const SearchRequest request_;
  Executor& executor_;
  const Interrupter& interrupter_;
  absl::FunctionRef<void(const Progress&)> progress_;
  const Space space_;
  MemoryCharge charge_;  // Of entries_, of what goes with them and of kept_costs_.
  const RangeClasses classes_;
  const RecomputeOptions options_;
  std::vector<Entry> entries_;
  std::vector<Entry*> order_;  // Plain schedules first, each by bound.
  // The least bound of the entries from one on in this order, before they are opened, and of those
  // that are settled.
  std::vector<double> least_from_;
  double least_settled_ = kInfinity;
  std::vector<double> family_bounds_;  // No plan of the family takes less.
  std::vector<KindCosts> kept_costs_;  // By family, or empty.
  std::optional<Costed> best_;
  Entry* best_entry_ = nullptr;  // Where best_ was found.
  std::optional<Costed> uniform_;
  Alternatives alternatives_;
  // What virtual stages may make of quick plans, and their families: one for each number of stages
  // and micro-batches.
  std::vector<std::pair<double, size_t>> promising_;
};

}  // namespace

Limit LimitOf(Interrupter::Cause cause) {
  switch (cause) {
    case Interrupter::Cause::kTime:
      return Limit::kTime;
    case Interrupter::Cause::kCancelled:
      return Limit::kCancelled;
    case Interrupter::Cause::kMemory:
      return Limit::kMemory;
    case Interrupter::Cause::kNone:
      break;
  }
  return Limit::kNone;
}

absl::StatusOr<Outcome> Search(const SearchRequest& request, Executor& executor,
                               const Interrupter& interrupter,
                               absl::FunctionRef<void(const Progress&)> progress) {
  for (size_t pool = 0; pool < request.problem.cluster.pools.size(); ++pool) {
    HAPMOE_RETURN_IF_ERROR(cost::CheckPrecision(request.problem, static_cast<int64_t>(pool)));
  }
  return Searcher(request, executor, interrupter, progress).Run();
}

}  // namespace hapmoe::search
