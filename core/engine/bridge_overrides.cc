#include "core/engine/bridge_overrides.h"

#include <cstdint>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "core/base/status_macros.h"
#include "core/engine/layer_pattern.h"
#include "core/engine/value_translation.h"

namespace hapmoe::engine {
namespace {

// Where an option stands in Bridge's configuration.
struct BridgeField {
  absl::string_view dest;
  absl::string_view path;
  bool inverted;  // The field says the opposite.
};

const BridgeField* FindField(absl::string_view dest) {
  static constexpr BridgeField kFields[] = {
#include "core/engine/bridge_fields.inc"
  };
  static const auto& fields = *[] {
    auto* made = new absl::flat_hash_map<absl::string_view, const BridgeField*>;
    for (const BridgeField& field : kFields) made->emplace(field.dest, &field);
    return made;
  }();
  const auto found = fields.find(dest);
  return found == fields.end() ? nullptr : found->second;
}

// Of the recipe and its provider, where it is not Megatron-LM's default: what the job runs with if
// it does not say so itself.
struct Default {
  absl::string_view dest;
  absl::string_view override;
};
constexpr Default kDefaults[] = {
    {"cross_entropy_loss_fusion", "model.cross_entropy_loss_fusion=false"},
    {"bias_dropout_fusion", "model.bias_dropout_fusion=true"},
    {"apply_rope_fusion", "model.apply_rope_fusion=true"},
    {"no_persist_layer_norm", "model.persist_layer_norm=true"},
    {"weight_decay", "optimizer.weight_decay=0.01"},
    {"adam_beta2", "optimizer.adam_beta2=0.999"},
    {"min_lr", "optimizer.min_lr=0.0"},
    {"lr_decay_style", "scheduler.lr_decay_style=\"linear\""},
    {"lr_wsd_decay_style", "scheduler.lr_wsd_decay_style=\"exponential\""},
    {"lr_warmup_iters", "scheduler.lr_warmup_iters=0"},
    {"override_opt_param_scheduler", "scheduler.override_opt_param_scheduler=false"},
    {"save", "checkpoint.save=null"},
    {"use_persistent_ckpt_worker", "checkpoint.use_persistent_ckpt_worker=false"},
    {"eval_iters", "validation.eval_iters=100"},
    {"log_interval", "logger.log_interval=100"},
    {"tensorboard_dir", "logger.tensorboard_dir=null"},
    {"split", "dataset.split=\"969, 30, 1\""},
};

// Options without a field that change nothing there: what they ask for is so in any case, or is
// said by another option.
bool IsSaidOtherwise(absl::string_view dest) {
  static const auto& dests = *new absl::flat_hash_set<absl::string_view>{
      "add_position_embedding", "bf16", "bias_gelu_fusion", "bias_swiglu_fusion", "data_path",
      "deprecated_use_mcore_models", "enable_one_logger", "fp16", "group_query_attention",
      "max_position_embeddings", "mock_data", "moe_layer_freq", "num_query_groups", "optimizer",
      "overlap_p2p_comm", "position_embedding_type", "quick_geglu", "seq_length", "squared_relu",
      "swiglu", "transformer_impl", "use_distributed_optimizer", "use_flash_attn",
      // Bridge always has the plan's; see PlanOverrides.
      "global_batch_size", "micro_batch_size"};
  return dests.contains(dest);
}

bool IsLatentAttention(absl::string_view dest) {
  static const auto& dests =
      *new absl::flat_hash_set<absl::string_view>{"cache_mla_latents",     "kv_lora_rank",
                                                  "mla_down_proj_fusion",  "mscale",
                                                  "mscale_all_dim",        "multi_latent_attention",
                                                  "q_lora_rank",           "qk_head_dim",
                                                  "qk_pos_emb_head_dim",   "rope_type",
                                                  "rotary_scaling_factor", "v_head_dim"};
  return dests.contains(dest);
}

// In a quoted string of Hydra a quote, a backslash and an interpolation are read.
absl::StatusOr<std::string> Quote(const Argument& argument, const std::string& text) {
  const bool read = absl::StrContains(text, "${") || absl::c_any_of(text, [](unsigned char c) {
                      return c < ' ' || c == 127 || c == '"' || c == '\\';
                    });
  if (read) {
    return absl::InvalidArgumentError(absl::StrCat(
        "The value of ", argument.flag,
        " holds characters that Megatron-Bridge's overrides would read: ", Quoted(text)));
  }
  return absl::StrCat("\"", text, "\"");
}

absl::StatusOr<std::string> Scalar(const Argument& argument, const std::string& text) {
  switch (argument.option->type) {
    case ValueType::kInt: {
      int64_t value = 0;
      if (ParsePythonInt(text, &value)) return absl::StrCat(value);
      break;
    }
    case ValueType::kFloat:
      if (IsPlainFloat(text)) return text;
      break;
    default:
      break;
  }
  return Quote(argument, text);
}

// `inverted`: of a switch that the engine has the other way round.
absl::StatusOr<std::string> ValueOf(const Argument& argument, bool inverted) {
  HAPMOE_ASSIGN_OR_RETURN(std::string value, TranslatedValue(argument, Scalar, ","));
  if (inverted && argument.option->arity == Arity::kNone) return value == "true" ? "false" : "true";
  return value;
}

// Writes the overrides of one job.
class Translation {
 public:
  Translation(const Arguments& arguments, const plan::Plan& plan)
      : arguments_(arguments), plan_(plan) {}

  absl::StatusOr<BridgeOverrides> Run() {
    const PlannedArguments planned = PlanArguments(arguments_, plan_);
    result_.arguments.withdrawn = planned.withdrawn;
    result_.arguments.stage_recompute = planned.stage_recompute;
    HAPMOE_RETURN_IF_ERROR(JobOverrides(planned));
    HAPMOE_RETURN_IF_ERROR(PlanOverrides(planned));
    for (const Words& words : planned.recompute) {
      result_.arguments.recompute.push_back(RecomputeOverrides(words));
    }
    return std::move(result_);
  }

 private:
  bool Has(absl::string_view dest) const { return arguments_.Find(dest) != nullptr; }

  std::string Text(absl::string_view dest) const {
    const Argument* argument = arguments_.Find(dest);
    return argument == nullptr || argument->values.empty() ? "" : argument->values.front();
  }

  void Add(std::string override) { result_.arguments.job.push_back({std::move(override)}); }

  absl::Status Add(const Argument& argument, absl::string_view path, bool inverted = false) {
    HAPMOE_ASSIGN_OR_RETURN(const std::string value, ValueOf(argument, inverted));
    Add(absl::StrCat(path, "=", value));
    return absl::OkStatus();
  }

  void Beyond(std::string what) {
    if (absl::c_linear_search(result_.beyond_recipe, what)) return;
    result_.beyond_recipe.push_back(std::move(what));
  }

  absl::Status JobOverrides(const PlannedArguments& planned) {
    result_.arguments.job = {{"--recipe", kBridgeRecipe}, {"--mode", "pretrain"}};
    if (Has("mock_data")) result_.arguments.job.push_back({"--dataset", "mock"});
    for (const Words& words : planned.job) {
      const Argument argument = ArgumentOf(words);
      const absl::string_view dest = argument.option->dest;
      // Of an option that is repeated the last one alone counts.
      if (arguments_.Find(dest)->values != argument.values) continue;
      if (IsLatentAttention(dest)) {
        Beyond("it has multi-latent attention");
      } else if (const BridgeField* field = FindField(dest); field != nullptr) {
        if (!IsSaidOtherwise(dest)) {
          HAPMOE_RETURN_IF_ERROR(Add(argument, field->path, field->inverted));
        }
      } else if (!IsSaidOtherwise(dest)) {
        Beyond(absl::StrCat("it has no field for ", argument.flag));
      }
    }
    HAPMOE_RETURN_IF_ERROR(Shape());
    HAPMOE_RETURN_IF_ERROR(Data());
    Training();
    for (const Default& item : kDefaults) {
      const bool unused = item.dest == "split" && !Has("data_path");
      if (!Has(item.dest) && !unused) Add(std::string(item.override));
    }
    return absl::OkStatus();
  }

  // What several options of Megatron-LM say together (core_transformer_config_from_args).
  absl::Status Shape() {
    const bool gated = Has("swiglu");
    if (gated || Has("quick_geglu")) {
      Add("model.gated_linear_unit=true");
      Add(gated ? "model.activation_func=\"silu\"" : "model.activation_func=\"quick_gelu\"");
    } else if (Has("squared_relu")) {
      Add("model.activation_func=\"squared_relu\"");
    }
    const bool fused = !Has(gated ? "bias_swiglu_fusion" : "bias_gelu_fusion");
    Add(absl::StrCat("model.bias_activation_fusion=", fused ? "true" : "false"));
    if (Has("group_query_attention")) {
      const std::string groups = Text("num_query_groups");
      Add(absl::StrCat("model.num_query_groups=", groups.empty() ? "1" : groups));
    }
    const std::string kind = Text("position_embedding_type");
    if (kind == "rope") {
      Add("model.position_embedding_type=\"rope\"");
    } else if (!kind.empty() && kind != "learned_absolute") {
      Beyond(absl::StrCat("its positions are of type ", kind));
    } else if (Text("max_position_embeddings") != Text("seq_length")) {
      Beyond("it learns positions beyond its sequences");
    }
    if (Has("transformer_impl") && Text("transformer_impl") != "transformer_engine") {
      Beyond("it runs without Transformer Engine");
    }
    const std::string optimizer = Text("optimizer");
    if (!optimizer.empty() && optimizer != "adam") {
      Beyond(absl::StrCat("its optimizer is ", optimizer));
    }
    const std::string pattern = Text("moe_layer_freq");
    if (Has("num_experts") && !pattern.empty()) {
      int64_t frequency = 0;
      const auto layers = EvaluateLayerPattern(pattern);
      const bool all =
          ParsePythonInt(pattern, &frequency)
              ? frequency == 1
              : layers.has_value() && absl::c_all_of(*layers, [](int64_t moe) { return moe == 1; });
      // The provider gives all layers the same specification.
      if (!all) Beyond("it has layers with and without experts");
    }
    return absl::OkStatus();
  }

  absl::Status Data() {
    const Argument* path = arguments_.Find("data_path");
    if (path == nullptr || Has("mock_data")) return absl::OkStatus();
    return Add(*path, "dataset.data_path");
  }

  void Training() {
    if (Has("bf16") || Has("fp16")) {
      Add(Has("bf16") ? "mixed_precision=\"bf16_mixed\"" : "mixed_precision=\"fp16_mixed\"");
    } else {
      Beyond("it trains in fp32");
    }
    const char* distributed = Has("use_distributed_optimizer") ? "true" : "false";
    Add(absl::StrCat("optimizer.use_distributed_optimizer=", distributed));
    Add(absl::StrCat("ddp.use_distributed_optimizer=", distributed));
    // Megatron-LM starts and ends with the constant one; the recipe has numbers of its own.
    const std::string decay = Has("weight_decay") ? Text("weight_decay") : "0.01";
    for (const char* end : {"start_weight_decay", "end_weight_decay"}) {
      if (!Has(end)) Add(absl::StrCat("scheduler.", end, "=", decay));
    }
  }

  absl::Status PlanOverrides(const PlannedArguments& planned) {
    std::vector<Words>& words = result_.arguments.plan;
    const auto set = [&words](absl::string_view path, absl::string_view value) {
      words.push_back({absl::StrCat(path, "=", value)});
    };
    absl::flat_hash_set<std::string> said;
    const auto translate = [&](const Argument& argument) -> absl::Status {
      const BridgeField* field = FindField(argument.option->dest);
      if (field == nullptr)
        return absl::InternalError("the plan sets what Bridge has no field for");
      HAPMOE_ASSIGN_OR_RETURN(const std::string value, ValueOf(argument, field->inverted));
      set(field->path, value);
      said.insert(std::string(field->path));
      return absl::OkStatus();
    };
    for (const Words& option : planned.plan) {
      HAPMOE_RETURN_IF_ERROR(translate(ArgumentOf(option)));
    }
    // What is not said above, and a recipe may say otherwise.
    const int64_t virtual_stages = plan_.virtual_stages();
    const std::pair<absl::string_view, std::string> rest[] = {
        {"model.pipeline_model_parallel_layout", "null"},
        {"model.virtual_pipeline_model_parallel_size",
         virtual_stages > 1 ? absl::StrCat(virtual_stages) : "null"},
        {"model.microbatch_group_size_per_vp_stage", "null"},
        {"model.num_layers_in_first_pipeline_stage", "null"},
        {"model.num_layers_in_last_pipeline_stage", "null"},
        {"model.account_for_embedding_in_pipeline_split", "false"},
        {"model.account_for_loss_in_pipeline_split", "false"},
        {"model.sequence_parallel", "false"},
        {"model.expert_model_parallel_size", "1"},
        {"dist.use_tp_pp_dp_mapping", "false"},
        {"train.micro_batch_size", absl::StrCat(plan_.micro_batch)},
        {"train.global_batch_size", absl::StrCat(plan_.global_batch)},
    };
    for (const auto& [path, value] : rest) {
      if (!said.contains(std::string(path))) set(path, value);
    }
    // Megatron-LM overlaps transfers with an interleaved schedule only.
    const bool overlaps = virtual_stages > 1 && !Has("overlap_p2p_comm");
    set("model.overlap_p2p_comm", overlaps ? "true" : "false");
    set("model.batch_p2p_comm", overlaps ? "false" : "true");
    if (const std::string length = Text("seq_length"); !length.empty()) {
      set("dataset.seq_length", length);
      set("model.seq_length", length);
    }
    return absl::OkStatus();
  }

  static Words RecomputeOverrides(const Words& options) {
    absl::flat_hash_map<absl::string_view, std::string> values;
    for (size_t i = 0; i < options.size(); ++i) {
      if (options[i] == "--distribute-saved-activations") {
        values["distribute"] = "true";
      } else if (options[i] == "--recompute-modules") {
        const std::vector<std::string> modules(options.begin() + static_cast<long>(i) + 1,
                                               options.end());
        values["modules"] = absl::StrCat("[\"", absl::StrJoin(modules, "\",\""), "\"]");
        break;
      } else if (i + 1 < options.size()) {
        const bool number = options[i] == "--recompute-num-layers";
        const char* quote = number ? "" : "\"";
        const absl::string_view key = number                               ? "num_layers"
                                      : options[i] == "--recompute-method" ? "method"
                                                                           : "granularity";
        values[key] = absl::StrCat(quote, options[i + 1], quote);
        ++i;
      }
    }
    Words words;
    for (const char* key : {"granularity", "method", "num_layers", "modules"}) {
      const auto found = values.find(key);
      words.push_back(absl::StrCat("model.recompute_", key, "=",
                                   found == values.end() ? "null" : found->second));
    }
    words.push_back(absl::StrCat("model.distribute_saved_activations=",
                                 values.contains("distribute") ? "true" : "false"));
    return words;
  }

  const Arguments& arguments_;
  const plan::Plan& plan_;
  BridgeOverrides result_;
};

}  // namespace

absl::StatusOr<BridgeOverrides> BridgeOverridesOf(const Arguments& arguments,
                                                  const plan::Plan& plan) {
  return Translation(arguments, plan).Run();
}

}  // namespace hapmoe::engine
