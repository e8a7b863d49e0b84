#include "core/model/operations.h"

#include <algorithm>
#include <utility>

namespace hapmoe::model {
namespace {

constexpr double kAttentionMatmuls = 2;  // Q K^T and P V.
constexpr double kFp32Bytes = 4;

// Collects the operations of a list and knows the sizes that all of them share.
class Builder {
 public:
  Builder(const TransformerSpec& model, const TrainingSpec& training, const Sharding& sharding)
      : model_(model),
        training_(training),
        sharding_(sharding),
        element_(static_cast<double>(BytesPerElement(training.precision))),
        between_(TokensBetweenRegions(model, sharding)),
        inside_(TokensInRegions(model, sharding)) {}

  Operations Take() { return std::move(list_); }
  double element() const { return element_; }
  double between() const { return between_; }
  double inside() const { return inside_; }
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
    list_.push_back(op);
    return list_.back();
  }

  Operation& Stream(const char* name, double elements_moved) {
    Operation op;
    op.name = name;
    op.kind = OperationKind::kStream;
    op.bytes = elements_moved * element_;
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

  void Attention();
  void MultiLatentAttention();
  void CoreAttention(double query_heads, double query_head, double value_head, double kv_width);
  void DenseMlp();
  void Experts();
  void SharedExperts();

 private:
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

// softmax(Q K^T) V with `query_heads` heads on this rank. kv_width: elements of one token's keys
// and values on this rank, which context parallelism passes around.
void Builder::CoreAttention(double query_heads, double query_head, double value_head,
                            double kv_width) {
  const double seq = static_cast<double>(model_.seq_length);
  const double cp = static_cast<double>(sharding_.cp);
  const double width = query_heads * (query_head + value_head) / kAttentionMatmuls;
  Operation op;
  op.name = "core_attention";
  op.kind = OperationKind::kAttention;
  op.m = static_cast<int64_t>(inside_);
  op.n = model_.seq_length;
  op.k = static_cast<int64_t>(width);
  // Causal: a query sees half of the keys. Context parallelism balances the triangle.
  op.flops = kAttentionMatmuls * 2 * inside_ * seq * width / 2;
  op.low_precision = false;
  op.replayed_by = kRecomputeCoreAttention;
  if (training_.flash_attention) {
    op.saved_bytes = inside_ * query_heads * kFp32Bytes;  // The log-sum-exp of each row.
  } else {
    // Softmax output, its dropout's output, and the dropout mask: 5 bytes a score
    // (arXiv 2205.05198, section 4.1).
    const double dropout = training_.attention_dropout > 0 ? element_ + 1 : 0;
    op.saved_bytes = inside_ * seq * query_heads * (element_ + dropout);
  }
  op.dropped_by = kRecomputeCoreAttention;
  list_.push_back(op);
  if (sharding_.cp > 1) {
    // Keys and values pass around the ring beside the attention of the blocks at hand.
    const int attention = last();
    const double bytes = inside_ * kv_width * element_ * (cp - 1);
    Operation& forward =
        Communicate("pass_keys_values", Collective::kRing, Group::kContext, Phase::kForward, bytes);
    forward.beside = attention;
    Operation& backward = Communicate("pass_keys_values_gradients", Collective::kRing,
                                      Group::kContext, Phase::kBackward, 2 * bytes);
    backward.beside = attention;
  }
}

void Builder::Attention() {
  const double tp = static_cast<double>(sharding_.tp);
  const double hidden = static_cast<double>(model_.hidden);
  const double head = static_cast<double>(model_.head_dim);
  const double heads = static_cast<double>(model_.heads) / tp;
  const double groups = static_cast<double>(model_.query_groups) / tp;
  const double gate = model_.attention_output_gate ? heads * head : 0;
  const double projected = head * (heads + 2 * groups) + gate;

  Operation& qkv = Gemm("qkv_projection", inside_, projected, hidden);
  qkv.dense_parameters = hidden * projected;
  if (model_.qkv_bias) qkv.dense_parameters += projected;
  qkv.saved_bytes = between_ * hidden * element_;  // The norm's output.
  qkv.dropped_by = kRecomputeLayerNorm;
  EnterTensorRegion(last(), inside_, hidden);
  if (model_.qk_layernorm) {
    Operation& norm = Stream("qk_norm", 2 * inside_ * head * (heads + groups));
    norm.dense_parameters = 2 * head * static_cast<double>(model_.norm_parameters);
    norm.saved_bytes = inside_ * head * (heads + groups) * element_;
  }
  if (!model_.learned_positions) Stream("rotary_embedding", 2 * inside_ * head * (heads + groups));
  // Keys and values of a group are held by every rank that shares it.
  const double kv_heads = std::max(1.0, groups);
  CoreAttention(heads, head, head, 2 * kv_heads * head);
  Stream("attention_inputs", 0).saved_bytes = inside_ * head * (heads + 2 * kv_heads) * element_;
  if (model_.attention_output_gate) {
    Stream("output_gate", 3 * inside_ * gate).saved_bytes = 2 * inside_ * gate * element_;
  }
  Operation& out = Gemm("output_projection", inside_, hidden, heads * head);
  out.dense_parameters = hidden * heads * head;
  if (model_.linear_bias) out.dense_parameters += hidden;
  out.saved_bytes = inside_ * heads * head * element_;
  LeaveTensorRegion(last(), inside_, hidden);
}

void Builder::MultiLatentAttention() {
  const auto& mla = *model_.mla;
  const double tp = static_cast<double>(sharding_.tp);
  const double hidden = static_cast<double>(model_.hidden);
  const double heads = static_cast<double>(model_.heads) / tp;
  const double query_head = static_cast<double>(mla.qk_head_dim + mla.qk_pos_emb_head_dim);
  const double value_head = static_cast<double>(mla.v_head_dim);
  const double position = static_cast<double>(mla.qk_pos_emb_head_dim);
  const double kv_rank = static_cast<double>(mla.kv_lora_rank);
  const double norm_parameters =
      model_.qk_layernorm ? static_cast<double>(model_.norm_parameters) : 0;

  // A norm of a low-rank projection: Megatron-LM counts one FLOP pair for each element of it.
  const auto low_rank_norm = [&](const char* name, double rank) {
    Operation& norm = Stream(name, 2 * between_ * rank);
    norm.dense_parameters = rank * norm_parameters;
    norm.flops = 2 * between_ * rank;
    norm.saved_bytes = between_ * rank * element_;
  };

  // The down projections are held whole by every tensor-parallel rank and run on its own tokens.
  if (mla.q_lora_rank.has_value()) {
    const double rank = static_cast<double>(*mla.q_lora_rank);
    Operation& down = Gemm("q_down_projection", between_, rank, hidden);
    down.dense_parameters = hidden * rank;
    low_rank_norm("q_norm", rank);
    Operation& up = Gemm("q_up_projection", inside_, heads * query_head, rank);
    up.dense_parameters = rank * heads * query_head;
    up.saved_bytes = between_ * rank * element_;
    up.replayed_by = kRecomputeMlaUpProjection;
    EnterTensorRegion(last(), inside_, rank);
  } else {
    Operation& q = Gemm("q_projection", inside_, heads * query_head, hidden);
    q.dense_parameters = hidden * heads * query_head;
    q.replayed_by = kRecomputeMlaUpProjection;
    EnterTensorRegion(last(), inside_, hidden);
  }
  Operation& down = Gemm("kv_down_projection", between_, kv_rank + position, hidden);
  down.dense_parameters = hidden * (kv_rank + position);
  down.saved_bytes = between_ * hidden * element_;  // The norm's output, shared by both.
  down.dropped_by = kRecomputeLayerNorm;
  low_rank_norm("kv_norm", kv_rank);
  Operation& up = Gemm("kv_up_projection", inside_,
                       heads * static_cast<double>(mla.qk_head_dim + mla.v_head_dim), kv_rank);
  up.dense_parameters = kv_rank * heads * static_cast<double>(mla.qk_head_dim + mla.v_head_dim);
  up.saved_bytes = between_ * kv_rank * element_;
  up.replayed_by = kRecomputeMlaUpProjection;
  EnterTensorRegion(last(), inside_, kv_rank + position);
  Stream("rotary_embedding", 2 * inside_ * heads * query_head * 2).replayed_by =
      kRecomputeMlaUpProjection;
  CoreAttention(heads, query_head, value_head, heads * (query_head + value_head));
  Operation& inputs = Stream("attention_inputs", 0);
  inputs.saved_bytes = inside_ * heads * (2 * query_head + value_head) * element_;
  inputs.dropped_by = kRecomputeMlaUpProjection;
  Operation& out = Gemm("output_projection", inside_, hidden, heads * value_head);
  out.dense_parameters = hidden * heads * value_head;
  if (model_.linear_bias) out.dense_parameters += hidden;
  out.saved_bytes = inside_ * heads * value_head * element_;
  LeaveTensorRegion(last(), inside_, hidden);
}

void Builder::DenseMlp() {
  const double hidden = static_cast<double>(model_.hidden);
  const double ffn = static_cast<double>(model_.ffn_hidden) / static_cast<double>(sharding_.tp);
  const double gate = ActivationWidth();
  Operation& in = Gemm("mlp_in", inside_, gate * ffn, hidden);
  in.dense_parameters = hidden * gate * ffn;
  if (model_.linear_bias) in.dense_parameters += gate * ffn;
  in.saved_bytes = between_ * hidden * element_;  // The norm's output.
  in.dropped_by = kRecomputeLayerNorm | kRecomputeMlp;
  in.replayed_by = kRecomputeMlp;
  const int first = last();
  EnterTensorRegion(first, inside_, hidden);
  Operation& act = Stream("mlp_activation", (gate + 1) * inside_ * ffn);
  act.saved_bytes = inside_ * gate * ffn * element_;
  act.dropped_by = kRecomputeMlp;
  act.replayed_by = kRecomputeMlp;
  Operation& out = Gemm("mlp_out", inside_, hidden, ffn);
  out.dense_parameters = hidden * ffn;
  if (model_.linear_bias) out.dense_parameters += hidden;
  out.saved_bytes = inside_ * ffn * element_;
  out.dropped_by = kRecomputeMlp;
  out.replayed_by = kRecomputeMlp;
  const int second = last();
  LeaveTensorRegion(second, inside_, hidden);
  for (int i = first; i <= last(); ++i) {
    if (list_[i].phase == Phase::kForward) list_[i].replayed_by |= kRecomputeMlp;
  }
}

void Builder::SharedExperts() {
  const double hidden = static_cast<double>(model_.hidden);
  const double ffn =
      static_cast<double>(model_.moe->shared_ffn_hidden) / static_cast<double>(sharding_.tp);
  const double gate = ActivationWidth();
  const uint32_t modules = kRecomputeSharedExperts | kRecomputeMoe;
  Operation& in = Gemm("shared_expert_in", inside_, gate * ffn, hidden);
  in.dense_parameters = hidden * gate * ffn;
  const int first = last();
  EnterTensorRegion(first, inside_, hidden);
  Operation& act = Stream("shared_expert_activation", (gate + 1) * inside_ * ffn);
  act.saved_bytes = inside_ * gate * ffn * element_;
  act.dropped_by = modules;
  Operation& out = Gemm("shared_expert_out", inside_, hidden, ffn);
  out.dense_parameters = hidden * ffn;
  out.saved_bytes = inside_ * ffn * element_;
  out.dropped_by = modules;
  if (model_.moe->shared_gate) out.dense_parameters += hidden;
  LeaveTensorRegion(last(), inside_, hidden);
  for (int i = first; i <= last(); ++i) {
    if (list_[i].phase == Phase::kForward) list_[i].replayed_by |= modules;
  }
}

void Builder::Experts() {
  const MixtureOfExperts& moe = *model_.moe;
  const double hidden = static_cast<double>(model_.hidden);
  const double width = moe.latent > 0 ? static_cast<double>(moe.latent) : hidden;
  const double ffn = static_cast<double>(moe.ffn_hidden) / static_cast<double>(sharding_.etp);
  const double gate = ActivationWidth();
  const double local_experts = static_cast<double>(moe.experts) / static_cast<double>(sharding_.ep);
  const double received = ExpertTokens(model_, sharding_) * std::max(1.0, training_.load_imbalance);
  const double routed = received / static_cast<double>(sharding_.etp);  // Sent by this rank.
  const int first = last() + 1;

  Operation& router = Gemm("router", between_, static_cast<double>(moe.experts), hidden);
  router.dense_parameters = hidden * static_cast<double>(moe.experts);
  if (moe.router_bias) router.dense_parameters += static_cast<double>(moe.experts);
  router.model_flops = false;
  router.low_precision = false;
  router.saved_bytes = between_ * hidden * element_;  // The norm's output.
  router.dropped_by = kRecomputeLayerNorm;
  Operation& scores = Stream("router_scores", 4 * between_ * static_cast<double>(moe.experts));
  scores.saved_bytes = 2 * between_ * static_cast<double>(moe.experts) * kFp32Bytes;
  scores.dropped_by = kRecomputeMoe;
  if (moe.latent > 0) {
    Operation& down = Gemm("latent_down", between_, width, hidden);
    down.dense_parameters = hidden * width;
  }

  // Dispatch, and the way back. The backward pass runs the same pattern in reverse.
  const double send = routed * width * element_;
  const bool many = sharding_.ep > 1;
  const double between_bytes = between_ * width * element_;
  const double dispatch_ranks = static_cast<double>(sharding_.ep * sharding_.etp);
  Stream("permute", 2 * routed * width);
  const auto exchange = [&](Phase phase, bool dispatch) {
    switch (training_.dispatcher) {
      case Dispatcher::kAllGather:
        if (dispatch_ranks > 1) {
          Communicate(dispatch ? "dispatch_gather" : "combine_scatter",
                      dispatch == (phase == Phase::kForward) ? Collective::kAllGather
                                                             : Collective::kReduceScatter,
                      Group::kDispatch, phase, between_bytes * dispatch_ranks);
        }
        return;
      case Dispatcher::kAllToAll:
      case Dispatcher::kFlex:
        if (many) {
          Communicate(dispatch ? "dispatch" : "combine", Collective::kAllToAll, Group::kExpert,
                      phase, send);
        }
        if (sharding_.etp > 1) {
          Communicate(dispatch ? "dispatch_gather" : "combine_scatter",
                      dispatch == (phase == Phase::kForward) ? Collective::kAllGather
                                                             : Collective::kReduceScatter,
                      Group::kExpertTensor, phase, received * width * element_);
        }
        return;
    }
  };
  exchange(Phase::kForward, /*dispatch=*/true);
  exchange(Phase::kBackward, /*dispatch=*/true);

  const bool own_groups = sharding_.ep > 1 || sharding_.etp != sharding_.tp;
  const auto hold = [&](Operation& op, double parameters) {
    (own_groups ? op.expert_parameters : op.dense_parameters) = parameters;
  };
  Operation& in = Gemm("experts_in", received, gate * ffn, width);
  in.kind = OperationKind::kGroupedGemm;
  in.groups = static_cast<int64_t>(local_experts);
  hold(in, local_experts * gate * ffn * (width + (model_.linear_bias ? 1 : 0)));
  in.saved_bytes = received * width * element_;
  in.dropped_by = kRecomputeMoe;
  Operation& act = Stream("experts_activation", (gate + 1) * received * ffn);
  act.saved_bytes = received * (gate * ffn * element_ + kFp32Bytes);  // And the probabilities.
  act.dropped_by = kRecomputeMoe;
  act.replayed_by = kRecomputeMoeActivation;
  Operation& out = Gemm("experts_out", received, width, ffn);
  out.kind = OperationKind::kGroupedGemm;
  out.groups = static_cast<int64_t>(local_experts);
  hold(out, local_experts * width * (ffn + (model_.linear_bias ? 1 : 0)));
  out.saved_bytes = received * ffn * element_;
  out.dropped_by = kRecomputeMoe | kRecomputeMoeActivation;

  exchange(Phase::kForward, /*dispatch=*/false);
  exchange(Phase::kBackward, /*dispatch=*/false);
  Stream("unpermute", 2 * routed * width);
  if (moe.latent > 0) {
    Operation& up = Gemm("latent_up", between_, hidden, width);
    up.dense_parameters = hidden * width;
    up.saved_bytes = between_ * width * element_;
    up.dropped_by = kRecomputeMoe;
  }
  for (int i = first; i <= last(); ++i) {
    if (list_[i].phase == Phase::kForward) list_[i].replayed_by |= kRecomputeMoe;
  }
  if (moe.shared_ffn_hidden > 0) SharedExperts();
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

Operations LayerOperations(const TransformerSpec& model, const TrainingSpec& training,
                           LayerKind kind, const Sharding& sharding) {
  Builder list(model, training, sharding);
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
  return list.Take();
}

Operations EmbeddingOperations(const TransformerSpec& model, const TrainingSpec& training,
                               const Sharding& sharding) {
  Builder list(model, training, sharding);
  const double hidden = static_cast<double>(model.hidden);
  const double rows = static_cast<double>(model.PaddedVocab(sharding.tp) / sharding.tp);
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
  Builder list(model, training, sharding);
  const double hidden = static_cast<double>(model.hidden);
  const double vocab = static_cast<double>(model.PaddedVocab(sharding.tp) / sharding.tp);
  Operation& output = list.Gemm("output_layer", list.inside(), vocab, hidden);
  output.low_precision = false;
  if (holds_weights) output.dense_parameters = vocab * hidden;
  output.saved_bytes = list.between() * hidden * list.element();  // The final norm's output.
  list.EnterTensorRegion(list.last(), list.inside(), hidden);
  // Read the logits, write and read them in 32 bit, write their gradient.
  list.Stream("loss", list.inside() * vocab * (training.fused_cross_entropy ? 2 : 6));
  return list.Take();
}

Operations FinalNormOperations(const TransformerSpec& model, const TrainingSpec& training,
                               const Sharding& sharding) {
  Builder list(model, training, sharding);
  const double hidden = static_cast<double>(model.hidden);
  Operation& norm = list.Norm("final_norm", list.between(), hidden);
  norm.saved_bytes = list.between() * hidden * list.element();
  return list.Take();
}

Operations PredictionOperations(const TransformerSpec& model, const TrainingSpec& training,
                                const Sharding& sharding) {
  Builder list(model, training, sharding);
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
  balanced.load_imbalance = 1;
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
