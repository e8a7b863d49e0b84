#include "core/search/baselines/tutel.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/status_macros.h"
#include "core/cost/mesh_cost.h"
#include "core/search/baselines/deepspeed_moe.h"
#include "core/search/baselines/restricted_search.h"
#include "core/search/space.h"

namespace hapmoe::search {
namespace {

struct ExpertLayout {
  int64_t ep = 1;
  int64_t etp = 1;
  double layer_seconds = 0;  // Forward and backward of one MoE layer, one micro-batch.
};

// All layouts on the ranks of a stage, the quickest for a layer first.
std::vector<ExpertLayout> LayoutsBySpeed(const SearchRequest& request, const plan::Plan& plan) {
  const cost::Problem& problem = request.problem;
  plan::Chunk layer;
  layer.first_layer = problem.model.first_moe_layer();
  layer.layers = 1;
  plan::Degrees degrees = plan.meshes.front().degrees;
  std::vector<ExpertLayout> layouts;
  for (const int64_t ep : Divisors(problem.model.moe->experts)) {
    if (degrees.stage_ranks() % ep != 0) continue;
    for (const int64_t etp : Divisors(degrees.stage_ranks() / ep)) {
      if (problem.model.moe->ffn_hidden % etp != 0) continue;
      degrees.ep = ep;
      degrees.etp = etp;
      const cost::MeshCost costs(problem, plan.meshes.front().pool, degrees, plan.micro_batch,
                                 plan.sequence_parallel, {}, plan.dispatcher);
      const cost::LayerCost passes = costs.Chunk(layer, {}).passes;
      layouts.push_back({ep, etp, passes.forward.total() + passes.backward_seconds()});
    }
  }
  std::stable_sort(layouts.begin(), layouts.end(),
                   [](const auto& a, const auto& b) { return a.layer_seconds < b.layer_seconds; });
  return layouts;
}

}  // namespace

absl::StatusOr<std::optional<Costed>> TutelStyle::Plan(const SearchRequest& request,
                                                       Executor& executor,
                                                       const Interrupter& interrupter) const {
  if (!request.problem.model.moe.has_value()) return std::nullopt;
  HAPMOE_ASSIGN_OR_RETURN(const std::optional<Costed> around,
                          DeepSpeedMoeStyle().Plan(request, executor, interrupter));
  if (!around.has_value()) return std::nullopt;
  const plan::Degrees& degrees = around->plan.meshes.front().degrees;
  for (const ExpertLayout& layout : LayoutsBySpeed(request, around->plan)) {
    SearchRequest fixed = request;
    Constraints& constraints = fixed.constraints;
    constraints.tp = {degrees.tp};
    constraints.cp = {degrees.cp};
    constraints.dp = {degrees.dp};
    constraints.pp = {around->plan.pipeline_stages()};
    constraints.micro_batch = {around->plan.micro_batch};
    if (!Restrict(constraints.ep, {layout.ep}) || !Restrict(constraints.etp, {layout.etp})) {
      continue;
    }
    HAPMOE_ASSIGN_OR_RETURN(Outcome outcome, SearchPlans(fixed, executor, interrupter));
    if (outcome.best.has_value()) return std::move(outcome.best);
  }
  return std::nullopt;
}

}  // namespace hapmoe::search
