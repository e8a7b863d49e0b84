#include "core/model/operations.h"

#include <algorithm>
#include <limits>

#include "core/model/operation_builder.h"

namespace hapmoe::model {
namespace {

// Rows of the word embedding on one rank.
double VocabRows(const TransformerSpec& model, const Sharding& sharding) {
  const int64_t rows = model.PaddedVocab(sharding.tp) / sharding.tp;
  return static_cast<double>(rows);
}

// Operations that are part of a captured graph cost the host nothing.
void ForgetGraphedLaunches(const TrainingSpec& training, Operations& operations) {
  if (training.graphs == Graphs::kNone) return;
  for (Operation& op : operations) {
    if (training.graphs == Graphs::kAllButExperts && op.routed) continue;
    op.forward_launches = 0;
    op.backward_launches = 0;
  }
}

// Transformer Engine keeps the inputs of 8-bit products in 8 bit, for the weight gradient.
void SaveInLowPrecision(const TrainingSpec& training, Operations& operations) {
  if (!training.fp8) return;
  for (Operation& op : operations) {
    const bool product = op.kind == OperationKind::kGemm || op.kind == OperationKind::kGroupedGemm;
    if (product && op.low_precision) {
      op.saved_bytes /= static_cast<double>(BytesPerElement(training.precision));
    }
  }
}

}  // namespace

double TokensInRegions(const TransformerSpec& model, const Sharding& sharding) {
  return static_cast<double>(model.seq_length * sharding.micro_batch) /
         static_cast<double>(sharding.cp);
}

double TokensBetweenRegions(const TransformerSpec& model, const Sharding& sharding) {
  const double tokens = TokensInRegions(model, sharding);
  return sharding.sequence_parallel ? tokens / static_cast<double>(sharding.tp) : tokens;
}

double ExpertTokens(const TransformerSpec& model, const Sharding& sharding) {
  const MixtureOfExperts& moe = *model.moe;
  // Without sequence parallelism every tensor-parallel rank would bring the same tokens, which the
  // engine refuses; experts then see each token once.
  const double tokens = TokensInRegions(model, sharding) / static_cast<double>(sharding.tp);
  double copies = static_cast<double>(moe.topk);
  if (moe.capacity_factor.has_value()) {
    const double capacity = *moe.capacity_factor * static_cast<double>(moe.topk);
    copies = moe.pad_to_capacity ? capacity : std::min(copies, capacity);
  }
  return copies * tokens * static_cast<double>(sharding.etp);
}

Imbalance ExpertImbalance(const TransformerSpec& model, const TrainingSpec& training,
                          const Sharding& sharding) {
  const MixtureOfExperts& moe = *model.moe;
  if (moe.capacity_factor.has_value() && moe.pad_to_capacity) return {};
  // No expert, hence no rank, takes more than the capacity factor times the mean.
  const double most = moe.capacity_factor.has_value() ? std::max(1.0, *moe.capacity_factor)
                                                      : std::numeric_limits<double>::infinity();
  if (training.measured_imbalance.has_value()) {
    const double seen = std::min(most, std::max(1.0, *training.measured_imbalance));
    return {.time = seen, .memory = seen, .saved = seen};
  }
  if (training.router_statistics != nullptr) {
    return ImbalanceOf(*training.router_statistics, sharding.ep, most);
  }
  return AssumedImbalance(training.balancing, moe.experts, moe.topk, sharding.ep,
                          ExpertTokens(model, sharding), training.imbalance_quantile, most);
}

Operations LayerOperations(const TransformerSpec& model, const TrainingSpec& training,
                           LayerKind kind, const Sharding& sharding) {
  OperationBuilder list(model, training, sharding);
  const double hidden = static_cast<double>(model.hidden);
  const auto norm = [&](const char* name) {
    Operation& op = list.Norm(name, list.between(), hidden);
    op.saved_bytes = list.between() * hidden * list.element();  // The residual stream.
    op.replayed_by = kRecomputeLayerNorm;
  };
  const auto add_residual = [&](const char* name) {
    Operation& op = list.Stream(name, 3 * list.between() * hidden);
    if (training.hidden_dropout > 0) op.saved_bytes = list.between() * hidden;  // The mask.
  };
  norm("input_norm");
  if (model.mla.has_value()) {
    list.MultiLatentAttention();
  } else {
    list.Attention();
  }
  add_residual("attention_residual");
  norm("mlp_norm");
  if (kind == LayerKind::kMoe) {
    list.Experts();
  } else {
    list.DenseMlp();
  }
  add_residual("mlp_residual");
  Operations operations = list.Take();
  SaveInLowPrecision(training, operations);
  ForgetGraphedLaunches(training, operations);
  return operations;
}

Operations EmbeddingOperations(const TransformerSpec& model, const TrainingSpec& training,
                               const Sharding& sharding) {
  OperationBuilder list(model, training, sharding);
  const double hidden = static_cast<double>(model.hidden);
  const double rows = VocabRows(model, sharding);
  Operation& lookup = list.Stream("embedding", 2 * list.between() * hidden);
  lookup.dense_parameters = rows * hidden;
  if (model.learned_positions) {
    lookup.dense_parameters += static_cast<double>(model.max_positions) * hidden;
  }
  if (training.hidden_dropout > 0) lookup.saved_bytes = list.between() * hidden;  // The mask.
  if (sharding.tp > 1) {
    const double bytes = list.inside() * hidden * list.element();
    if (list.sequence_parallel()) {
      list.Communicate("scatter_embedding", Collective::kReduceScatter, Group::kTensor,
                       Phase::kForward, bytes);
      list.Communicate("gather_embedding_gradient", Collective::kAllGather, Group::kTensor,
                       Phase::kBackward, bytes);
    } else {
      list.Communicate("reduce_embedding", Collective::kAllReduce, Group::kTensor, Phase::kForward,
                       bytes);
    }
  }
  return list.Take();
}

Operations OutputOperations(const TransformerSpec& model, const TrainingSpec& training,
                            const Sharding& sharding, bool holds_weights) {
  OperationBuilder list(model, training, sharding);
  const double hidden = static_cast<double>(model.hidden);
  const double vocab = VocabRows(model, sharding);
  Operation& output = list.Gemm("output_layer", list.inside(), vocab, hidden);
  output.low_precision = false;
  if (holds_weights) output.dense_parameters = vocab * hidden;
  output.saved_bytes = list.between() * hidden * list.element();  // The final norm's output.
  list.EnterTensorRegion(list.last(), list.inside(), hidden);
  // VocabParallelCrossEntropy (cross_entropy.py): to 32 bit, maximum, difference, exponential, sum
  // and quotient, each a pass over the logits; backward scales the softmax and rounds it. Fused,
  // the middle ones are two passes.
  Operation& loss = list.Stream("loss", 1);
  const double logits = list.inside() * vocab;
  const double element = list.element();
  loss.bytes =
      logits * (element + 4 + (training.fused_cross_entropy ? 4 + 8 + 8 : 4 + 8 + 8 + 4 + 8));
  loss.backward_bytes = logits * (8 + 4 + element);
  loss.forward_launches = training.fused_cross_entropy ? 5 : 10;
  loss.backward_launches = 4;
  return list.Take();
}

Operations FinalNormOperations(const TransformerSpec& model, const TrainingSpec& training,
                               const Sharding& sharding) {
  OperationBuilder list(model, training, sharding);
  const double hidden = static_cast<double>(model.hidden);
  Operation& norm = list.Norm("final_norm", list.between(), hidden);
  norm.saved_bytes = list.between() * hidden * list.element();
  return list.Take();
}

Operations PredictionOperations(const TransformerSpec& model, const TrainingSpec& training,
                                const Sharding& sharding) {
  OperationBuilder list(model, training, sharding);
  const double hidden = static_cast<double>(model.hidden);
  const double tp = static_cast<double>(sharding.tp);
  // Norms of the hidden state, of the next token's embedding, and of the layer's output.
  Operation& norms = list.Norm("prediction_norms", list.between(), 3 * hidden);
  norms.flops = 2 * list.between() * 3 * hidden;  // Counted by Megatron-LM.
  norms.saved_bytes = 2 * list.between() * hidden * list.element();
  Operation& project = list.Gemm("prediction_projection", list.inside(), hidden / tp, 2 * hidden);
  project.dense_parameters = 2 * hidden * hidden / tp;
  project.saved_bytes = 2 * list.between() * hidden * list.element();
  list.EnterTensorRegion(list.last(), list.inside(), 2 * hidden);
  Operations operations = list.Take();
  for (Operation& op : OutputOperations(model, training, sharding, /*holds_weights=*/false)) {
    if (op.beside >= 0) op.beside += static_cast<int>(operations.size());
    operations.push_back(op);
  }
  return operations;
}

double ModelFlops(const TransformerSpec& model, const TrainingSpec& training, int64_t tp) {
  // Forward, and twice that backward.
  constexpr double kPasses = 3;
  TransformerSpec padded = model;
  padded.padded_vocab = model.PaddedVocab(tp);
  const Sharding whole;  // One rank, one sample.
  const auto count = [](const Operations& operations) {
    double flops = 0;
    for (const Operation& op : operations) flops += op.model_flops ? op.flops : 0;
    return flops;
  };
  TrainingSpec balanced = training;
  balanced.router_statistics = nullptr;
  balanced.measured_imbalance.reset();
  balanced.balancing = Balancing::kForced;
  if (padded.moe.has_value()) padded.moe->capacity_factor.reset();
  const double dense = count(LayerOperations(padded, balanced, LayerKind::kDense, whole));
  const double moe =
      model.moe.has_value() ? count(LayerOperations(padded, balanced, LayerKind::kMoe, whole)) : 0;
  double flops = 0;
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    flops += model.kind(layer) == LayerKind::kMoe ? moe : dense;
  }
  flops += count(OutputOperations(padded, balanced, whole, true));
  if (model.mtp_layers > 0) {
    flops += static_cast<double>(model.mtp_layers) *
             ((model.mtp_kind() == LayerKind::kMoe ? moe : dense) +
              count(PredictionOperations(padded, balanced, whole)));
  }
  return kPasses * flops * static_cast<double>(training.global_batch);
}

}  // namespace hapmoe::model
