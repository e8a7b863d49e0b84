#include "tests/server/testing/fake_solver.h"

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
  plan::Mesh& mesh = plan.meshes.emplace_back();
  mesh.degrees.dp = problem.cluster.pools.front().accelerators();
  plan.micro_batches = plan.global_batch / (plan.micro_batch * mesh.degrees.dp);
  plan.interleaving_group = 1;
  plan::Chunk& chunk = mesh.stages.emplace_back().chunks.emplace_back();
  chunk.layers = problem.model.layers;
  chunk.embedding = true;
  chunk.loss = true;
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
