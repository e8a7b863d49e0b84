#include "server/planning/engine_search.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "core/base/status_macros.h"
#include "core/plan/engine_traits.h"

namespace hapmoe::server {
namespace {

constexpr double kEqual = 1e-9;  // Relative; below it times are the same.

// The first reason why an engine cannot run a job.
std::string WhyNot(const Violations& faults) {
  const std::string more =
      faults.size() > 1 ? absl::StrCat(" (the first of ", faults.size(), " reasons)") : "";
  return absl::StrCat(faults.front().message, " [", faults.front().rule, "]", more);
}

void Relabel(search::Outcome& outcome, const std::string& engine) {
  if (outcome.best.has_value()) outcome.best->plan.engine = engine;
  if (outcome.uniform.has_value()) outcome.uniform->plan.engine = engine;
  for (search::Costed& alternative : outcome.alternatives) alternative.plan.engine = engine;
}

void Add(const search::Statistics& one, search::Statistics& sum) {
  sum.candidates += one.candidates;
  sum.candidates_opened += one.candidates_opened;
  sum.plans_simulated += one.plans_simulated;
  sum.labels += one.labels;
  for (const auto& [rule, count] : one.pruned) sum.pruned[rule] += count;
}

}  // namespace

// Engines that run the same plans, and what the search for them came to.
struct EngineSearch::Space {
  std::vector<const ReadEngine*> engines;
  std::optional<search::Outcome> outcome;  // Absent: the time ran out before.
};

absl::StatusOr<search::Outcome> EngineSearch::Search(
    const search::SearchRequest& request,
    absl::FunctionRef<void(const search::Progress&)> progress) {
  comparisons_.clear();
  if (!read_.any_engine()) return run_.Search(request, progress);
  std::vector<Space> spaces;
  for (const ReadEngine& engine : read_.engines) {
    if (!engine.faults.empty()) continue;
    const absl::string_view name = plan::FindEngine(engine.name)->space;
    const auto same = std::find_if(spaces.begin(), spaces.end(), [&](const Space& space) {
      return plan::FindEngine(space.engines.front()->name)->space == name;
    });
    (same == spaces.end() ? spaces.emplace_back() : *same).engines.push_back(&engine);
  }
  HAPMOE_RETURN_IF_ERROR(SearchSpaces(request, /*seek_changes=*/false, progress, spaces));
  const bool none = std::none_of(spaces.begin(), spaces.end(), [](const Space& space) {
    return space.outcome.has_value() && space.outcome->best.has_value();
  });
  // Changes that would help are sought where nothing else does.
  if (none && request.seek_changes && !run_.interrupter().tripped()) {
    HAPMOE_RETURN_IF_ERROR(SearchSpaces(request, /*seek_changes=*/true, progress, spaces));
  }
  return Combine(spaces, search::LimitOf(run_.interrupter().cause()));
}

absl::Status EngineSearch::SearchSpaces(const search::SearchRequest& request, bool seek_changes,
                                        absl::FunctionRef<void(const search::Progress&)> progress,
                                        std::vector<Space>& spaces) {
  double best_seconds = std::numeric_limits<double>::infinity();
  double bound = std::numeric_limits<double>::infinity();  // Of the spaces that are done.
  int64_t candidates = 0;
  for (Space& space : spaces) {
    if (run_.interrupter().tripped()) break;
    const bool last = &space == &spaces.back();
    search::SearchRequest one = request;
    one.constraints.engine = space.engines.front()->name;
    one.seek_changes = seek_changes;
    absl::StatusOr<search::Outcome> outcome = run_.Search(one, [&](const search::Progress& told) {
      search::Progress all = told;
      all.candidates += candidates;
      all.candidates_done += candidates;
      // Nothing is known of spaces that have not been looked at.
      all.lower_bound_seconds = last ? std::min(bound, told.lower_bound_seconds) : 0;
      if (all.improved != nullptr) {
        const double seconds = all.improved->prediction.iteration_seconds;
        if (seconds >= best_seconds) all.improved = nullptr;
        best_seconds = std::min(best_seconds, seconds);
      }
      if (told.so_far != nullptr) {
        all.so_far = [&] {
          const auto now = static_cast<size_t>(&space - spaces.data());
          std::vector<Space> so_far = spaces;
          so_far[now].outcome = told.so_far();
          return Combine(so_far, search::Limit::kTime);
        };
      }
      progress(all);
    });
    if (!outcome.ok()) return outcome.status();
    candidates += outcome->termination.statistics.candidates;
    if (outcome->best.has_value()) {
      bound = std::min(bound, outcome->termination.lower_bound_seconds);
    }
    space.outcome = *std::move(outcome);
  }
  return absl::OkStatus();
}

search::Outcome EngineSearch::Combine(const std::vector<Space>& spaces, search::Limit unsearched) {
  // One line for each engine, in the order of the engines; the winner's comes first in the end.
  struct Line {
    v1::EngineComparison comparison;
    const Space* space = nullptr;
  };
  std::vector<Line> lines;
  for (const ReadEngine& engine : read_.engines) {
    Line& line = lines.emplace_back();
    line.comparison.set_engine(engine.name);
    line.comparison.set_display_name(engine.capabilities->display_name());
    if (!engine.faults.empty()) {
      line.comparison.set_why_not(WhyNot(engine.faults));
      continue;
    }
    const auto space = std::find_if(spaces.begin(), spaces.end(), [&engine](const Space& one) {
      return std::find(one.engines.begin(), one.engines.end(), &engine) != one.engines.end();
    });
    line.space = &*space;
    if (!space->outcome.has_value()) {
      line.comparison.set_why_not("It was not searched: the time ran out.");
    } else if (space->outcome->best.has_value()) {
      const search::Costed& best = *space->outcome->best;
      line.comparison.set_iteration_seconds(best.prediction.iteration_seconds);
      line.comparison.set_requirement(EngineCapabilities::Sentence(
          engine.capabilities->Requirements(VendorsOf(read_, best.plan))));
    } else {
      line.comparison.set_why_not(space->outcome->infeasibility.has_value()
                                      ? space->outcome->infeasibility->summary
                                      : "No plan was found in time.");
    }
  }
  const auto better = [](const v1::EngineComparison& a, const v1::EngineComparison& b) {
    const bool planned = a.iteration_seconds() > 0;
    if (planned != (b.iteration_seconds() > 0)) return planned;
    if (!planned) return false;
    if (a.requirement().empty() != b.requirement().empty()) return a.requirement().empty();
    return a.iteration_seconds() < b.iteration_seconds() * (1 - kEqual);
  };
  auto winner = lines.begin();
  for (auto line = lines.begin(); line != lines.end(); ++line) {
    // Where nothing has a plan, one that was searched says why.
    const bool says_more = winner->space == nullptr && line->space != nullptr;
    if (says_more || better(line->comparison, winner->comparison)) winner = line;
  }
  search::Outcome outcome;
  if (winner->space != nullptr && winner->space->outcome.has_value()) {
    outcome = *winner->space->outcome;
  }
  Relabel(outcome, winner->comparison.engine());
  search::Termination& termination = outcome.termination;
  termination.statistics = {};
  for (const Space& space : spaces) {
    if (!space.outcome.has_value()) {
      termination.reason = search::Reason::kIncumbent;
      termination.lower_bound_seconds = 0;
      termination.limit = unsearched;
      continue;
    }
    const search::Termination& one = space.outcome->termination;
    Add(one.statistics, termination.statistics);
    if (one.limit != search::Limit::kNone && termination.limit == search::Limit::kNone) {
      termination.limit = one.limit;
    }
    const bool settled = space.outcome->best.has_value() ? one.reason == search::Reason::kOptimal
                                                         : space.outcome->infeasibility.has_value();
    if (!settled) termination.reason = search::Reason::kIncumbent;
    if (space.outcome->best.has_value() || !settled) {
      termination.lower_bound_seconds =
          std::min(termination.lower_bound_seconds, one.lower_bound_seconds);
    }
  }
  std::rotate(lines.begin(), winner, winner + 1);
  comparisons_.clear();
  for (Line& line : lines) comparisons_.push_back(std::move(line.comparison));
  if (!outcome.best.has_value() && outcome.infeasibility.has_value() && comparisons_.size() > 1) {
    std::vector<std::string> reasons;
    for (const v1::EngineComparison& engine : comparisons_) {
      reasons.push_back(absl::StrCat(engine.display_name(), ": ", engine.why_not()));
    }
    outcome.infeasibility->summary = absl::StrJoin(reasons, " ");
  }
  return outcome;
}

}  // namespace hapmoe::server
