// Collects the operations of one list and knows the sizes that all of them share. Used by the
// sources of operations.h alone.
#ifndef HAPMOE_CORE_MODEL_OPERATION_BUILDER_H_
#define HAPMOE_CORE_MODEL_OPERATION_BUILDER_H_

#include <utility>

#include "core/model/operations.h"

namespace hapmoe::model {

// Bytes of what is kept in 32 bit whatever the training precision.
inline constexpr double kFp32Bytes = 4;

// The backward pass of a streaming operation reads its input again beside the incoming gradient.
inline constexpr double kBackwardTraffic = 1.5;

// Host time of a collective over that of an operator, which stands for a module of the framework
// with its autograd and several kernels. What ranks and predicts small models that wait for their
// host best (vTrain data/ground_truth_single.csv @f8dda84, 720 runs).
inline constexpr double kCollectiveLaunches = 0.3;

// The model, the training and the sharding must outlive it. References to operations hold until the
// next one is added.
class OperationBuilder {
 public:
  OperationBuilder(const TransformerSpec& model, const TrainingSpec& training,
                   const Sharding& sharding)
      : model_(model),
        training_(training),
        sharding_(sharding),
        element_(static_cast<double>(BytesPerElement(training.precision))),
        between_(TokensBetweenRegions(model, sharding)),
        inside_(TokensInRegions(model, sharding)) {}

  Operations Take() { return std::move(list_); }
  double element() const { return element_; }  // Bytes.
  double between() const { return between_; }  // Tokens between tensor-parallel regions.
  double inside() const { return inside_; }    // Tokens inside them.
  // Index of the operation added last.
  int last() const { return static_cast<int>(list_.size()) - 1; }
  bool sequence_parallel() const { return sharding_.sequence_parallel && sharding_.tp > 1; }

  Operation& Gemm(const char* name, double m, double n, double k) {
    Operation op;
    op.name = name;
    op.kind = OperationKind::kGemm;
    op.m = static_cast<int64_t>(m);
    op.n = static_cast<int64_t>(n);
    op.k = static_cast<int64_t>(k);
    op.flops = 2 * m * n * k;
    op.backward_launches = 2;  // Input and weight gradient.
    list_.push_back(op);
    return list_.back();
  }

  Operation& Stream(const char* name, double elements_moved) {
    Operation op;
    op.name = name;
    op.kind = OperationKind::kStream;
    op.bytes = elements_moved * element_;
    op.backward_bytes = op.bytes * kBackwardTraffic;
    if (elements_moved == 0) op.forward_launches = op.backward_launches = 0;
    list_.push_back(op);
    return list_.back();
  }

  Operation& Communicate(const char* name, Collective collective, Group group, Phase phase,
                         double bytes) {
    Operation op;
    op.name = name;
    op.kind = OperationKind::kCollective;
    op.collective = collective;
    op.group = group;
    op.phase = phase;
    op.bytes = bytes;
    op.forward_launches = phase == Phase::kForward ? kCollectiveLaunches : 0;
    op.backward_launches = phase == Phase::kBackward ? kCollectiveLaunches : 0;
    list_.push_back(op);
    return list_.back();
  }

  // A norm over `width` elements of `tokens` tokens, whose output the next product saves.
  Operation& Norm(const char* name, double tokens, double width) {
    Operation& op = Stream(name, 2 * tokens * width);
    op.dense_parameters = width * static_cast<double>(model_.norm_parameters);
    return op;
  }

  // What enters a column-parallel product (index `gemm`): gathered over the sequence, and in the
  // backward pass gathered again for the weight gradient while its input gradient is computed, then
  // scattered while the weight gradient is. Without sequence parallelism the input gradient is
  // reduced.
  void EnterTensorRegion(int gemm, double tokens, double width) {
    if (sharding_.tp == 1) return;
    const double bytes = tokens * width * element_;
    if (!sequence_parallel()) {
      Communicate("reduce_input_gradient", Collective::kAllReduce, Group::kTensor, Phase::kBackward,
                  bytes)
          .beside = gemm;
      return;
    }
    HideByPieces(
        Communicate("gather_input", Collective::kAllGather, Group::kTensor, Phase::kForward, bytes),
        gemm);
    Communicate("gather_input_again", Collective::kAllGather, Group::kTensor, Phase::kBackward,
                bytes)
        .beside = gemm;
    Communicate("scatter_input_gradient", Collective::kReduceScatter, Group::kTensor,
                Phase::kBackward, bytes)
        .beside = gemm;
  }

  // What leaves a row-parallel product (index `gemm`).
  void LeaveTensorRegion(int gemm, double tokens, double width) {
    if (sharding_.tp == 1) return;
    const double bytes = tokens * width * element_;
    if (!sequence_parallel()) {
      Communicate("reduce_output", Collective::kAllReduce, Group::kTensor, Phase::kForward, bytes);
      return;
    }
    HideByPieces(Communicate("scatter_output", Collective::kReduceScatter, Group::kTensor,
                             Phase::kForward, bytes),
                 gemm);
    HideByPieces(Communicate("gather_output_gradient", Collective::kAllGather, Group::kTensor,
                             Phase::kBackward, bytes),
                 gemm);
  }

  // Blocks of a layer, norms and residuals left out.
  void Attention();
  void MultiLatentAttention();
  void DenseMlp();
  void Experts();  // With the shared experts, if any.

 private:
  void CoreAttention(double query_heads, double query_head, double value_head, double kv_width);
  void FusedAttention(double query_heads, double head);
  void UnfusedAttention(double query_heads, double query_head, double value_head);
  void SharedExperts();

  // --tp-comm-overlap runs a transfer beside the product that uses it, in tp pieces.
  void HideByPieces(Operation& transfer, int gemm) {
    if (!training_.overlap.tensor_parallel) return;
    transfer.beside = gemm;
    transfer.pieces = sharding_.tp;
  }

  double ActivationWidth() const { return model_.gated_mlp ? 2 : 1; }

  const TransformerSpec& model_;
  const TrainingSpec& training_;
  const Sharding& sharding_;
  const double element_;
  const double between_;
  const double inside_;
  Operations list_;
};

}  // namespace hapmoe::model

#endif  // HAPMOE_CORE_MODEL_OPERATION_BUILDER_H_
