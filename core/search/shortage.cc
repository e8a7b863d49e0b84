#include "core/search/shortage.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace hapmoe::search {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

Shortage LeastShortage(const PipelineProblem& problem) {
  const Candidate& candidate = *problem.candidate;
  const std::vector<Port>& ports = *problem.ports;
  const int64_t layers = problem.problem->model.layers;
  const bool may_idle = problem.constraints->allow_idle_accelerators;
  Shortage least;
  least.bytes = kInfinity;
  if (candidate.virtual_stages > 1) return least;
  UsedUnits::Limits limits;
  limits.pool_units = candidate.pool_units;
  limits.max_stages = std::min(candidate.max_stages(), layers);
  limits.max_states = std::min(kMaxStates, kMaxCells / (layers + 1));
  const UsedUnits used(ports, limits);
  if (!used.complete()) return least;
  // The program of pipeline_dp.h with another objective: the shortage of the fullest stage, the
  // smaller the better.
  struct State {
    double bytes = kInfinity;
    int64_t stage_from_end = 0;
    int64_t pool = 0;
    model::Recompute recompute;
    bool host_binds = false;
  };
  const size_t width = static_cast<size_t>(layers + 1);
  std::vector<State> states(used.size() * width);
  states[0].bytes = 0;
  for (size_t index = 1; index < used.size(); ++index) {
    const int64_t total = used.stages(index);
    const int64_t in_flight = std::min(total, candidate.micro_batches);
    const bool completes = StagesAllowed(*problem.constraints, total) &&
                           (may_idle || used.units(index) == candidate.units());
    for (int64_t covered = total; covered <= layers; ++covered) {
      State& state = states[index * width + static_cast<size_t>(covered)];
      const int64_t first = layers - covered;
      for (size_t port = 0; port < ports.size(); ++port) {
        if (used.Without(index, port) == UsedUnits::kNone) continue;
        const size_t before = static_cast<size_t>(used.Without(index, port));
        for (const size_t kind : ports[port].kinds) {
          for (int64_t stage_layers = 1; stage_layers <= covered; ++stage_layers) {
            const State& suffix =
                states[before * width + static_cast<size_t>(covered - stage_layers)];
            if (suffix.bytes >= state.bytes) continue;
            const StageChoice& choice =
                (*problem.choices)[kind]->Best(first, first + stage_layers, in_flight);
            const double own = choice.fits ? 0 : choice.short_bytes;
            if (own <= suffix.bytes) {
              state = suffix;
            } else if (own < state.bytes) {
              state = {own, total - 1, ports[port].pool, choice.recompute, choice.host_binds};
            }
          }
        }
      }
      if (completes && covered == layers && state.bytes < least.bytes) {
        least = {state.bytes,     total - 1 - state.stage_from_end,
                 total,           state.pool,
                 state.recompute, state.host_binds};
      }
    }
  }
  return least;
}

}  // namespace hapmoe::search
