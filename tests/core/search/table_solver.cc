#include "tests/core/search/table_solver.h"

#include "tests/core/testing/fixtures.h"

namespace hapmoe::search {

TableSolver::TableSolver(const std::vector<int64_t>& nodes)
    : solve_([this](const SearchRequest& request) { return Answer(request); }) {
  for (size_t i = 0; i < nodes.size(); ++i) {
    const std::string name(1, static_cast<char>('a' + i));
    request_.problem.cluster.pools.push_back(testing::SmallPool(name, nodes[i], 4));
    request_.problem.profiles.push_back(testing::ScaledProfile(name, 1, 100));
  }
  request_.problem.memory_headroom_ratio = 0;
  request_.problem.training.global_batch = 10;
  request_.problem.model.seq_length = 100;
}

void TableSolver::SetPrices(const std::vector<double>& prices) {
  for (size_t i = 0; i < prices.size(); ++i) {
    request_.problem.cluster.pools[i].price_per_accelerator_hour = prices[i];
  }
}

absl::StatusOr<Outcome> TableSolver::Answer(const SearchRequest& request) {
  if (++searched_ == trip_after_) interrupter_.Trip(Interrupter::Cause::kTime);
  std::vector<int64_t> nodes(request_.problem.cluster.pools.size());
  for (const cluster::Pool& pool : request.problem.cluster.pools) {
    nodes[static_cast<size_t>(pool.name[0] - 'a')] = pool.nodes;
  }
  const TableEntry& entry = table_.at(nodes);
  Outcome outcome;
  if (!entry.short_of.empty()) {
    Infeasibility& why = outcome.infeasibility.emplace();
    why.summary = "Short of " + entry.short_of + ".";
    why.binding_rule = entry.short_of;
    return outcome;
  }
  Costed& best = outcome.best.emplace();
  plan::Mesh& mesh = best.plan.meshes.emplace_back();
  mesh.degrees.dp = request.problem.cluster.accelerators();
  mesh.stages.emplace_back().chunks.emplace_back();
  best.prediction.iteration_seconds = entry.seconds;
  cost::MemoryBreakdown& memory = best.prediction.stages.emplace_back().memory;
  memory.parameters_bytes = entry.bytes;
  memory.budget_bytes = 100;
  outcome.termination.lower_bound_seconds =
      entry.lower_bound > 0 ? entry.lower_bound : entry.seconds;
  return outcome;
}

}  // namespace hapmoe::search
