// What is trained: the shape of a decoder-only Transformer.
#ifndef HAPMOE_CORE_MODEL_TRANSFORMER_SPEC_H_
#define HAPMOE_CORE_MODEL_TRANSFORMER_SPEC_H_

#include <cstdint>
#include <optional>
#include <vector>

namespace hapmoe::model {

// Multi-latent attention (arXiv 2405.04434).
struct MultiLatentAttention {
  std::optional<int64_t> q_lora_rank;  // Absent: queries of full rank.
  int64_t kv_lora_rank = 32;
  int64_t qk_head_dim = 128;         // Without position.
  int64_t qk_pos_emb_head_dim = 64;  // With position.
  int64_t v_head_dim = 128;
};

// The routed and shared experts of a mixture-of-experts layer.
struct MixtureOfExperts {
  int64_t experts = 0;
  int64_t topk = 2;
  int64_t router_groups = 1;      // Equal groups of experts, of which the router limits each
  int64_t router_group_topk = 0;  // token to so many; 0: no limit.
  int64_t ffn_hidden = 0;         // Width of one routed expert.
  int64_t shared_ffn_hidden = 0;  // Width of all shared experts together; 0: none.
  bool shared_gate = false;
  int64_t latent = 0;  // Width that experts work in; 0: the hidden size.
  bool router_bias = false;
  std::optional<double> capacity_factor;  // Absent: no token is dropped.
  bool pad_to_capacity = false;
  bool grouped_gemm = false;
};

enum class LayerKind { kDense, kMoe };

// Validated: all sizes are positive, divisions that the names imply are exact.
struct TransformerSpec {
  int64_t layers = 0;  // Decoder layers, multi-token prediction not counted.
  int64_t hidden = 0;
  int64_t ffn_hidden = 0;
  int64_t heads = 0;
  int64_t query_groups = 0;  // Equal to heads without grouped-query attention.
  int64_t head_dim = 0;      // kv_channels.
  bool qk_layernorm = false;
  bool attention_output_gate = false;
  std::optional<MultiLatentAttention> mla;
  bool gated_mlp = false;       // SwiGLU, or another gate.
  bool linear_bias = true;      // Biases in all linear layers.
  bool qkv_bias = true;         // Bias in the query, key and value projection.
  int64_t norm_parameters = 2;  // Per element of width: 2 for layer norm, 1 for RMS norm.
  int64_t seq_length = 0;
  int64_t max_positions = 0;
  bool learned_positions = true;        // A table of max_positions x hidden parameters.
  int64_t vocab = 0;                    // Before padding.
  int64_t vocab_divisor = 128;          // The padded vocabulary is a multiple of this times tp.
  std::optional<int64_t> padded_vocab;  // Given: used as it is.
  bool tied_embeddings = true;
  int64_t mtp_layers = 0;  // Multi-token prediction layers, of the last decoder layer's kind.
  std::optional<MixtureOfExperts> moe;
  std::vector<LayerKind> layer_kinds;  // One entry for each decoder layer.

  LayerKind kind(int64_t layer) const { return layer_kinds[layer]; }
  // Dense layers in front of the first one with experts; all layers where none has some.
  int64_t first_moe_layer() const {
    int64_t layer = 0;
    while (layer < layers && kind(layer) != LayerKind::kMoe) ++layer;
    return layer;
  }
  LayerKind mtp_kind() const { return layer_kinds.back(); }

  // Rows of the embedding table under a tensor parallel degree.
  int64_t PaddedVocab(int64_t tp) const {
    if (padded_vocab.has_value()) return *padded_vocab;
    const int64_t multiple = vocab_divisor * tp;
    return (vocab + multiple - 1) / multiple * multiple;
  }
};

}  // namespace hapmoe::model

#endif  // HAPMOE_CORE_MODEL_TRANSFORMER_SPEC_H_
