#include "core/search/paper_prunings.h"

#include <algorithm>
#include <cmath>

#include "core/cost/compute_time.h"

namespace hapmoe::search {

PaperPrunings::PaperPrunings(const PipelineProblem& problem)
    : least_layers(problem.ports->size(), 1),
      most_layers(problem.ports->size(), problem.problem->model.layers) {
  const Prunings& prunings = problem.constraints->prunings;
  const Candidate& candidate = *problem.candidate;
  const std::vector<Port>& ports = *problem.ports;
  const int64_t layers = problem.problem->model.layers;
  const auto units_of = [&](int64_t pool) {
    return static_cast<double>(candidate.pool_units[static_cast<size_t>(pool)]);
  };
  if (prunings.load_balance_ratio.has_value()) {
    const auto rate_of = [&](int64_t pool) {
      const auto& profile = *problem.problem->profiles[static_cast<size_t>(pool)];
      return profile.PeakFlops(cost::MatrixPrecisionOf(problem.problem->training)).value_or(0);
    };
    double rate = 0;
    for (size_t pool = 0; pool < candidate.pool_units.size(); ++pool) {
      rate += units_of(static_cast<int64_t>(pool)) * rate_of(static_cast<int64_t>(pool));
    }
    for (size_t port = 0; port < ports.size(); ++port) {
      const double share = static_cast<double>(layers) * static_cast<double>(ports[port].units) *
                           rate_of(ports[port].pool) / rate;
      // Layers are whole.
      least_layers[port] = std::max<int64_t>(
          1, static_cast<int64_t>(std::floor(share * (1 - *prunings.load_balance_ratio))));
      most_layers[port] = std::min<int64_t>(
          layers, static_cast<int64_t>(std::ceil(share * (1 + *prunings.load_balance_ratio))));
    }
  }
  if (prunings.cross_type_ratio.has_value()) {
    double rate = 0;  // Layers a second of all stages together.
    for (const Port& port : ports) {
      rate += units_of(port.pool) / static_cast<double>(port.units) / FastestLayer(problem, port);
    }
    longest_send_seconds = *prunings.cross_type_ratio * static_cast<double>(layers) / rate;
  }
}

}  // namespace hapmoe::search
