// A Transformer described once: the operations that one rank runs for one micro-batch. Time,
// memory, recomputation, FLOPs and parameter counts are all read off these lists.
#ifndef HAPMOE_CORE_MODEL_OPERATIONS_H_
#define HAPMOE_CORE_MODEL_OPERATIONS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "core/model/training_spec.h"
#include "core/model/transformer_spec.h"

namespace hapmoe::model {

// How a layer is cut over the ranks of one stage. Divisions are exact under the engine's rules.
struct Sharding {
  int64_t tp = 1;
  int64_t cp = 1;
  int64_t ep = 1;
  int64_t etp = 1;
  bool sequence_parallel = false;  // Ignored with tp = 1.
  int64_t micro_batch = 1;
  std::optional<Dispatcher> dispatcher = {};  // Of tokens to experts; the job's own when left out.
};

enum class OperationKind {
  kGemm,         // C[m,n] = A[m,k] B[k,n].
  kGroupedGemm,  // `groups` products of m/groups rows each.
  // Fused attention: m queries and n keys of a sequence on this rank, heads of k elements (the mean
  // of query and value heads), `groups` sequences times heads.
  kAttention,
  kStream,      // Bound by memory traffic: norms, activations, permutations.
  kCollective,  // Communication.
};

// kDispatch moves tokens to their experts and back, once for every domain and rank that has some.
enum class Collective {
  kNone,
  kAllGather,
  kReduceScatter,
  kAllReduce,
  kAllToAll,
  kRing,
  kDispatch,
};

// Where the tokens of a dispatch go: to topk of `experts`, which lie in group_topk of `groups`
// equal groups where the router limits them (group_topk > 0).
struct Routing {
  int64_t experts = 1;
  int64_t topk = 1;
  int64_t groups = 1;
  int64_t group_topk = 0;
};

// Which ranks of a stage communicate. kDispatch is etp x ep, the ranks that share a set of experts.
enum class Group { kNone, kTensor, kContext, kExpert, kExpertTensor, kDispatch };
inline constexpr size_t kGroups = 6;

// Phase in which a collective runs. Arithmetic runs in both.
enum class Phase { kForward, kBackward };

// One operation on one rank for one micro-batch. FLOPs count a multiply-add as two.
struct Operation {
  const char* name = "";
  OperationKind kind = OperationKind::kStream;

  // Matrix products and attention.
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t groups = 1;
  double flops = 0;           // Forward.
  bool model_flops = true;    // Counts as model FLOPs (section 6.4 of Megatron-LM's own formula).
  bool low_precision = true;  // Runs in 8-bit floating point where the job asks for it.
  // B is a parameter, whose gradient is added up in 32 bit; else both operands are activations.
  bool weight = true;

  // kStream: memory traffic. Backward counts apart: gradients come in and go out beside the input.
  double bytes = 0;
  double backward_bytes = 0;

  bool routed = false;  // Part of dispatch, routed experts or combine, whose sizes vary.
  // Operators that the framework issues for it, each of which costs the host time; a collective is
  // less than one.
  double forward_launches = 1;
  double backward_launches = 1;

  // Communication: `bytes` is the whole gathered or reduced tensor, the send buffer of an
  // all-to-all, what one rank passes on around a ring in all steps together, or one copy of the
  // tokens that a rank dispatches.
  Collective collective = Collective::kNone;
  Routing routing;  // Of a dispatch.
  Group group = Group::kNone;
  Phase phase = Phase::kForward;
  // Index of the operation of the list that it runs beside, for the time of one forward execution
  // of it; -1: nothing hides it.
  int beside = -1;
  // It is cut into this many pieces to run beside; the first piece stays exposed. 1: not cut.
  int64_t pieces = 1;

  double dense_parameters = 0;   // Held by this rank, synchronised over dp x cp.
  double expert_parameters = 0;  // Held by this rank, synchronised over expert dp.

  // Kept for the backward pass, and the modules whose recomputation drops it.
  double saved_bytes = 0;
  uint32_t dropped_by = 0;
  // The modules whose recomputation runs it again in the backward pass.
  uint32_t replayed_by = 0;
};

using Operations = std::vector<Operation>;

// One decoder layer.
Operations LayerOperations(const TransformerSpec& model, const TrainingSpec& training,
                           LayerKind kind, const Sharding& sharding);

// The word (and position) embedding.
Operations EmbeddingOperations(const TransformerSpec& model, const TrainingSpec& training,
                               const Sharding& sharding);

// The norm behind the last decoder layer.
Operations FinalNormOperations(const TransformerSpec& model, const TrainingSpec& training,
                               const Sharding& sharding);

// What one multi-token prediction layer adds to a decoder layer: its norms and projection, and its
// own pass through the output layer and the loss. arXiv 2412.19437, section 2.2.
Operations PredictionOperations(const TransformerSpec& model, const TrainingSpec& training,
                                const Sharding& sharding);

// The output layer and the loss. `holds_weights`: the rank holds a word embedding of its own for
// it, because the output is untied or because the embedding lives on another stage.
Operations OutputOperations(const TransformerSpec& model, const TrainingSpec& training,
                            const Sharding& sharding, bool holds_weights);

// Tokens on one rank between tensor-parallel regions, where sequence parallelism shards them.
double TokensBetweenRegions(const TransformerSpec& model, const Sharding& sharding);
// Tokens on one rank inside tensor-parallel regions.
double TokensInRegions(const TransformerSpec& model, const Sharding& sharding);
// Tokens that the experts of one rank compute when routing is balanced, all experts together:
// every rank brings its own, so only k and etp scale it. Capacity limits it.
double ExpertTokens(const TransformerSpec& model, const Sharding& sharding);

// How much more than ExpertTokens the busiest expert rank bears: by router statistics where the
// training has some, else as AssumedImbalance says. 1 where every expert is padded to its capacity;
// never more than the capacity factor, since the rest is dropped.
Imbalance ExpertImbalance(const TransformerSpec& model, const TrainingSpec& training,
                          const Sharding& sharding);

// Model FLOPs of one iteration of `global_batch` samples: forward and backward of every operation
// that counts, unsharded but for the padded vocabulary, which depends on tp. Equal to Megatron-LM's
// num_floating_point_operations.
double ModelFlops(const TransformerSpec& model, const TrainingSpec& training, int64_t tp);

}  // namespace hapmoe::model

#endif  // HAPMOE_CORE_MODEL_OPERATIONS_H_
