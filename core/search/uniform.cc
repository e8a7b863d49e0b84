#include "core/search/uniform.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "core/cost/evaluate.h"
#include "core/search/stage_choice.h"

namespace hapmoe::search {
namespace {

using model::Recompute;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Whether every stage fits; the plan's recomputation is set on all of them.
bool Fits(const plan::Plan& plan, const std::vector<const cost::MeshCost*>& stage_costs) {
  const int64_t stages = plan.pipeline_stages();
  int64_t index = 0;
  for (const plan::Mesh& mesh : plan.meshes) {
    for (const plan::Stage& stage : mesh.stages) {
      const cost::MeshCost& costs = *stage_costs[static_cast<size_t>(index)];
      const double in_flight = cost::InFlightMicroBatches(index, stages, plan.virtual_stages(),
                                                          stages, plan.micro_batches);
      if (!costs.Memory(costs.Stage(stage), in_flight, costs.process_groups(stages > 1)).fits()) {
        return false;
      }
      ++index;
    }
  }
  return true;
}

void Recomputed(plan::Plan& plan, const Recompute& recompute) {
  for (plan::Mesh& mesh : plan.meshes) {
    for (plan::Stage& stage : mesh.stages) stage.recompute = recompute;
  }
}

// Recomputations to try: the options, then whole layers, fewest first.
std::vector<Recompute> Ladder(const RecomputeOptions& options, int64_t layers) {
  std::vector<Recompute> ladder = options.options;
  if (options.only_options) return ladder;
  for (int64_t i = 1; i <= layers; ++i) {
    Recompute block;
    block.granularity = Recompute::Granularity::kFull;
    block.num_layers = i;
    ladder.push_back(block);
  }
  return ladder;
}

}  // namespace

double UniformLowerBound(const SearchRequest& request, const Candidate& candidate,
                         const std::vector<double>& layer_seconds) {
  const int64_t stages = candidate.max_stages();
  const int64_t layers = request.problem.model.layers;
  const bool possible =
      !candidate.degrees_per_mesh && (candidate.stages == 0 || candidate.stages == stages) &&
      stages >= 1 && stages * candidate.virtual_stages <= layers &&
      (candidate.virtual_stages == 1 || layers % (stages * candidate.virtual_stages) == 0);
  if (!possible || !StagesAllowed(request.constraints, stages)) {
    return kInfinity;
  }
  double slowest = 0;
  for (size_t pool = 0; pool < candidate.pool_units.size(); ++pool) {
    if (candidate.pool_units[pool] > 0) slowest = std::max(slowest, layer_seconds[pool]);
  }
  const int64_t least_layers =
      layers / (stages * candidate.virtual_stages) * candidate.virtual_stages;
  return static_cast<double>(candidate.micro_batches) * static_cast<double>(least_layers) * slowest;
}

std::optional<Costed> BestUniformPlan(const SearchRequest& request, const Candidate& candidate,
                                      CandidateCosts& costs, const RecomputeOptions& options,
                                      double limit_seconds, const Interrupter& interrupter) {
  if (UniformLowerBound(request, candidate, costs.layer_seconds()) >= limit_seconds) {
    return std::nullopt;
  }
  const model::TransformerSpec& model = request.problem.model;
  const int64_t stages = candidate.max_stages();
  const int64_t virtual_stages = candidate.virtual_stages;
  const int64_t chunks = stages * virtual_stages;
  // Where layers do not divide, the stages with one more are spread evenly.
  const auto starts = [&](int64_t chunk) { return chunk * model.layers / chunks; };

  std::optional<Costed> best;
  std::vector<int64_t> order(candidate.pool_units.size());
  std::iota(order.begin(), order.end(), 0);
  do {
    if (interrupter.tripped()) return best;
    if (!FillsNodes(request, candidate, order)) continue;
    plan::Plan plan = EmptyPlan(request.constraints, candidate);
    int64_t stage = 0;
    for (const int64_t pool : order) {
      for (int64_t i = 0; i < candidate.pool_units[static_cast<size_t>(pool)]; ++i) {
        plan::Stage one;
        for (int64_t chunk = stage; chunk < chunks; chunk += stages) {
          one.chunks.push_back(ChunkOf(model, starts(chunk), starts(chunk + 1)));
        }
        AddStage(plan, candidate.kinds[static_cast<size_t>(pool)], std::move(one));
        ++stage;
      }
    }
    const std::vector<const cost::MeshCost*> stage_costs = costs.CostsOf(plan);
    const std::vector<Recompute> ladder = Ladder(options, model.layers / chunks + 1);
    // The last of the ladder needs the least memory, as a rule.
    Recomputed(plan, ladder.back());
    if (!options.only_options && !Fits(plan, stage_costs)) continue;
    for (const Recompute& recompute : ladder) {
      Recomputed(plan, recompute);
      const bool least = recompute == options.options.front();
      if (limit_seconds < kInfinity && costs.LowerBoundOf(plan) >= limit_seconds) {
        if (least) break;  // The others take longer.
        continue;
      }
      if (!Fits(plan, stage_costs)) continue;
      if (costs.SimulatedSeconds(plan, limit_seconds) < limit_seconds) {
        cost::Prediction prediction = cost::Predict(request.problem, plan, stage_costs);
        limit_seconds = prediction.iteration_seconds;
        best = Costed{plan, std::move(prediction)};
      }
      // The options cost more and more only roughly; none is the least, and blocks are in order.
      if (least || recompute.granularity == Recompute::Granularity::kFull) break;
    }
  } while (order.size() <= 4 && std::next_permutation(order.begin(), order.end()));
  return best;
}

}  // namespace hapmoe::search
