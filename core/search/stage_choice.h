// The cheapest way to hold a run of layers on one pool: the least recomputation that fits.
#ifndef HAPMOE_CORE_SEARCH_STAGE_CHOICE_H_
#define HAPMOE_CORE_SEARCH_STAGE_CHOICE_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/memory_budget.h"
#include "core/cost/mesh_cost.h"
#include "core/model/transformer_spec.h"
#include "core/plan/plan.h"

namespace hapmoe::search {

// Runs of layers that cost the same: equal kinds of layers in equal order, and equal ends.
class RangeClasses {
 public:
  explicit RangeClasses(const model::TransformerSpec& model);

  // Class of the layers [first, last), first < last.
  int32_t ClassOf(int64_t first, int64_t last) const {
    return classes_[static_cast<size_t>(first * (layers_ + 1) + last)];
  }
  int32_t count() const { return count_; }
  // First layers of runs of `length` layers, one of each class.
  const std::vector<int64_t>& Examples(int64_t length) const {
    return examples_[static_cast<size_t>(length)];
  }

 private:
  int64_t layers_;
  int32_t count_ = 0;
  std::vector<int32_t> classes_;
  std::vector<std::vector<int64_t>> examples_;  // [length]
};

// The chunk that holds [first, last): with the embedding if it starts the model, with the loss and
// the prediction layers if it ends it.
plan::Chunk ChunkOf(const model::TransformerSpec& model, int64_t first, int64_t last);

// How a stage holds its layers.
struct StageChoice {
  bool known = false;
  bool fits = false;
  double forward_seconds = 0;   // One micro-batch, all chunks, no transfer.
  double backward_seconds = 0;  // The same, recomputation included.
  double sync_seconds = 0;      // Gradients, once an iteration.
  double step_seconds = 0;      // Optimizer and parameters, once an iteration.
  model::Recompute recompute;
  // Of the first chunk, of the last one, and of the slowest passes of any chunk.
  double first_forward_seconds = 0;
  double first_backward_seconds = 0;
  double last_chunk_seconds = 0;
  double slowest_pair_seconds = 0;
};

// A rank of an interleaved schedule, as far as its cost depends on it. All its chunks hold equally
// many layers, but for the last chunk of the pipeline, which may hold fewer beside the loss. Dense
// layers, if the model has any beside MoE layers, are its first ones.
struct InterleavedStage {
  int64_t chunk_layers = 1;
  int64_t last_chunk_layers = 1;
  // Layers in front of its first chunk; any number from the number of leading dense layers on is
  // the same.
  int64_t offset = 0;
  int64_t behind = 0;  // Ranks behind it.
  bool front = false;  // The first rank.
};

// Finds and remembers choices for one mesh. Not thread safe.
class StageChoices {
 public:
  // `options`: what may be recomputed beside block-wise full recomputation, which is always tried
  // unless `only_options`. The arguments must outlive this object. What is remembered is charged to
  // `memory`, and remembered even where that refuses: it is little, and a choice must be right.
  StageChoices(const model::TransformerSpec& model, const RangeClasses& classes,
               const cost::MeshCost& costs, const std::vector<model::Recompute>& options,
               bool only_options, MemoryMeter* memory);

  const RangeClasses& classes() const { return classes_; }

  // The choice with the least backward time that fits with `in_flight` micro-batches held.
  const StageChoice& Best(int64_t first, int64_t last, int64_t in_flight);
  // The same for a rank of an interleaved schedule of `stages` ranks.
  const StageChoice& BestInterleaved(const InterleavedStage& stage, int64_t stages,
                                     int64_t virtual_stages, int64_t micro_batches);

 private:
  StageChoice Choose(plan::Stage stage, double in_flight, bool pipeline) const;

  const model::TransformerSpec& model_;
  const RangeClasses& classes_;
  const cost::MeshCost& costs_;
  const std::vector<model::Recompute>& options_;
  const bool only_options_;
  std::vector<std::vector<StageChoice>> known_;  // [in_flight][class]
  absl::flat_hash_map<int64_t, StageChoice> interleaved_;
  MemoryCharge charge_;
};

}  // namespace hapmoe::search

#endif  // HAPMOE_CORE_SEARCH_STAGE_CHOICE_H_
