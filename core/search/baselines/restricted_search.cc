#include "core/search/baselines/restricted_search.h"

#include <algorithm>
#include <utility>

#include "core/base/status_macros.h"
#include "core/cost/evaluate.h"
#include "core/search/candidate_costs.h"

namespace hapmoe::search {
namespace {

using model::Recompute;

Recompute Modules(uint32_t modules) {
  return {.granularity = Recompute::Granularity::kSelective, .modules = modules};
}

Recompute WholeLayers(int64_t layers) {
  return {.granularity = Recompute::Granularity::kFull, .num_layers = layers};
}

// Makes the stages that do not fit recompute `layers` whole layers of each chunk; false if none of
// them has as many.
bool RecomputeMore(const cost::Prediction& prediction, int64_t layers, plan::Plan& plan) {
  bool any = false;
  size_t index = 0;
  for (plan::Mesh& mesh : plan.meshes) {
    for (plan::Stage& stage : mesh.stages) {
      if (prediction.stages[index++].memory.fits() || layers > stage.layers()) continue;
      stage.recompute = WholeLayers(layers);
      any = true;
    }
  }
  return any;
}

}  // namespace

absl::StatusOr<Outcome> SearchPlans(SearchRequest request, Executor& executor,
                                    const Interrupter& interrupter) {
  request.seek_changes = false;
  return Search(request, executor, interrupter, [](const Progress&) {});
}

bool Restrict(std::vector<int64_t>& list, const std::vector<int64_t>& values) {
  std::vector<int64_t> both;
  for (const int64_t value : values) {
    if (list.empty() || std::find(list.begin(), list.end(), value) != list.end()) {
      both.push_back(value);
    }
  }
  if (both.empty()) return false;
  list = std::move(both);
  return true;
}

std::vector<Recompute> RecomputeChoices(const SearchRequest& request) {
  if (request.constraints.keep_recompute) return {request.problem.training.recompute};
  const bool experts = request.problem.model.moe.has_value();
  uint32_t light = model::kRecomputeLayerNorm;
  if (experts && request.problem.model.moe->grouped_gemm) light |= model::kRecomputeMoeActivation;
  std::vector<Recompute> choices = {Recompute{}, Modules(light),
                                    Modules(experts ? model::kRecomputeMoe : model::kRecomputeMlp)};
  for (int64_t layers = 1; layers < request.problem.model.layers; layers *= 2) {
    choices.push_back(WholeLayers(layers));
  }
  choices.push_back(WholeLayers(request.problem.model.layers));
  std::erase_if(choices,
                [&request](const Recompute& choice) { return !RecomputeAllowed(request, choice); });
  return choices;
}

absl::StatusOr<std::optional<Costed>> CostTruthfully(const SearchRequest& request,
                                                     plan::Plan plan) {
  HAPMOE_ASSIGN_OR_RETURN(cost::Prediction prediction, cost::Evaluate(request.problem, plan));
  const bool may_recompute =
      !request.constraints.keep_recompute && RecomputeAllowed(request, WholeLayers(1));
  for (int64_t layers = 1; !prediction.fits(); ++layers) {
    if (!may_recompute || !RecomputeMore(prediction, layers, plan)) return std::nullopt;
    HAPMOE_ASSIGN_OR_RETURN(prediction, cost::Evaluate(request.problem, plan));
  }
  return Costed{std::move(plan), std::move(prediction)};
}

}  // namespace hapmoe::search
