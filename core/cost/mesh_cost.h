// Costs of everything that the stages of one mesh may hold: layers, embedding, output, prediction.
#ifndef HAPMOE_CORE_COST_MESH_COST_H_
#define HAPMOE_CORE_COST_MESH_COST_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "core/cost/layer_cost.h"
#include "core/cost/prediction.h"
#include "core/cost/problem.h"
#include "core/cost/stage_cost.h"
#include "core/cost/stage_links.h"
#include "core/plan/plan.h"

namespace hapmoe::cost {

// What a stage does once an iteration, after its last backward pass.
struct TailCost {
  double gradient_sync_seconds = 0;     // Exposed reduction of gradients.
  double parameter_gather_seconds = 0;  // Exposed gathering of parameters, in the next iteration.
  double optimizer_seconds = 0;

  // After the gradients of all stages are ready.
  double step_seconds() const { return parameter_gather_seconds + optimizer_seconds; }
  double total() const { return gradient_sync_seconds + step_seconds(); }
};

// What copies between one accelerator and its host, and an optimizer that runs there, reach.
double HostLinkBytesPerSecond(const profile::AcceleratorProfile& profile);
double HostMemoryBytesPerSecond(const profile::AcceleratorProfile& profile);

// The training as a type of accelerator can run it.
model::TrainingSpec TrainingOn(const model::TrainingSpec& training,
                               const profile::AcceleratorProfile& profile);

// How the layers of a mesh are cut over its ranks.
model::Sharding ShardingOf(const plan::Degrees& degrees, int64_t micro_batch,
                           bool sequence_parallel, std::optional<model::Dispatcher> dispatcher);

// Bytes that an MoE layer holds on one rank while tokens travel, beside what it saves. All that the
// dispatcher changes of its memory.
double DispatchBytes(const model::TransformerSpec& model, const model::TrainingSpec& training,
                     const model::Sharding& sharding);

// Costs at one place of a pool under one set of degrees, one micro-batch size and one dispatcher. A
// layer of each kind is costed once; the cost of a run of layers follows from how many of each kind
// it holds. Immutable.
class MeshCost {
 public:
  // Modes of recomputation beside none and full are costed for the module sets in `modules`.
  // `problem` must outlive this object.
  MeshCost(const Problem& problem, int64_t pool, const plan::Degrees& degrees, int64_t micro_batch,
           bool sequence_parallel, const std::vector<uint32_t>& modules,
           std::optional<model::Dispatcher> dispatcher, const StageLinks& links);
  // At the start of a node.
  MeshCost(const Problem& problem, int64_t pool, const plan::Degrees& degrees, int64_t micro_batch,
           bool sequence_parallel, const std::vector<uint32_t>& modules,
           std::optional<model::Dispatcher> dispatcher = {});

  // Cost of one virtual stage. `recompute` must be none, full, or one of the module sets.
  StageCost Chunk(const plan::Chunk& chunk, const model::Recompute& recompute) const;
  // Cost of all chunks of a stage.
  StageCost Stage(const plan::Stage& stage) const;

  // Memory of one rank of a stage that holds `in_flight` micro-batches at its peak.
  // `process_groups`: communicators with more than one rank that a rank takes part in.
  MemoryBreakdown Memory(const StageCost& stage, double in_flight, int64_t process_groups) const;

  // The end of an iteration on a stage.
  TailCost Tail(const StageCost& stage) const;

  // Bytes that one rank sends to the next stage for one micro-batch.
  double border_bytes() const { return border_bytes_; }
  const StageLinks& links() const { return links_; }
  const Fabric& fabric() const { return links_.fabric(); }
  const plan::Degrees& degrees() const { return degrees_; }
  // Memory of this object.
  size_t bytes() const {
    return sizeof(*this) + modes_.capacity() * sizeof(ModeCost) +
           moe_before_.capacity() * sizeof(int64_t) + prediction_.capacity() * sizeof(LayerCost);
  }
  // Communicators of a rank: tp, cp, dense sync, expert, dispatch, expert sync, pipeline if any.
  int64_t process_groups(bool pipeline) const;

 private:
  // A layer of one kind under one mode of recomputation.
  struct KindCost {
    LayerCost cost;
    WorkingSet working_set;
  };
  struct ModeCost {
    RecomputeMode mode;
    KindCost dense;
    KindCost moe;
    LayerCost prediction;  // One multi-token prediction layer.
  };

  const ModeCost& ModeOf(const model::Recompute& recompute) const;
  // Adds the decoder layers [first, last).
  void AddLayers(const ModeCost& mode, int64_t first, int64_t last, StageCost& stage) const;

  double PlaceholdersOf(const StageCost& stage) const;

  const Problem& problem_;
  const cluster::Pool& pool_;
  const profile::AcceleratorProfile& profile_;
  const plan::Degrees degrees_;
  const StageLinks links_;
  std::vector<ModeCost> modes_;        // None, full, then the module sets.
  std::vector<int64_t> moe_before_;    // MoE layers before a layer.
  std::vector<LayerCost> prediction_;  // [mode]: one multi-token prediction layer.
  LayerCost embedding_;
  LayerCost output_;  // With weights of its own.
  LayerCost final_norm_;
  double embedding_weights_ = 0;  // Elements of the word embedding on one rank.
  double layer_input_bytes_ = 0;
  double logits_bytes_ = 0;           // Of one pass through the output layer.
  double softmax_bytes_ = 0;          // What the loss keeps of that pass until its backward.
  double output_backward_bytes_ = 0;  // Of the same product's backward pass.
  // Placeholder gradients of dense layers, of MoE layers, and of both together.
  double dense_placeholder_bytes_ = 0;
  double moe_placeholder_bytes_ = 0;
  double both_placeholder_bytes_ = 0;
  double dispatch_bytes_ = 0;
  double border_bytes_ = 0;
};

}  // namespace hapmoe::cost

#endif  // HAPMOE_CORE_COST_MESH_COST_H_
