#include <algorithm>
#include <cmath>

#include "core/model/operation_builder.h"

namespace hapmoe::model {
namespace {

constexpr double kAttentionMatmuls = 2;  // Q K^T and P V.

}  // namespace

// softmax(Q K^T) V with `query_heads` heads on this rank. kv_width: elements of one token's keys
// and values on this rank, which context parallelism passes around.
void OperationBuilder::CoreAttention(double query_heads, double query_head, double value_head,
                                     double kv_width) {
  if (training_.flash_attention) {
    FusedAttention(query_heads, (query_head + value_head) / kAttentionMatmuls);
  } else {
    UnfusedAttention(query_heads, query_head, value_head);
  }
  if (sharding_.cp > 1) {
    // Keys and values pass around the ring beside the attention of the blocks at hand.
    const int attention = last();
    const double bytes = inside_ * kv_width * element_ * static_cast<double>(sharding_.cp - 1);
    Operation& forward =
        Communicate("pass_keys_values", Collective::kRing, Group::kContext, Phase::kForward, bytes);
    forward.beside = attention;
    Operation& backward = Communicate("pass_keys_values_gradients", Collective::kRing,
                                      Group::kContext, Phase::kBackward, 2 * bytes);
    backward.beside = attention;
  }
}

// One kernel. `head`: the mean of query and value heads.
void OperationBuilder::FusedAttention(double query_heads, double head) {
  const double seq = static_cast<double>(model_.seq_length);
  Operation op;
  op.name = "core_attention";
  op.kind = OperationKind::kAttention;
  op.m = model_.seq_length / sharding_.cp;
  op.n = model_.seq_length;
  op.k = static_cast<int64_t>(head);
  op.groups = std::llround(query_heads * static_cast<double>(sharding_.micro_batch));
  // Causal: a query sees half of the keys. Context parallelism balances the triangle.
  op.flops = kAttentionMatmuls * 2 * inside_ * seq * query_heads * head / 2;
  op.low_precision = false;
  op.replayed_by = op.dropped_by = kRecomputeCoreAttention;
  op.saved_bytes = inside_ * query_heads * kFp32Bytes;  // The log-sum-exp of each row.
  list_.push_back(op);
}

// Scores, softmax, dropout and context one after the other, each through memory
// (core/transformer/dot_product_attention.py). All scores are computed, also those that the mask
// hides, of which model FLOPs count none.
void OperationBuilder::UnfusedAttention(double query_heads, double query_head, double value_head) {
  const double seq = static_cast<double>(model_.seq_length);
  const double scores = inside_ * seq * query_heads;
  const auto product = [&](const char* name, double n, double k) {
    Operation op;
    op.name = name;
    op.kind = OperationKind::kGroupedGemm;
    op.groups = std::llround(query_heads * static_cast<double>(sharding_.micro_batch));
    op.m = op.groups * model_.seq_length / sharding_.cp;
    op.n = static_cast<int64_t>(n);
    op.k = static_cast<int64_t>(k);
    op.flops = 2 * inside_ * query_heads * n * k / 2;
    op.low_precision = false;
    op.weight = false;
    op.forward_launches = op.backward_launches = 0;
    op.replayed_by = kRecomputeCoreAttention;
    list_.push_back(op);
  };
  product("attention_scores", seq, query_head);
  list_.back().forward_launches = list_.back().backward_launches = 1;  // Of the whole module.
  // Scale, mask and softmax are one kernel in 16 bit (fusions/fused_softmax.py), two otherwise.
  const bool masked_apart = training_.precision == Precision::kFp32;
  Operation& softmax = Stream("attention_softmax", (masked_apart ? 4 : 2) * scores);
  softmax.forward_launches = softmax.backward_launches = 0;
  softmax.saved_bytes = scores * element_;
  softmax.replayed_by = softmax.dropped_by = kRecomputeCoreAttention;
  if (training_.attention_dropout > 0) {
    // With a mask of one byte a score (arXiv 2205.05198, section 4.1).
    Operation& dropout = Stream("attention_dropout", 2 * scores);
    dropout.forward_launches = dropout.backward_launches = 0;
    dropout.bytes += scores;
    dropout.backward_bytes = dropout.bytes;
    dropout.saved_bytes = scores * (element_ + 1);
    dropout.replayed_by = dropout.dropped_by = kRecomputeCoreAttention;
  }
  product("attention_context", value_head, seq);
}

void OperationBuilder::Attention() {
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

void OperationBuilder::MultiLatentAttention() {
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

}  // namespace hapmoe::model
