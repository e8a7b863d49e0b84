// The shape of the model from its options.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/engine/layer_pattern.h"
#include "core/engine/megatron_job_reading.h"

namespace hapmoe::engine {
namespace {

// Far above any model of today, far below what overflows.
constexpr int64_t kMaxWidth = 1 << 20;
constexpr int64_t kMaxHeads = 1 << 14;
constexpr int64_t kMaxSequence = 1 << 24;
constexpr int64_t kMaxVocabulary = 1 << 26;
constexpr int64_t kMaxExperts = 1 << 16;
constexpr int64_t kMaxMtpLayers = 64;
constexpr int64_t kMaxPatternSpan = int64_t{1} << 40;

// One option under either of two names; exactly one of them must be given.
std::optional<int64_t> OneOf(OptionValues& values, absl::string_view dest,
                             absl::string_view encoder_dest, int64_t most, Violations& violations) {
  if (!values.Has(encoder_dest)) return values.RequiredIntIn(dest, 1, most);
  if (values.Has(dest)) {
    violations.push_back(
        {"option_given_twice", FlagOf(dest),
         absl::StrCat(FlagOf(dest), " and ", FlagOf(encoder_dest), " exclude each other.")});
  }
  return values.RequiredIntIn(encoder_dest, 1, most);
}

void ReadAttention(OptionValues& values, MegatronJob& job) {
  model::TransformerSpec& model = job.model;
  model.heads = values.RequiredIntIn("num_attention_heads", 1, kMaxHeads).value_or(0);
  job.facts.grouped_query_attention = values.Flag("group_query_attention");
  model.query_groups = model.heads;
  if (job.facts.grouped_query_attention) {
    model.query_groups = values.IntIn("num_query_groups", 1, kMaxHeads).value_or(model.heads);
  }
  job.facts.head_dim_given = values.Has("kv_channels");
  model.head_dim = model.heads > 0 ? model.hidden / model.heads : 0;
  if (job.facts.head_dim_given) {
    model.head_dim = values.IntIn("kv_channels", 1, kMaxWidth).value_or(model.head_dim);
  }
  model.qk_layernorm = values.Flag("qk_layernorm");
  model.attention_output_gate = values.Flag("attention_output_gate");
  if (values.Flag("multi_latent_attention")) {
    model::MultiLatentAttention& mla = model.mla.emplace();
    mla.q_lora_rank = values.IntIn("q_lora_rank", 1, kMaxWidth);
    mla.kv_lora_rank = values.IntIn("kv_lora_rank", 1, kMaxWidth).value_or(mla.kv_lora_rank);
    mla.qk_head_dim = values.IntIn("qk_head_dim", 1, kMaxWidth).value_or(mla.qk_head_dim);
    mla.qk_pos_emb_head_dim =
        values.IntIn("qk_pos_emb_head_dim", 0, kMaxWidth).value_or(mla.qk_pos_emb_head_dim);
    mla.v_head_dim = values.IntIn("v_head_dim", 1, kMaxWidth).value_or(mla.v_head_dim);
  }
}

void ReadPositions(OptionValues& values, MegatronJob& job) {
  const std::string given = values.Text("position_embedding_type");
  // The engine asks this before --use-rotary-position-embeddings takes effect.
  job.facts.mtp_positions = given == "rope" || given == "none";
  job.model.learned_positions =
      given == "learned_absolute" && !values.Flag("use_rotary_position_embeddings");
}

void ReadVocabulary(OptionValues& values, MegatronJob& job) {
  model::TransformerSpec& model = job.model;
  model.vocab_divisor =
      values.IntIn("make_vocab_size_divisible_by", 1, kMaxVocabulary).value_or(128);
  model.padded_vocab = values.IntIn("padded_vocab_size", 1, kMaxVocabulary);
  std::string tokenizer = values.Text("tokenizer_type");
  if (tokenizer.empty()) tokenizer = "GPT2BPETokenizer";
  if (values.Has("vocab_size")) {
    model.vocab = values.IntIn("vocab_size", 1, kMaxVocabulary).value_or(0);
  } else if (model.padded_vocab.has_value()) {
    model.vocab = *model.padded_vocab;
  } else if (tokenizer == "Llama2Tokenizer") {
    model.vocab = 32000;
  } else if (tokenizer == "Llama3Tokenizer") {
    model.vocab = 128256;
  } else {
    model.vocab = 50257;
    if (tokenizer != "GPT2BPETokenizer") {
      job.notes.push_back(absl::StrCat(
          "The vocabulary of ", tokenizer,
          " is in files that are not at hand; 50257 is assumed. Give --vocab-size to set it."));
    }
  }
  if (!values.Flag("pad_vocab_size") && !model.padded_vocab.has_value() && model.vocab > 0) {
    model.padded_vocab = model.vocab;
  }
  model.tied_embeddings = !values.Flag("untie_embeddings_and_output_weights");
}

void ReadExperts(OptionValues& values, MegatronJob& job) {
  plan::EngineFacts& facts = job.facts;
  facts.router_topk = values.IntIn("moe_router_topk", 1, kMaxExperts).value_or(2);
  facts.expert_width_given = values.Has("moe_ffn_hidden_size");
  facts.pad_to_capacity = values.Flag("moe_pad_expert_input_to_capacity");
  facts.capacity_factor = values.Float("moe_expert_capacity_factor").value_or(-1) >= 0;
  facts.grouped_gemm = values.Flag("moe_grouped_gemm");
  facts.shared_experts = values.Has("moe_shared_expert_intermediate_size");
  const int64_t shared_width =
      values.IntIn("moe_shared_expert_intermediate_size", 1, kMaxWidth).value_or(0);
  const int64_t experts = values.IntIn("num_experts", 0, kMaxExperts).value_or(0);
  if (experts == 0) return;
  model::MixtureOfExperts& moe = job.model.moe.emplace();
  moe.experts = experts;
  moe.topk = facts.router_topk;
  moe.router_groups =
      std::max<int64_t>(1, values.IntIn("moe_router_num_groups", 0, kMaxExperts).value_or(1));
  moe.router_group_topk = values.IntIn("moe_router_group_topk", 0, kMaxExperts).value_or(0);
  moe.ffn_hidden = values.IntIn("moe_ffn_hidden_size", 1, kMaxWidth).value_or(job.model.ffn_hidden);
  moe.shared_ffn_hidden = shared_width;
  moe.shared_gate = moe.shared_ffn_hidden > 0 && values.Flag("moe_shared_expert_gate");
  moe.latent = values.IntIn("moe_latent_size", 1, kMaxWidth).value_or(0);
  moe.router_bias = job.model.linear_bias;
  if (facts.capacity_factor) {  // A negative one means none.
    moe.capacity_factor = values.FloatIn("moe_expert_capacity_factor", 0, 1e6);
  }
  moe.pad_to_capacity = facts.pad_to_capacity;
  moe.grouped_gemm = facts.grouped_gemm;
}

// Which layers hold experts: every n-th from the first, or as a list says.
void ReadLayerKinds(OptionValues& values, MegatronJob& job, Violations& violations) {
  model::TransformerSpec& model = job.model;
  model.layer_kinds.assign(static_cast<size_t>(model.layers), model::LayerKind::kDense);
  if (!model.moe.has_value()) return;
  const std::string text = values.Text("moe_layer_freq");
  const auto fault = [&](absl::string_view what) {
    violations.push_back({"layer_pattern_invalid", "--moe-layer-freq",
                          absl::StrCat("--moe-layer-freq is ", Quoted(text), "; ", what, ".")});
  };
  if (text.find('[') == std::string::npos) {
    // Python's remainder is 0 for the same layers whatever the sign.
    const int64_t written = values.Int("moe_layer_freq").value_or(1);
    if (written == 0) return fault("every 0th layer is none");
    const int64_t every = written < -kMaxPatternSpan ? kMaxPatternSpan : std::abs(written);
    for (int64_t i = 0; i < model.layers; i += std::min(every, model.layers)) {
      model.layer_kinds[static_cast<size_t>(i)] = model::LayerKind::kMoe;
    }
    return;
  }
  const auto pattern = EvaluateLayerPattern(text);
  if (!pattern.has_value()) return;  // Reported when the arguments were read.
  job.facts.layer_pattern_length = static_cast<int64_t>(pattern->size());
  for (size_t i = 0; i < pattern->size(); ++i) {
    if ((*pattern)[i] != 0 && (*pattern)[i] != 1) return fault("every layer must be 0 or 1");
    if (i < model.layer_kinds.size() && (*pattern)[i] == 1) {
      model.layer_kinds[i] = model::LayerKind::kMoe;
    }
  }
}

// Every size is bounded by itself; this bounds what they make together, so that parameters, bytes
// and FLOPs stay far inside 64 bits and the range of exact doubles.
void CheckTotalSize(const model::TransformerSpec& model, Violations& violations) {
  const double hidden = static_cast<double>(model.hidden);
  double layer = 3 * hidden * static_cast<double>(model.ffn_hidden) +
                 4 * hidden * static_cast<double>(model.heads * model.head_dim);
  if (model.moe.has_value()) {
    layer += 3 * hidden * static_cast<double>(model.moe->experts) *
             static_cast<double>(model.moe->ffn_hidden);
  }
  const double parameters = layer * static_cast<double>(model.layers + model.mtp_layers) +
                            2 * hidden * static_cast<double>(model.vocab);
  const double scores = static_cast<double>(model.heads) * static_cast<double>(model.seq_length) *
                        static_cast<double>(model.seq_length);
  if (parameters <= 1e15 && scores <= 1e17) return;
  violations.push_back(
      {"model_too_large", "--num-layers",
       absl::StrCat("The model has about ", parameters, " parameters and ", scores,
                    " attention scores in a layer; at most 1e15 and 1e17 can be planned.")});
}

}  // namespace

void ReadModel(OptionValues& values, MegatronJob& job, Violations& violations) {
  model::TransformerSpec& model = job.model;
  model.layers =
      OneOf(values, "num_layers", "encoder_num_layers", kMaxPatternLayers, violations).value_or(0);
  model.hidden = values.RequiredIntIn("hidden_size", 1, kMaxWidth).value_or(0);
  model.seq_length =
      OneOf(values, "seq_length", "encoder_seq_length", kMaxSequence, violations).value_or(0);
  model.max_positions =
      values.RequiredIntIn("max_position_embeddings", 1, int64_t{1} << 30).value_or(0);
  model.gated_mlp = values.Flag("swiglu") || values.Flag("quick_geglu");
  // With SwiGLU two thirds of the width, in whole multiples of 64: three matrices in place of two.
  const int64_t default_width =
      values.Flag("swiglu") ? model.hidden * 8 / 3 / 64 * 64 : 4 * model.hidden;
  model.ffn_hidden = default_width;
  if (values.Has("ffn_hidden_size")) {
    model.ffn_hidden = values.IntIn("ffn_hidden_size", 1, 4 * kMaxWidth).value_or(default_width);
  }
  model.linear_bias = values.Flag("add_bias_linear");
  model.qkv_bias = model.linear_bias || values.Flag("add_qkv_bias");
  model.norm_parameters = values.Text("normalization") == "RMSNorm" ? 1 : 2;
  model.mtp_layers = values.IntIn("mtp_num_layers", 0, kMaxMtpLayers).value_or(0);
  ReadAttention(values, job);
  ReadPositions(values, job);
  ReadVocabulary(values, job);
  ReadExperts(values, job);
  ReadLayerKinds(values, job, violations);
  CheckTotalSize(model, violations);
}

}  // namespace hapmoe::engine
