// The cheapest way to hold a run of layers on one pool: the least recomputation that fits.
#ifndef HAPMOE_CORE_SEARCH_STAGE_CHOICE_H_
#define HAPMOE_CORE_SEARCH_STAGE_CHOICE_H_

#include <cstdint>
#include <vector>

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

 private:
  int64_t layers_;
  int32_t count_ = 0;
  std::vector<int32_t> classes_;
};

// The chunk that holds [first, last): with the embedding if it starts the model, with the loss and
// the prediction layers if it ends it.
plan::Chunk ChunkOf(const model::TransformerSpec& model, int64_t first, int64_t last);

// How a stage holds its layers.
struct StageChoice {
  bool known = false;
  bool fits = false;
  double forward_seconds = 0;   // One micro-batch, no transfer.
  double backward_seconds = 0;  // The same, recomputation included.
  double sync_seconds = 0;      // Gradients, once an iteration.
  double step_seconds = 0;      // Optimizer and parameters, once an iteration.
  double short_bytes = 0;       // What is missing where nothing fits, with the smallest memory.
  bool host_binds = false;      // It is the host that lacks them.
  model::Recompute recompute;
};

// Finds and remembers choices for one mesh. Not thread safe.
class StageChoices {
 public:
  // `options`: what may be recomputed beside block-wise full recomputation, which is always tried
  // unless `only_options`. The arguments must outlive this object.
  StageChoices(const model::TransformerSpec& model, const RangeClasses& classes,
               const cost::MeshCost& costs, const std::vector<model::Recompute>& options,
               bool only_options);

  // The choice with the least backward time that fits with `in_flight` micro-batches held.
  const StageChoice& Best(int64_t first, int64_t last, int64_t in_flight);

 private:
  StageChoice Choose(int64_t first, int64_t last, int64_t in_flight) const;

  const model::TransformerSpec& model_;
  const RangeClasses& classes_;
  const cost::MeshCost& costs_;
  const std::vector<model::Recompute>& options_;
  const bool only_options_;
  std::vector<std::vector<StageChoice>> known_;  // [in_flight][class]
};

}  // namespace hapmoe::search

#endif  // HAPMOE_CORE_SEARCH_STAGE_CHOICE_H_
