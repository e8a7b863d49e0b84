// A plan: meshes in pipeline order, their stages, and what each stage holds.
#ifndef HAPMOE_CORE_PLAN_PLAN_H_
#define HAPMOE_CORE_PLAN_PLAN_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "core/model/training_spec.h"

namespace hapmoe::plan {

// Parallel degrees of a mesh. The paper's TPE is etp here, as in Megatron-LM.
// Ranks of one stage: tp * cp * dp; the experts' grid over the same ranks is etp * ep * expert_dp.
struct Degrees {
  int64_t tp = 1;
  int64_t cp = 1;
  int64_t dp = 1;
  int64_t ep = 1;
  int64_t etp = 1;

  int64_t stage_ranks() const { return tp * cp * dp; }
  // Ranks that exchange tokens with each other's experts.
  int64_t dispatch_ranks() const { return ep * etp; }
  int64_t expert_dp() const { return stage_ranks() / dispatch_ranks(); }

  friend bool operator==(const Degrees&, const Degrees&) = default;
};

// What one virtual stage holds, in the order in which it computes.
struct Chunk {
  int64_t first_layer = 0;
  int64_t layers = 0;
  bool embedding = false;
  int64_t mtp_layers = 0;
  bool loss = false;

  friend bool operator==(const Chunk&, const Chunk&) = default;
};

// One pipeline rank.
struct Stage {
  std::vector<Chunk> chunks;  // One, or one for each virtual stage of an interleaved schedule.
  model::Recompute recompute;

  int64_t layers() const {
    int64_t sum = 0;
    for (const Chunk& chunk : chunks) sum += chunk.layers;
    return sum;
  }
  friend bool operator==(const Stage&, const Stage&) = default;
};

// A run of consecutive stages on one pool.
struct Mesh {
  int64_t pool = 0;  // Index into the cluster's pools.
  Degrees degrees;
  std::vector<Stage> stages;

  // Ranks of all stages; nothing where there are more than `most`, however large the degrees, which
  // must be positive.
  std::optional<int64_t> ranks_within(int64_t most) const {
    int64_t ranks = static_cast<int64_t>(stages.size());
    for (const int64_t degree : {degrees.tp, degrees.cp, degrees.dp}) {
      if (ranks > most / degree) return std::nullopt;
      ranks *= degree;
    }
    return ranks;
  }
};

// Order in which ranks are numbered. kPipelineOutermost: a stage is a run of consecutive ranks.
enum class RankOrder { kPipelineOutermost, kDataOutermost };

// Engines; engine_traits.h says what kinds of plans each runs.
inline constexpr char kMegatronLm[] = "megatron-lm";
inline constexpr char kFlagScale[] = "flagscale";
inline constexpr char kMegatronBridge[] = "megatron-bridge";
inline constexpr char kMindSpeedLlm[] = "mindspeed-llm";
inline constexpr char kPrimus[] = "primus";

struct Plan {
  std::string engine = kMegatronLm;
  std::vector<Mesh> meshes;
  int64_t micro_batch = 1;  // Of the first mesh.
  int64_t global_batch = 1;
  int64_t micro_batches = 1;  // Micro-batches in one iteration.
  // Consecutive micro-batches of one virtual stage in an interleaved schedule; pp by default.
  int64_t interleaving_group = 0;
  bool sequence_parallel = false;
  std::optional<model::Dispatcher> dispatcher = {};  // The job's own when left out.
  RankOrder rank_order = RankOrder::kPipelineOutermost;

  int64_t pipeline_stages() const {
    int64_t sum = 0;
    for (const Mesh& mesh : meshes) sum += static_cast<int64_t>(mesh.stages.size());
    return sum;
  }
  // Chunks times micro-batches: an iteration's passes each way, which is what simulating it takes.
  // At most std::numeric_limits<int64_t>::max().
  int64_t passes() const {
    int64_t chunks = 0;
    for (const Mesh& mesh : meshes) {
      for (const Stage& stage : mesh.stages) chunks += static_cast<int64_t>(stage.chunks.size());
    }
    const int64_t most = std::numeric_limits<int64_t>::max();
    return micro_batches > 0 && chunks > most / micro_batches ? most : chunks * micro_batches;
  }
  // Samples of one micro-batch on one rank of a mesh: all meshes share the samples of a step.
  int64_t micro_batch_of(const Mesh& mesh) const {
    return micro_batch * meshes.front().degrees.dp / mesh.degrees.dp;
  }
  int64_t virtual_stages() const {
    return static_cast<int64_t>(meshes.front().stages.front().chunks.size());
  }
  int64_t world_size() const {
    int64_t sum = 0;
    for (const Mesh& mesh : meshes) {
      sum += mesh.degrees.stage_ranks() * static_cast<int64_t>(mesh.stages.size());
    }
    return sum;
  }
};

}  // namespace hapmoe::plan

#endif  // HAPMOE_CORE_PLAN_PLAN_H_
