#include "core/search/stage_kinds.h"

#include <algorithm>

namespace hapmoe::search {

StageKinds::StageKinds(const PipelineProblem& problem, Sweep sweep)
    : problem_(problem), sweep_(sweep) {
  for (const Port& port : *problem.ports) {
    int64_t period = 1;
    for (const size_t kind : port.kinds) {
      period = std::max(period, (*problem.choices)[kind].period());
    }
    periods_.push_back(period);
    longest_period_ = std::max(longest_period_, period);
  }
}

bool StageKinds::MayStand(size_t kind, const PipelinePlace& place) const {
  const StageKind& allowed = problem_.candidate->kinds[kind];
  return (!place.starts || allowed.first) && (!place.ends || allowed.last) &&
         (place.starts || place.ends || allowed.inner);
}

const StageChoice& StageKinds::BestOf(size_t kind, const PipelinePlace& place) const {
  return (*problem_.choices)[kind]
      .At(place.units_behind)
      ->Best(place.first, place.last, place.in_flight);
}

bool StageKinds::Beats(size_t kind, size_t other, const PipelinePlace& place) const {
  const plan::Degrees& degrees = problem_.candidate->kinds[kind].degrees;
  const plan::Degrees& others = problem_.candidate->kinds[other].degrees;
  if (sweep_ == Sweep::kAll && (degrees.tp != others.tp || degrees.dp != others.dp)) return false;
  const StageChoice& a = BestOf(kind, place);
  const StageChoice& b = BestOf(other, place);
  return a.forward_seconds <= b.forward_seconds && a.backward_seconds <= b.backward_seconds &&
         a.sync_seconds <= b.sync_seconds && a.step_seconds <= b.step_seconds;
}

const std::vector<size_t>& StageKinds::At(size_t port, const PipelinePlace& place) {
  const std::vector<size_t>& all = (*problem_.ports)[port].kinds;
  if (all.size() == 1) return MayStand(all.front(), place) ? all : none_;
  int64_t key = problem_.choices->front().At(0)->classes().ClassOf(place.first, place.last);
  key = key * (problem_.candidate->micro_batches + 1) + place.in_flight;
  key = key * static_cast<int64_t>(problem_.ports->size()) + static_cast<int64_t>(port);
  key = (key * 2 + (place.starts ? 1 : 0)) * 2 + (place.ends ? 1 : 0);
  key = key * longest_period_ + place.units_behind % periods_[port];
  const auto [entry, added] = known_.try_emplace(key);
  std::vector<size_t>& kept = entry->second;
  if (!added) return kept;
  for (const size_t kind : all) {
    if (!BestOf(kind, place).fits || !MayStand(kind, place)) continue;
    const auto beats_it = [&](size_t other) { return Beats(other, kind, place); };
    if (std::any_of(kept.begin(), kept.end(), beats_it)) continue;
    std::erase_if(kept, [&](size_t other) { return Beats(kind, other, place); });
    kept.push_back(kind);
  }
  return kept;
}

}  // namespace hapmoe::search
