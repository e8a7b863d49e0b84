#include "core/search/notes.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace hapmoe::search {
namespace {

constexpr double kGib = 1024.0 * 1024 * 1024;
// Share of what may be used from which on a stage is worth a word.
constexpr double kNearlyFull = 0.97;

double FilledRatio(const cost::StagePrediction& stage) {
  return stage.memory.peak_bytes() / stage.memory.budget_bytes;
}

bool FillsLess(const cost::StagePrediction& a, const cost::StagePrediction& b) {
  return FilledRatio(a) < FilledRatio(b);
}

// A stage of the plan with its place.
struct StageAt {
  int64_t index = 0;
  const plan::Mesh* mesh = nullptr;
  const plan::Stage* stage = nullptr;
  int64_t behind = 0;        // Accelerators of its pool behind it.
  double layer_seconds = 0;  // One layer on its accelerators.

  int64_t layers() const { return stage->layers(); }
  int64_t first() const { return stage->chunks.front().first_layer; }
  int64_t last() const { return stage->chunks.back().first_layer + stage->chunks.back().layers; }
};

std::vector<StageAt> StagesOf(const plan::Plan& plan, const cluster::Cluster& cluster,
                              const CandidateCosts& costs) {
  const std::vector<cost::StagePlace> places = cost::PlacesOf(plan, cluster);
  std::vector<StageAt> stages;
  for (const plan::Mesh& mesh : plan.meshes) {
    for (const plan::Stage& stage : mesh.stages) {
      stages.push_back({static_cast<int64_t>(stages.size()), &mesh, &stage,
                        places[stages.size()].behind, costs.LayerSecondsOn(mesh)});
    }
  }
  return stages;
}

// Why a stage holds no more layers although its accelerators are the faster ones. Of virtual stages
// no more is said than that: another layer on one is another on all.
std::string WhyFewer(const StageAt& fast, const StageAt& slow, int64_t stages,
                     const SearchRequest& request, const Costed& best, CandidateCosts& costs) {
  const auto& pools = request.problem.cluster.pools;
  const int64_t layers = request.problem.model.layers;
  bool fits = true;
  bool more_recompute = false;
  // One layer more, at either end.
  const bool behind = fast.last() < layers;
  if (best.plan.virtual_stages() == 1 && (behind || fast.first() > 0)) {
    StageChoices& choices = costs.ChoicesOn(*fast.mesh, fast.behind);
    const int64_t in_flight = std::min(stages - fast.index, best.plan.micro_batches);
    const StageChoice& more =
        choices.Best(fast.first() - (behind ? 0 : 1), fast.last() + (behind ? 1 : 0), in_flight);
    fits = more.fits;
    more_recompute = more.fits && !(more.recompute == fast.stage->recompute);
  }
  std::string head = absl::StrFormat(
      "Stage %d on the faster %s holds %d layers, stage %d on %s holds %d: ", fast.index,
      pools[static_cast<size_t>(fast.mesh->pool)].accelerator, fast.layers(), slow.index,
      pools[static_cast<size_t>(slow.mesh->pool)].accelerator, slow.layers());
  if (!fits) return absl::StrCat(head, "memory forbids another layer on it.");
  if (more_recompute) return absl::StrCat(head, "another layer on it would cost recomputation.");
  if (!behind) {
    return absl::StrCat(head, "the output layer and the loss are on it too.");
  }
  return absl::StrCat(head, "layers are whole, and this split takes the least time.");
}

}  // namespace

std::vector<std::string> NotesOn(const SearchRequest& request, const Costed& best,
                                 CandidateCosts& costs) {
  std::vector<std::string> notes;
  const auto& pools = request.problem.cluster.pools;
  const std::vector<StageAt> stages = StagesOf(best.plan, request.problem.cluster, costs);
  std::map<int64_t, std::vector<const StageAt*>> by_pool;
  for (const StageAt& stage : stages) by_pool[stage.mesh->pool].push_back(&stage);
  if (by_pool.size() > 1) {
    std::vector<std::string> parts;
    std::set<double> speeds;
    for (const auto& [pool, held] : by_pool) {
      const auto [least, most] = std::minmax_element(
          held.begin(), held.end(),
          [](const StageAt* a, const StageAt* b) { return a->layers() < b->layers(); });
      const StageAt* fastest = *std::min_element(
          held.begin(), held.end(),
          [](const StageAt* a, const StageAt* b) { return a->layer_seconds < b->layer_seconds; });
      speeds.insert(fastest->layer_seconds);
      parts.push_back(
          absl::StrFormat("%s %s (%.2f ms a layer)", pools[static_cast<size_t>(pool)].accelerator,
                          (*least)->layers() == (*most)->layers()
                              ? absl::StrCat((*least)->layers())
                              : absl::StrCat((*least)->layers(), " to ", (*most)->layers()),
                          fastest->layer_seconds * 1e3));
    }
    if (speeds.size() > 1) {
      notes.push_back(
          absl::StrCat("Layers on a stage follow speed: ", absl::StrJoin(parts, ", "), "."));
    }
    for (const StageAt& fast : stages) {
      const StageAt* crowded = nullptr;
      for (const StageAt& slow : stages) {
        const bool slower = fast.layer_seconds < slow.layer_seconds;
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
  const auto& predicted = best.prediction.stages;
  const auto fullest = std::max_element(predicted.begin(), predicted.end(), FillsLess);
  if (fullest != predicted.end() && FilledRatio(*fullest) > kNearlyFull) {
    notes.push_back(absl::StrFormat(
        "Stage %d is the fullest: %.1f of the %.1f GiB that plans may use. A larger headroom "
        "(--headroom) leaves more for what a prediction misses.",
        fullest - predicted.begin(), fullest->memory.peak_bytes() / kGib,
        fullest->memory.budget_bytes / kGib));
  }
  if (best.prediction.model_flops_utilization < 0.1) {
    notes.push_back(absl::StrFormat(
        "The utilization of %.1f%% is low; see the breakdown for what takes the time.",
        best.prediction.model_flops_utilization * 100));
  }
  return notes;
}

}  // namespace hapmoe::search
