#include "core/search/notes.h"

#include <algorithm>
#include <cstdint>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace hapmoe::search {
namespace {

// A stage of the plan with its place.
struct StageAt {
  int64_t index = 0;
  int64_t pool = 0;
  int64_t first = 0;
  int64_t last = 0;
  int64_t layers() const { return last - first; }
};

std::vector<StageAt> StagesOf(const plan::Plan& plan) {
  std::vector<StageAt> stages;
  for (const plan::Mesh& mesh : plan.meshes) {
    for (const plan::Stage& stage : mesh.stages) {
      const plan::Chunk& chunk = stage.chunks.front();
      stages.push_back({static_cast<int64_t>(stages.size()), mesh.pool, chunk.first_layer,
                        chunk.first_layer + chunk.layers});
    }
  }
  return stages;
}

// Why a stage holds no more layers although its accelerators are the faster ones.
std::string WhyFewer(const StageAt& fast, const StageAt& slow, int64_t stages,
                     const SearchRequest& request, const Costed& best, CandidateCosts& costs) {
  const auto& pools = request.problem.cluster.pools;
  const int64_t layers = request.problem.model.layers;
  const int64_t in_flight = std::min(stages - fast.index, best.plan.micro_batches);
  const StageChoice& now = costs.choices(fast.pool).Best(fast.first, fast.last, in_flight);
  // One layer more, at either end.
  bool fits = true;
  bool more_recompute = false;
  if (fast.last < layers) {
    const StageChoice& more = costs.choices(fast.pool).Best(fast.first, fast.last + 1, in_flight);
    fits = more.fits;
    more_recompute = more.fits && !(more.recompute == now.recompute);
  } else if (fast.first > 0) {
    const StageChoice& more = costs.choices(fast.pool).Best(fast.first - 1, fast.last, in_flight);
    fits = more.fits;
    more_recompute = more.fits && !(more.recompute == now.recompute);
  }
  std::string head = absl::StrFormat(
      "Stage %d on the faster %s holds %d layers, stage %d on %s holds %d: ", fast.index,
      pools[static_cast<size_t>(fast.pool)].accelerator, fast.layers(), slow.index,
      pools[static_cast<size_t>(slow.pool)].accelerator, slow.layers());
  if (!fits) return absl::StrCat(head, "memory forbids another layer on it.");
  if (more_recompute) return absl::StrCat(head, "another layer on it would cost recomputation.");
  if (fast.last == layers) {
    return absl::StrCat(head, "the output layer and the loss are on it too.");
  }
  return absl::StrCat(head, "layers are whole, and this split takes the least time.");
}

}  // namespace

std::vector<std::string> NotesOn(const SearchRequest& request, const Costed& best,
                                 CandidateCosts& costs) {
  std::vector<std::string> notes;
  const auto& pools = request.problem.cluster.pools;
  const std::vector<StageAt> stages = StagesOf(best.plan);
  std::map<int64_t, std::vector<int64_t>> layers_of_pool;
  for (const StageAt& stage : stages) layers_of_pool[stage.pool].push_back(stage.layers());
  if (layers_of_pool.size() > 1) {
    std::vector<std::string> parts;
    for (const auto& [pool, counts] : layers_of_pool) {
      const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
      parts.push_back(absl::StrFormat(
          "%s %s (%.2f ms a layer)", pools[static_cast<size_t>(pool)].accelerator,
          *least == *most ? absl::StrCat(*least) : absl::StrCat(*least, " to ", *most),
          costs.layer_seconds()[static_cast<size_t>(pool)] * 1e3));
    }
    notes.push_back(
        absl::StrCat("Layers on a stage follow speed: ", absl::StrJoin(parts, ", "), "."));
    for (const StageAt& fast : stages) {
      const StageAt* crowded = nullptr;
      for (const StageAt& slow : stages) {
        const bool slower = costs.layer_seconds()[static_cast<size_t>(fast.pool)] <
                            costs.layer_seconds()[static_cast<size_t>(slow.pool)];
        if (!slower || slow.layers() < fast.layers()) continue;
        if (crowded == nullptr || slow.layers() > crowded->layers()) crowded = &slow;
      }
      if (crowded != nullptr && crowded->layers() > fast.layers()) {
        notes.push_back(
            WhyFewer(fast, *crowded, static_cast<int64_t>(stages.size()), request, best, costs));
      }
    }
  }
  const int64_t idle = request.problem.cluster.accelerators() - best.plan.world_size();
  if (idle > 0) {
    notes.push_back(absl::StrCat(idle,
                                 " accelerators idle: using them would take longer, or no "
                                 "valid plan has a place for them."));
  }
  if (best.prediction.model_flops_utilization < 0.1) {
    notes.push_back(absl::StrFormat(
        "The utilization of %.1f%% is low; see the breakdown for what takes the time.",
        best.prediction.model_flops_utilization * 100));
  }
  return notes;
}

}  // namespace hapmoe::search
