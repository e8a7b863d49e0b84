#include "tests/server/testing/fake_solver.h"

#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "core/cost/evaluate.h"

namespace hapmoe::server {

search::Costed TrivialPlan(const search::SearchRequest& request) {
  const cost::Problem& problem = request.problem;
  plan::Plan plan;
  const std::vector<int64_t>& allowed = request.constraints.micro_batch;
  plan.micro_batch = allowed.empty() ? problem.training.micro_batch : allowed.front();
  plan.global_batch = problem.training.global_batch;
  if (problem.model.moe.has_value() && !request.constraints.dispatchers.empty()) {
    plan.dispatcher = request.constraints.dispatchers.front();
  }
  int64_t ranks = 0;  // Of a stage, so that no accelerator idles.
  for (const cluster::Pool& pool : problem.cluster.pools) {
    ranks = std::gcd(ranks, pool.accelerators());
  }
  const int64_t stages = problem.cluster.accelerators() / ranks;
  plan.micro_batches = plan.global_batch / (plan.micro_batch * ranks);
  plan.interleaving_group = stages;
  int64_t stage = 0;
  for (size_t pool = 0; pool < problem.cluster.pools.size(); ++pool) {
    plan::Mesh& mesh = plan.meshes.emplace_back();
    mesh.pool = static_cast<int64_t>(pool);
    mesh.degrees.dp = ranks;
    for (int64_t i = 0; i < problem.cluster.pools[pool].accelerators() / ranks; ++i, ++stage) {
      plan::Chunk& chunk = mesh.stages.emplace_back().chunks.emplace_back();
      chunk.first_layer = stage * problem.model.layers / stages;
      chunk.layers = (stage + 1) * problem.model.layers / stages - chunk.first_layer;
      chunk.embedding = stage == 0;
      chunk.loss = stage + 1 == stages;
    }
  }
  return {plan, cost::Evaluate(problem, plan).value()};
}

absl::StatusOr<search::Outcome> SlowSolver::Search(
    const search::SearchRequest& request, Executor&, const Interrupter& interrupter,
    absl::FunctionRef<void(const search::Progress&)> progress) const {
  ++search_->started;
  search::Outcome outcome;
  std::optional<search::Costed> plan;
  search::Progress told;
  told.candidates = 1000;
  if (finds_plan_) plan = TrivialPlan(request);
  told.improved = plan.has_value() ? &*plan : nullptr;
  told.so_far = [&plan, &told] {
    search::Outcome so_far;
    so_far.best = plan;
    so_far.termination.limit = search::Limit::kTime;
    so_far.termination.statistics.candidates = told.candidates;
    so_far.termination.statistics.candidates_opened = told.candidates_done;
    return so_far;
  };
  while (!interrupter.tripped()) {
    progress(told);
    told.improved = nullptr;
    ++told.candidates_done;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const bool cancelled = interrupter.cause() == Interrupter::Cause::kCancelled;
  ++(cancelled ? search_->seen_cancelled : search_->seen_time);
  outcome.termination.limit = cancelled ? search::Limit::kCancelled : search::Limit::kTime;
  outcome.termination.statistics.candidates = told.candidates;
  outcome.termination.statistics.candidates_opened = told.candidates_done;
  outcome.best = std::move(plan);
  ++search_->ended;
  return outcome;
}

}  // namespace hapmoe::server
