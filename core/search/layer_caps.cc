#include "core/search/layer_caps.h"

#include <algorithm>

namespace hapmoe::search {

LayerCaps::LayerCaps(const PipelineProblem& problem, double limit_seconds)
    : problem_(problem),
      layers_(problem.problem->model.layers),
      micro_batches_(problem.candidate->micro_batches),
      ports_(*problem.ports),
      limit_(limit_seconds),
      caps_(problem.ports->size()) {}

int64_t LayerCaps::Window(int64_t behind) const { return std::min(behind + 1, micro_batches_); }

bool LayerCaps::Holds(size_t kind, int64_t first, int64_t layers, int64_t in_flight) const {
  const double count = static_cast<double>(micro_batches_);
  // What it takes at least, before anything is asked about memory.
  const double least = static_cast<double>(layers) * (*problem_.layer_seconds)[kind];
  if (count * least >= limit_) return false;
  const auto& places = (*problem_.choices)[kind].distinct();
  return std::any_of(places.begin(), places.end(), [&](const auto& choices) {
    const StageChoice& choice = choices->Best(first, first + layers, in_flight);
    return choice.fits && count * (choice.forward_seconds + choice.backward_seconds) < limit_;
  });
}

int64_t LayerCaps::Of(size_t port, int64_t behind) {
  const int64_t window = Window(behind);
  std::vector<int64_t>& caps = caps_[port];
  while (static_cast<int64_t>(caps.size()) < window) {
    const int64_t in_flight = static_cast<int64_t>(caps.size()) + 1;
    const auto holds = [&](int64_t layers) {
      for (const size_t kind : ports_[port].kinds) {
        for (const int64_t first : (*problem_.choices)[kind].At(0)->classes().Examples(layers)) {
          if (Holds(kind, first, layers, in_flight)) return true;
        }
      }
      return false;
    };
    // Caps seldom differ between neighbours.
    if (caps.empty()) {
      caps.push_back(Largest(holds));
    } else if (caps.back() < layers_ && holds(caps.back())) {
      caps.push_back(caps.back());
    } else {
      caps.push_back(LargestBelow(std::min(caps.back(), layers_), holds));
    }
  }
  return caps[static_cast<size_t>(window - 1)];
}

int64_t LayerCaps::OfLast(size_t port) const {
  return Largest([&](int64_t layers) {
    return std::any_of(ports_[port].kinds.begin(), ports_[port].kinds.end(), [&](size_t kind) {
      return Holds(kind, layers_ - layers, layers, /*in_flight=*/1);
    });
  });
}

// The whole model on one stage may fit where less does not: it needs no communicators of a
// pipeline.
int64_t LayerCaps::Largest(absl::FunctionRef<bool(int64_t)> holds) const {
  return holds(layers_) ? layers_ : LargestBelow(layers_, holds);
}

int64_t LayerCaps::LargestBelow(int64_t fails, absl::FunctionRef<bool(int64_t)> holds) {
  int64_t held = 0;
  while (fails - held > 1) {
    const int64_t layers = (held + fails) / 2;
    (holds(layers) ? held : fails) = layers;
  }
  return held;
}

int64_t LayerCaps::Most(int64_t behind) {
  int64_t most = 0;
  for (size_t port = 0; port < ports_.size(); ++port) most = std::max(most, Of(port, behind));
  return most;
}

double LayerCaps::OfUnit(size_t pool, int64_t behind) {
  const size_t window = static_cast<size_t>(Window(behind));
  while (unit_caps_.size() < window) {
    const int64_t at = static_cast<int64_t>(unit_caps_.size());
    std::vector<double> caps(problem_.candidate->pool_units.size(), 0);
    for (size_t port = 0; port < ports_.size(); ++port) {
      double& cap = caps[static_cast<size_t>(ports_[port].pool)];
      cap = std::max(cap,
                     static_cast<double>(Of(port, at)) / static_cast<double>(ports_[port].units));
    }
    unit_caps_.push_back(std::move(caps));
  }
  return unit_caps_[window - 1][pool];
}

double LayerCaps::OfUnits(const PoolUnits& units_left, int64_t behind) {
  double sum = 0;
  for (size_t pool = 0; pool < units_left.size(); ++pool) {
    sum += static_cast<double>(units_left[pool]) * OfUnit(pool, behind);
  }
  return sum;
}

}  // namespace hapmoe::search
