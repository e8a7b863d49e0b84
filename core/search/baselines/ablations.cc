#include "core/search/baselines/ablations.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/status_macros.h"
#include "core/cost/evaluate.h"
#include "core/search/baselines/restricted_search.h"

namespace hapmoe::search {
namespace {

// Gives every stage of a uniform plan the quickest recomputation with which it fits. What a stage
// takes and holds does not depend on what others recompute, so that one prediction for each choice
// tells.
absl::StatusOr<Costed> RecomputedByStage(const SearchRequest& request, Costed uniform) {
  if (request.constraints.keep_recompute) return uniform;
  std::vector<cost::StagePrediction> quickest = uniform.prediction.stages;
  plan::Plan best = uniform.plan;
  for (const model::Recompute& choice : RecomputeChoices(request)) {
    plan::Plan tried = uniform.plan;
    for (plan::Mesh& mesh : tried.meshes) {
      for (plan::Stage& stage : mesh.stages) stage.recompute = choice;
    }
    HAPMOE_ASSIGN_OR_RETURN(const cost::Prediction prediction,
                            cost::Evaluate(request.problem, tried));
    size_t index = 0;
    for (plan::Mesh& mesh : best.meshes) {
      for (plan::Stage& stage : mesh.stages) {
        const cost::StagePrediction& one = prediction.stages[index];
        cost::StagePrediction& least = quickest[index++];
        if (!one.memory.fits() || one.backward_seconds >= least.backward_seconds) continue;
        least = one;
        stage.recompute = choice;
      }
    }
  }
  HAPMOE_ASSIGN_OR_RETURN(cost::Prediction prediction, cost::Evaluate(request.problem, best));
  // A stage that became quicker does not make every pipeline quicker.
  if (prediction.iteration_seconds >= uniform.prediction.iteration_seconds) return uniform;
  return Costed{std::move(best), std::move(prediction)};
}

}  // namespace

absl::StatusOr<std::optional<Costed>> LayersUniform::Plan(const SearchRequest& request,
                                                          Executor& executor,
                                                          const Interrupter& interrupter) const {
  HAPMOE_ASSIGN_OR_RETURN(Outcome outcome, SearchPlans(request, executor, interrupter));
  if (!outcome.uniform.has_value()) return std::nullopt;
  return RecomputedByStage(request, *std::move(outcome.uniform));
}

absl::StatusOr<std::optional<Costed>> LayersEven::Plan(const SearchRequest& request,
                                                       Executor& executor,
                                                       const Interrupter& interrupter) const {
  HAPMOE_ASSIGN_OR_RETURN(const Outcome ours, SearchPlans(request, executor, interrupter));
  if (!ours.best.has_value()) return std::nullopt;
  const plan::Plan& plan = ours.best->plan;
  const plan::Degrees& degrees = plan.meshes.front().degrees;
  SearchRequest fixed = request;
  Constraints& constraints = fixed.constraints;
  constraints.tp = {degrees.tp};
  constraints.cp = {degrees.cp};
  constraints.dp = {degrees.dp};
  constraints.pp = {plan.pipeline_stages()};
  constraints.micro_batch = {plan.micro_batch};
  if (request.problem.model.moe.has_value()) {
    constraints.ep = {degrees.ep};
    constraints.etp = {degrees.etp};
  }
  HAPMOE_ASSIGN_OR_RETURN(Outcome even, SearchPlans(fixed, executor, interrupter));
  return std::move(even.uniform);
}

absl::StatusOr<std::optional<Costed>> RecomputeUniform::Plan(const SearchRequest& request,
                                                             Executor& executor,
                                                             const Interrupter& interrupter) const {
  std::optional<Costed> best;
  for (const model::Recompute& choice : RecomputeChoices(request)) {
    const bool some_layers = choice.granularity == model::Recompute::Granularity::kFull &&
                             choice.num_layers < request.problem.model.layers;
    if (some_layers && !request.constraints.keep_recompute) continue;
    SearchRequest fixed = request;
    fixed.constraints.keep_recompute = true;
    fixed.problem.training.recompute = choice;
    HAPMOE_ASSIGN_OR_RETURN(Outcome outcome, SearchPlans(fixed, executor, interrupter));
    if (!outcome.best.has_value()) continue;
    if (!best.has_value() ||
        outcome.best->prediction.iteration_seconds < best->prediction.iteration_seconds) {
      best = std::move(outcome.best);
    }
  }
  return best;
}

}  // namespace hapmoe::search
