// How a model is trained: batch, precision, optimizer, overlap, recomputation, dispatch.
#ifndef HAPMOE_CORE_MODEL_TRAINING_SPEC_H_
#define HAPMOE_CORE_MODEL_TRAINING_SPEC_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/model/assumed_imbalance.h"
#include "core/model/router_statistics.h"

namespace hapmoe::model {

enum class Precision { kFp32, kFp16, kBf16 };
enum class Dispatcher { kAllGather, kAllToAll, kFlex };

inline constexpr Dispatcher kDispatchers[] = {Dispatcher::kAllGather, Dispatcher::kAllToAll,
                                              Dispatcher::kFlex};

// As --moe-token-dispatcher-type names it.
constexpr const char* DispatcherName(Dispatcher dispatcher) {
  switch (dispatcher) {
    case Dispatcher::kAllGather:
      return "allgather";
    case Dispatcher::kAllToAll:
      return "alltoall";
    case Dispatcher::kFlex:
      return "flex";
  }
  return "";
}

// Nothing for other names.
constexpr std::optional<Dispatcher> DispatcherNamed(std::string_view name) {
  for (const Dispatcher dispatcher : kDispatchers) {
    if (name == DispatcherName(dispatcher)) return dispatcher;
  }
  return std::nullopt;
}

// Out-of-memory errors end a job, so that a rare pass counts.
inline constexpr double kDefaultImbalanceQuantile = 0.99;

// Passes that are replayed as captured graphs, so that the host issues no single operations: none,
// all but the routed experts, or all.
enum class Graphs { kNone, kAllButExperts, kAll };

// Bytes of one element of parameters and activations.
constexpr int64_t BytesPerElement(Precision precision) {
  return precision == Precision::kFp32 ? 4 : 2;
}

// Modules whose activations selective recomputation drops. A bit set.
enum RecomputeModule : uint32_t {
  kRecomputeCoreAttention = 1u << 0,
  kRecomputeMoeActivation = 1u << 1,
  kRecomputeLayerNorm = 1u << 2,
  kRecomputeMlaUpProjection = 1u << 3,
  kRecomputeMlp = 1u << 4,
  kRecomputeMoe = 1u << 5,
  kRecomputeSharedExperts = 1u << 6,
};

// As --recompute-modules names them, in the order of the bits.
inline constexpr std::pair<RecomputeModule, const char*> kRecomputeModuleNames[] = {
    {kRecomputeCoreAttention, "core_attn"},
    {kRecomputeMoeActivation, "moe_act"},
    {kRecomputeLayerNorm, "layernorm"},
    {kRecomputeMlaUpProjection, "mla_up_proj"},
    {kRecomputeMlp, "mlp"},
    {kRecomputeMoe, "moe"},
    {kRecomputeSharedExperts, "shared_experts"},
};

// Which activations of a stage are computed again in the backward pass.
struct Recompute {
  enum class Granularity { kNone, kSelective, kFull };
  enum class Method { kUniform, kBlock };
  Granularity granularity = Granularity::kNone;
  Method method = Method::kBlock;  // Full granularity only.
  // Full granularity: with kBlock the first num_layers layers of each virtual stage are recomputed
  // one by one; with kUniform every run of num_layers layers is recomputed as one unit.
  int64_t num_layers = 0;
  uint32_t modules = 0;  // Selective granularity only: RecomputeModule bits.

  friend bool operator==(const Recompute&, const Recompute&) = default;
};

// The optimizer and where its states live.
struct Optimizer {
  std::string name = "adam";
  bool distributed = false;  // ZeRO-1: states sharded over data (and context) parallel ranks.
  int64_t instances = 1;     // Groups that the sharding is split into.
  bool precision_aware = false;
  int64_t main_gradient_bytes = 4;
  int64_t main_parameter_bytes = 4;
  int64_t first_moment_bytes = 4;
  int64_t second_moment_bytes = 4;
  double offload_ratio = 0;    // Share of the states kept in host memory.
  bool clips_gradient = true;  // A norm over all ranks precedes the step.
};

// Communication that the engine runs beside arithmetic.
struct Overlap {
  bool gradient_reduce = false;
  bool parameter_gather = false;
  bool tensor_parallel = false;
  bool pipeline = true;  // Takes effect only with an interleaved schedule.
  bool expert_parallel = false;
  bool shared_expert = false;
};

// Validated: batch sizes are positive.
struct TrainingSpec {
  int64_t micro_batch = 1;   // Samples in one forward pass of one data parallel rank.
  int64_t global_batch = 1;  // Samples in one optimizer step.
  Precision precision = Precision::kBf16;
  bool fp8 = false;  // Matrix products in 8-bit floating point.
  bool fp8_parameters = false;
  bool fp32_residual = false;
  int64_t gradient_bytes = 4;      // One element of the gradient buffer.
  bool sequence_parallel = false;  // As requested; it takes effect with tp > 1.
  bool fused_cross_entropy = false;
  // With fused_cross_entropy: the gradient takes the place of the logits (Transformer Engine's).
  bool cross_entropy_in_place = false;
  bool flash_attention = true;  // False: scores are kept in memory.
  // Products add to the gradient buffer themselves and keep one placeholder gradient for every
  // shape of weight (Transformer Engine, module/base.py, get_dummy_wgrad). False: a gradient or its
  // placeholder comes and goes with every product.
  bool keeps_gradient_placeholders = true;
  double attention_dropout = 0.1;
  double hidden_dropout = 0.1;
  Optimizer optimizer;
  Overlap overlap;
  Recompute recompute;
  Dispatcher dispatcher = Dispatcher::kAllGather;
  Graphs graphs = Graphs::kNone;
  // How the router was seen to spread tokens over experts, validated; null: nobody looked, and
  // balancing says what to assume.
  std::shared_ptr<const RouterStatistics> router_statistics;
  Balancing balancing = Balancing::kForced;
  // Share of passes in which memory must hold what the busiest expert rank gets, in [0, 1). Of
  // assumed routing only: of statistics the fullest layer counts.
  double imbalance_quantile = kDefaultImbalanceQuantile;
  // Tokens of the busiest expert rank over the mean of ranks, at least 1, as a run was seen to
  // have it at its own degrees; before statistics and assumptions.
  std::optional<double> measured_imbalance;
};

}  // namespace hapmoe::model

#endif  // HAPMOE_CORE_MODEL_TRAINING_SPEC_H_
