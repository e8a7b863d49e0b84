#include <cstdint>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/wire/from_wire.h"

namespace hapmoe::server {
namespace {

// Checks a list of arguments of the caller's; false if it is too large to go on with.
bool CheckArguments(const google::protobuf::RepeatedPtrField<std::string>& arguments,
                    const std::string& field, Violations& violations) {
  if (arguments.size() > kMaxArguments) {
    violations.push_back(
        {"arguments_in_range", field,
         absl::StrCat("At most ", kMaxArguments, " arguments, not ", arguments.size(), ".")});
    return false;
  }
  size_t bytes = 0;
  bool sound = true;
  for (int i = 0; i < arguments.size(); ++i) {
    bytes += arguments[i].size();
    if (arguments[i].size() > kMaxArgumentBytes) {
      violations.push_back(
          {"argument_short", absl::StrCat(field, "[", i, "]"),
           absl::StrCat("At most ", kMaxArgumentBytes, " bytes, not ", arguments[i].size(), ".")});
      sound = false;
    } else if (absl::StrContains(arguments[i], '\0')) {
      violations.push_back({"argument_without_zero_byte", absl::StrCat(field, "[", i, "]"),
                            "No process can be given an argument that holds a zero byte."});
      sound = false;
    }
  }
  if (bytes > kMaxArgumentsBytes) {
    violations.push_back(
        {"arguments_in_range", field,
         absl::StrCat("At most ", kMaxArgumentsBytes, " bytes in all, not ", bytes, ".")});
    return false;
  }
  return sound;
}

// Writes the argument list of a job in fields.
class StructuredJobWriter {
 public:
  StructuredJobWriter(const v1::StructuredJob& job, Violations& violations)
      : job_(job), violations_(violations) {}

  JobArguments Write() {
    WriteModel(job_.model());
    if (job_.model().has_moe()) WriteMoe(job_.model().moe());
    if (job_.model().has_mla()) WriteMla(job_.model().mla());
    WriteTraining(job_.training());
    WriteTokenizer();
    out_.megatron_args.insert(out_.megatron_args.end(), job_.extra_megatron_args().begin(),
                              job_.extra_megatron_args().end());
    return std::move(out_);
  }

 private:
  void Flag(const char* flag) { out_.megatron_args.emplace_back(flag); }
  void Value(const char* flag, std::string value) {
    Flag(flag);
    out_.megatron_args.push_back(std::move(value));
  }

  // A number that must be given.
  void Required(const char* flag, int32_t value, const char* field) {
    if (value < 1) Fault(field, absl::StrCat("Must be at least 1, not ", value, "."));
    Value(flag, absl::StrCat(value));
  }
  // A number for which 0 stands for the engine's default.
  void Optional(const char* flag, int32_t value, const char* field) {
    if (value < 0) Fault(field, absl::StrCat("Must not be negative, but is ", value, "."));
    if (value > 0) Value(flag, absl::StrCat(value));
  }
  void Fault(const char* field, std::string message) {
    violations_.push_back(
        {"structured_job_valid", absl::StrCat("job.structured.", field), std::move(message)});
  }

  void WriteModel(const v1::TransformerModel& model) {
    Required("--num-layers", model.num_layers(), "model.num_layers");
    Required("--hidden-size", model.hidden_size(), "model.hidden_size");
    Optional("--ffn-hidden-size", model.ffn_hidden_size(), "model.ffn_hidden_size");
    Required("--num-attention-heads", model.num_attention_heads(), "model.num_attention_heads");
    if (model.num_query_groups() != 0) Flag("--group-query-attention");
    Optional("--num-query-groups", model.num_query_groups(), "model.num_query_groups");
    Optional("--kv-channels", model.kv_channels(), "model.kv_channels");
    Required("--seq-length", model.seq_length(), "model.seq_length");
    Value("--max-position-embeddings", absl::StrCat(model.seq_length()));
    if (model.swiglu()) Flag("--swiglu");
    if (model.rms_norm()) Value("--normalization", "RMSNorm");
    if (model.disable_bias_linear()) Flag("--disable-bias-linear");
    if (model.untie_embeddings_and_output_weights()) Flag("--untie-embeddings-and-output-weights");
    Value("--position-embedding-type",
          model.rotary_position_embedding() ? "rope" : "learned_absolute");
    Optional("--mtp-num-layers", model.mtp_num_layers(), "model.mtp_num_layers");
  }

  void WriteMoe(const v1::MixtureOfExperts& moe) {
    Required("--num-experts", moe.num_experts(), "model.moe.num_experts");
    Required("--moe-router-topk", moe.router_topk(), "model.moe.router_topk");
    Optional("--moe-ffn-hidden-size", moe.ffn_hidden_size(), "model.moe.ffn_hidden_size");
    Optional("--moe-shared-expert-intermediate-size", moe.shared_expert_intermediate_size(),
             "model.moe.shared_expert_intermediate_size");
    const int32_t layers = job_.model().num_layers();
    const int32_t dense = moe.first_dense_layers();
    if (dense < 0 || dense > layers) {
      Fault("model.moe.first_dense_layers",
            absl::StrCat("Must be at least 0 and at most num_layers (", layers, "), not ", dense,
                         "."));
    } else if (dense > 0) {
      Value("--moe-layer-freq", absl::StrCat("([0]*", dense, "+[1]*", layers - dense, ")"));
    }
    if (moe.token_dispatcher().empty()) return;
    Choice("--moe-token-dispatcher-type", moe.token_dispatcher(), {"allgather", "alltoall", "flex"},
           "model.moe.token_dispatcher");
  }

  void WriteMla(const v1::MultiLatentAttention& mla) {
    Flag("--multi-latent-attention");
    Optional("--q-lora-rank", mla.q_lora_rank(), "model.mla.q_lora_rank");
    Required("--kv-lora-rank", mla.kv_lora_rank(), "model.mla.kv_lora_rank");
    Required("--qk-head-dim", mla.qk_head_dim(), "model.mla.qk_head_dim");
    Required("--qk-pos-emb-head-dim", mla.qk_pos_emb_head_dim(), "model.mla.qk_pos_emb_head_dim");
    Required("--v-head-dim", mla.v_head_dim(), "model.mla.v_head_dim");
  }

  void WriteTraining(const v1::Training& training) {
    Required("--global-batch-size", training.global_batch_size(), "training.global_batch_size");
    out_.any_micro_batch = training.micro_batch_size() == 0;
    Required("--micro-batch-size", out_.any_micro_batch ? 1 : training.micro_batch_size(),
             "training.micro_batch_size");
    const std::string& precision = training.precision();
    if (precision == "bf16" || precision == "fp16") {
      Flag(precision == "bf16" ? "--bf16" : "--fp16");
    } else if (precision != "fp32") {
      Fault("training.precision", "Must be \"bf16\", \"fp16\" or \"fp32\".");
    }
    if (training.distributed_optimizer()) Flag("--use-distributed-optimizer");
    if (training.overlap_grad_reduce()) Flag("--overlap-grad-reduce");
    if (training.overlap_param_gather()) Flag("--overlap-param-gather");
    if (training.optimizer_cpu_offload()) {
      // The engine offloads with this optimizer only.
      Flag("--optimizer-cpu-offload");
      Flag("--use-precision-aware-optimizer");
    }
  }

  void WriteTokenizer() {
    const int32_t vocab = job_.model().vocab_size();
    const bool chosen = absl::c_any_of(job_.extra_megatron_args(), [](const std::string& argument) {
      return argument == "--tokenizer-type" || absl::StartsWith(argument, "--tokenizer-type=");
    });
    if (!chosen) Value("--tokenizer-type", "NullTokenizer");
    Required("--vocab-size", vocab, "model.vocab_size");
  }

  void Choice(const char* flag, const std::string& value,
              std::initializer_list<absl::string_view> choices, const char* field) {
    if (!absl::c_linear_search(choices, value)) {
      Fault(field, "Must be \"allgather\", \"alltoall\" or \"flex\".");
      return;
    }
    Value(flag, value);
  }

  const v1::StructuredJob& job_;
  Violations& violations_;
  JobArguments out_;
};

std::string EntryFromWire(const v1::Job& wire, Violations& violations) {
  const std::string& entry = wire.entry();
  const bool printable = absl::c_all_of(
      entry, [](char c) { return !absl::ascii_iscntrl(static_cast<unsigned char>(c)); });
  if (entry.size() > kMaxEntryBytes || !printable || absl::StartsWith(entry, "-")) {
    violations.push_back(
        {"entry_valid", "job.entry",
         absl::StrCat("A script's path has at most ", kMaxEntryBytes,
                      " bytes, no control characters, and does not start with \"-\".")});
  }
  return entry.empty() ? kDefaultEntry : entry;
}

}  // namespace

JobArguments JobFromWire(const v1::Job& wire, Violations& violations) {
  JobArguments job;
  const bool args = wire.megatron_args_size() > 0;
  if (args == wire.has_structured()) {
    violations.push_back(
        {"job_given_once", "job",
         absl::StrCat("Exactly one of megatron_args and structured must be given, not ",
                      args ? "both." : "neither.")});
  } else if (args) {
    if (CheckArguments(wire.megatron_args(), "job.megatron_args", violations)) {
      job.megatron_args.assign(wire.megatron_args().begin(), wire.megatron_args().end());
    }
  } else if (CheckArguments(wire.structured().extra_megatron_args(),
                            "job.structured.extra_megatron_args", violations)) {
    job = StructuredJobWriter(wire.structured(), violations).Write();
  }
  job.entry = EntryFromWire(wire, violations);
  return job;
}

double ImbalanceQuantileFromWire(const v1::Job& wire, Violations& violations) {
  if (!wire.has_imbalance_quantile()) return model::kDefaultImbalanceQuantile;
  const double quantile = wire.imbalance_quantile();
  if (quantile >= 0 && quantile < 1) return quantile;  // Not so for a NaN.
  violations.push_back({"imbalance_quantile_in_range", "job.imbalance_quantile",
                        absl::StrCat("Must be at least 0 and below 1, not ", quantile, ".")});
  return model::kDefaultImbalanceQuantile;
}

std::shared_ptr<const model::RouterStatistics> RouterStatisticsFromWire(
    const v1::Job& wire, const model::TransformerSpec& model, Violations& violations) {
  constexpr char kField[] = "job.router_statistics.layers";
  if (!wire.has_router_statistics()) return nullptr;
  if (!model.moe.has_value()) {
    violations.push_back({"router_statistics_need_experts", "job.router_statistics",
                          "The model has no experts that tokens could be routed to."});
    return nullptr;
  }
  const int64_t layers = absl::c_count(model.layer_kinds, model::LayerKind::kMoe);
  if (wire.router_statistics().layers_size() != layers) {  // Told before they are copied.
    violations.push_back({"router_statistics_layers", kField,
                          absl::StrCat("The model has ", layers, " mixture-of-experts layers, not ",
                                       wire.router_statistics().layers_size(), ".")});
    return nullptr;
  }
  auto statistics = std::make_shared<model::RouterStatistics>();
  for (const v1::RouterStatistics::Layer& layer : wire.router_statistics().layers()) {
    statistics->layers.emplace_back(layer.expert_tokens().begin(), layer.expert_tokens().end());
  }
  Violations faults = model::Validate(*statistics, layers, model.moe->experts, kField);
  if (faults.empty()) return statistics;
  violations.insert(violations.end(), faults.begin(), faults.end());
  return nullptr;
}

}  // namespace hapmoe::server
