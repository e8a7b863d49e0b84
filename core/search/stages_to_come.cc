#include "core/search/stages_to_come.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace hapmoe::search {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

StagesToCome::StagesToCome(const PipelineProblem& problem, double limit_seconds)
    : problem_(problem),
      candidate_(*problem.candidate),
      layers_(problem.problem->model.layers),
      caps_(problem, limit_seconds),
      layer_seconds_(candidate_.pool_units.size(), kInfinity),
      fastest_first_(candidate_.pool_units.size()) {
  for (const Port& port : *problem.ports) {
    double& seconds = layer_seconds_[static_cast<size_t>(port.pool)];
    seconds = std::min(seconds, FastestLayer(problem, port));
  }
  std::iota(fastest_first_.begin(), fastest_first_.end(), size_t{0});
  std::stable_sort(fastest_first_.begin(), fastest_first_.end(),
                   [&](size_t a, size_t b) { return layer_seconds_[a] < layer_seconds_[b]; });
}

int64_t StagesToCome::KnownStages() const {
  if (candidate_.stages > 0) return candidate_.stages;
  return MayIdle() || candidate_.degrees_per_mesh ? 0 : candidate_.max_stages();
}

int64_t StagesToCome::LayersFrom(int64_t behind) {
  const int64_t stages = KnownStages();
  if (layers_from_.empty()) {
    layers_from_.resize(static_cast<size_t>(stages + 1));
    for (int64_t at = stages - 1; at >= 0; --at) {
      layers_from_[static_cast<size_t>(at)] =
          layers_from_[static_cast<size_t>(at + 1)] + caps_.Most(at);
    }
  }
  return layers_from_[static_cast<size_t>(behind)];
}

bool StagesToCome::BeyondCapacity() {
  if (caps_.OfUnits(candidate_.pool_units, 0) < static_cast<double>(layers_)) return true;
  if (KnownStages() == 0) return false;
  int64_t last = 0;
  for (size_t port = 0; port < problem_.ports->size(); ++port) {
    last = std::max(last, caps_.OfLast(port));
  }
  return last == 0 || last + LayersFrom(1) < layers_;
}

int64_t StagesToCome::Stages(const UsedUnits& used, size_t state) const {
  if (candidate_.stages > 0) return candidate_.stages - used.stages(state);
  if (MayIdle()) return 0;
  int64_t most_units = 1;
  for (const Port& port : *problem_.ports) most_units = std::max(most_units, port.units);
  const int64_t units = candidate_.units() - used.units(state);
  return (units + most_units - 1) / most_units;
}

double StagesToCome::Layers(const UsedUnits& used, size_t state) {
  const int64_t behind = used.stages(state);
  PoolUnits left = candidate_.pool_units;
  for (size_t pool = 0; pool < left.size(); ++pool) left[pool] -= used.Of(state, pool);
  const double of_units = caps_.OfUnits(left, behind);
  if (KnownStages() == 0) return of_units;
  return std::min(of_units, static_cast<double>(LayersFrom(behind)));
}

std::vector<double> StagesToCome::Seconds(const UsedUnits& used, size_t state) {
  const int64_t behind = used.stages(state);
  // Where none may idle every stage holds a layer, or one on each virtual stage; the others go to
  // the fastest accelerators, as many as these can hold.
  const bool all_used = !MayIdle() && !candidate_.degrees_per_mesh;
  const double least = all_used ? static_cast<double>(candidate_.virtual_stages) : 0;
  std::vector<double> more(candidate_.pool_units.size());
  double held = 0;
  double seconds = 0;
  for (size_t pool = 0; pool < more.size(); ++pool) {
    const double units = static_cast<double>(candidate_.pool_units[pool] - used.Of(state, pool));
    if (units == 0) continue;
    more[pool] = units * std::max(0.0, caps_.OfUnit(pool, behind) - least);
    held += units * least;
    seconds += units * least * layer_seconds_[pool];
  }
  std::vector<double> by_layers(static_cast<size_t>(layers_ + 1), kInfinity);
  by_layers[0] = 0;
  size_t next = 0;
  for (int64_t layers = 1; layers <= layers_; ++layers) {
    double rest = static_cast<double>(layers) - held;
    if (rest < 0) continue;
    while (next < fastest_first_.size() && rest > more[fastest_first_[next]]) {
      const size_t pool = fastest_first_[next++];
      seconds += more[pool] * layer_seconds_[pool];
      held += more[pool];
      rest -= more[pool];
    }
    if (next == fastest_first_.size()) break;
    by_layers[static_cast<size_t>(layers)] =
        (seconds + rest * layer_seconds_[fastest_first_[next]]) /
        static_cast<double>(candidate_.virtual_stages);
  }
  return by_layers;
}

}  // namespace hapmoe::search
