// Rules about recomputation and the offloading of activations.
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/plan/megatron_rules_table.h"

namespace hapmoe::plan {
namespace {

using C = const RuleContext&;
using Granularity = model::Recompute::Granularity;
using Method = model::Recompute::Method;
using absl::StrCat;

bool Full(C c) { return c.training->recompute.granularity == Granularity::kFull; }
bool Selective(C c) { return c.training->recompute.granularity == Granularity::kSelective; }
bool FullAsWritten(C c) { return c.facts->recompute_options && Full(c); }
bool SelectiveAsWritten(C c) { return c.facts->recompute_options && Selective(c); }
bool Recomputes(C c, uint32_t module) {
  return Selective(c) && (c.training->recompute.modules & module) != 0;
}

// Uniform recomputation with a number of layers to go by.
bool Uniform(C c) {
  return Full(c) && c.training->recompute.method == Method::kUniform &&
         (!c.facts->recompute_options ||
          (c.facts->recompute_method.has_value() && c.facts->recompute_layers.has_value()));
}

// True if a CUDA graph captures these modules: the whole layer, or one of the listed ones.
bool Graphs(C c, absl::string_view module) {
  if (c.facts->cuda_graph == "none") return false;
  if (c.facts->cuda_graph == "full_iteration" || c.facts->cuda_graph_modules.empty()) return true;
  for (const std::string& given : c.facts->cuda_graph_modules) {
    if (given == module) return true;
  }
  return false;
}

constexpr Rule kRules[] = {
    {"full_recompute_needs_method", "core/transformer/transformer_config.py:1914",
     "--recompute-method", kRecomputeScope,
     [](C c) { return !FullAsWritten(c) || c.facts->recompute_method.has_value(); },
     [](C) {
       return std::string(
           "Full recomputation needs --recompute-method, which is uniform or block.");
     }},
    {"full_recompute_needs_layers", "core/transformer/transformer_config.py:1920",
     "--recompute-num-layers", kRecomputeScope,
     [](C c) { return !FullAsWritten(c) || c.facts->recompute_layers.has_value(); },
     [](C) { return std::string("Full recomputation needs --recompute-num-layers."); }},
    {"selective_recompute_excludes_method", "training/arguments.py:1426", "--recompute-method",
     kRecomputeScope,
     [](C c) { return !SelectiveAsWritten(c) || !c.facts->recompute_method.has_value(); },
     [](C) { return std::string("Selective recomputation takes no --recompute-method."); }},
    {"selective_recompute_excludes_layers", "core/transformer/transformer_config.py:1929",
     "--recompute-num-layers", kRecomputeScope,
     [](C c) { return !SelectiveAsWritten(c) || !c.facts->recompute_layers.has_value(); },
     [](C c) {
       return StrCat("Selective recomputation takes no --recompute-num-layers, which is ",
                     c.facts->recompute_layers.value_or(0), ".");
     }},
    {"uniform_recompute_needs_layers", "core/recompute.py:157", "--recompute-num-layers",
     kRecomputeScope, [](C c) { return !Uniform(c) || c.training->recompute.num_layers >= 1; },
     [](C c) {
       return StrCat("Uniform recomputation in runs of ", c.training->recompute.num_layers,
                     " layers never ends; --recompute-num-layers must be at least 1.");
     }},
    {"uniform_recompute_of_mtp_takes_one_layer", "core/transformer/multi_token_prediction.py:1621",
     "--recompute-num-layers", kRecomputeScope,
     [](C c) {
       return !Uniform(c) || c.model->mtp_layers <= 0 || c.training->recompute.num_layers <= 1;
     },
     [](C c) {
       return StrCat(
           "With multi-token prediction, uniform recomputation takes "
           "--recompute-num-layers 1, not ",
           c.training->recompute.num_layers, ".");
     }},
    {"recompute_modules_known", "core/transformer/transformer_config.py:1959",
     "--recompute-modules", kRecomputeScope,
     [](C c) { return !Selective(c) || c.facts->unknown_recompute_modules.empty(); },
     [](C c) {
       return StrCat("Selective recomputation knows no module ",
                     absl::StrJoin(c.facts->unknown_recompute_modules, ", "),
                     "; it knows core_attn, moe_act, layernorm, mla_up_proj, mlp, moe, "
                     "shared_experts, gdn_norm_out, gdp_in_proj, gdp_qkv and mhc.");
     }},
    {"expert_activation_recompute_needs_grouped_gemm",
     "core/transformer/transformer_config.py:1965", "--recompute-modules", kRecomputeScope,
     [](C c) {
       return !Recomputes(c, model::kRecomputeMoeActivation) || c.facts->grouped_gemm ||
              (c.model->moe.has_value() && c.model->moe->grouped_gemm);
     },
     [](C) { return std::string("Recomputing moe_act needs --moe-grouped-gemm."); }},
    {"mla_recompute_needs_mla", "core/transformer/transformer_config.py:1970",
     "--recompute-modules", kRecomputeScope,
     [](C c) {
       return !Recomputes(c, model::kRecomputeMlaUpProjection) || c.model->mla.has_value();
     },
     [](C) { return std::string("Recomputing mla_up_proj needs --multi-latent-attention."); }},
    {"gdn_recompute_needs_gdn", "core/transformer/transformer_config.py:1978",
     "--recompute-modules", kRecomputeScope,
     [](C c) {
       return !Selective(c) || !c.facts->recompute_gdn_norm ||
              c.facts->linear_key_heads.has_value();
     },
     [](C) { return std::string("Recomputing gdn_norm_out needs gated delta net attention."); }},
    {"shared_expert_recompute_excludes_overlap", "core/transformer/transformer_config.py:1996",
     "--recompute-modules", kRecomputeScope,
     [](C c) {
       return !Recomputes(c, model::kRecomputeSharedExperts) ||
              !c.training->overlap.shared_expert ||
              (!c.facts->shared_experts &&
               (!c.model->moe.has_value() || c.model->moe->shared_ffn_hidden == 0));
     },
     [](C) {
       return std::string("Recomputing shared_experts excludes --moe-shared-expert-overlap.");
     }},
    {"delayed_fp8_excludes_norm_recompute", "core/transformer/transformer_config.py:2003",
     "--recompute-modules", kRecomputeScope,
     [](C c) {
       return !c.training->fp8 || c.facts->fp8_recipe != "delayed" ||
              !Recomputes(c, model::kRecomputeMoeActivation | model::kRecomputeLayerNorm);
     },
     [](C) {
       return std::string("Recomputing moe_act or layernorm excludes --fp8-recipe delayed.");
     }},
    {"full_recompute_excludes_moe_layer_recompute", "core/transformer/transformer_config.py:2020",
     "--moe-layer-recompute", kRecomputeScope,
     [](C c) { return !c.facts->moe_layer_recompute || !Full(c); },
     [](C) { return std::string("Full recomputation excludes --moe-layer-recompute."); }},
    {"distributed_activations_need_tensor_parallel", "training/arguments.py:1411",
     "--distribute-saved-activations", kRecomputeScope,
     [](C c) { return !c.facts->distribute_saved_activations || c.parallel->tp > 1; },
     [](C) {
       return std::string("--distribute-saved-activations needs a tensor parallel size above 1.");
     }},
    {"distributed_activations_need_full_recompute", "training/arguments.py:1414",
     "--distribute-saved-activations", kRecomputeScope,
     [](C c) { return !c.facts->distribute_saved_activations || Full(c); },
     [](C) {
       return std::string("--distribute-saved-activations needs --recompute-granularity full.");
     }},
    {"distributed_activations_exclude_sequence_parallel",
     "core/transformer/transformer_config.py:1935", "--distribute-saved-activations",
     kRecomputeScope,
     [](C c) { return !c.facts->distribute_saved_activations || !c.sequence_parallel(); },
     [](C) { return std::string("--distribute-saved-activations excludes --sequence-parallel."); }},
    {"cpu_offload_within_layers", "core/transformer/transformer_config.py:1887",
     "--cpu-offloading-num-layers", kJobScope,
     [](C c) {
       return c.facts->cpu_offload_layers <= 0 || c.facts->cpu_offload_layers < c.model->layers;
     },
     [](C c) {
       return StrCat("Activations of ", c.facts->cpu_offload_layers,
                     " layers are to be offloaded; it must be fewer than the ", c.model->layers,
                     " layers of the model.");
     }},
    {"cpu_offload_excludes_pipeline", "core/transformer/transformer_config.py:1892",
     "--cpu-offloading-num-layers", kDegreesScope,
     [](C c) { return c.facts->cpu_offload_layers <= 0 || c.parallel->pp <= 1; },
     [](C c) {
       return StrCat("Offloading activations excludes pipeline parallelism, but the size is ",
                     c.parallel->pp, ".");
     }},
    {"cpu_offload_excludes_recompute", "core/transformer/transformer_config.py:1897",
     "--cpu-offloading-num-layers", kRecomputeScope,
     [](C c) {
       return c.facts->cpu_offload_layers <= 0 ||
              c.training->recompute.granularity == Granularity::kNone;
     },
     [](C) { return std::string("Offloading activations excludes recomputation."); }},
    {"fine_grained_offload_excludes_cpu_offload", "core/transformer/transformer_config.py:2130",
     "--fine-grained-activation-offloading", kJobScope,
     [](C c) { return !c.facts->fine_grained_offload || c.facts->cpu_offload_layers <= 0; },
     [](C) {
       return std::string(
           "--fine-grained-activation-offloading excludes --cpu-offloading-num-layers.");
     }},
    {"fine_grained_offload_needs_transformer_engine", "training/arguments.py:1936",
     "--fine-grained-activation-offloading", kJobScope,
     [](C c) { return !c.facts->fine_grained_offload || c.facts->transformer_engine; },
     [](C) {
       return std::string(
           "--fine-grained-activation-offloading needs --transformer-impl "
           "transformer_engine.");
     }},
    {"fine_grained_offload_variable", "training/arguments.py:1938", "NVTE_CPU_OFFLOAD_V1",
     kEnvironmentScope,
     [](C c) {
       if (!c.facts->fine_grained_offload || c.environment == nullptr) return true;
       const auto found = c.environment->find("NVTE_CPU_OFFLOAD_V1");
       return found != c.environment->end() && found->second == "1";
     },
     [](C) {
       return std::string(
           "--fine-grained-activation-offloading needs the environment variable "
           "NVTE_CPU_OFFLOAD_V1 to be 1.");
     }},
    {"cuda_graph_excludes_full_recompute", "core/transformer/transformer_config.py:2857",
     "--cuda-graph-impl", kRecomputeScope,
     [](C c) {
       return !Full(c) || c.facts->cuda_graph == "none" || c.facts->cuda_graph == "full_iteration";
     },
     [](C c) {
       return StrCat("Full recomputation needs --cuda-graph-impl none or full_iteration, not ",
                     c.facts->cuda_graph, ".");
     }},
    {"cuda_graph_excludes_attention_dropout_recompute",
     "core/transformer/transformer_config.py:2889", "--cuda-graph-impl", kRecomputeScope,
     [](C c) {
       return c.training->attention_dropout == 0 || !Graphs(c, "attn") ||
              !Recomputes(c, model::kRecomputeCoreAttention);
     },
     [](C c) {
       return StrCat("Recomputing core_attn inside a CUDA graph needs --attention-dropout 0, not ",
                     c.training->attention_dropout, ".");
     }},
    {"cuda_graph_excludes_hidden_dropout_recompute", "core/transformer/transformer_config.py:2898",
     "--cuda-graph-impl", kRecomputeScope,
     [](C c) {
       if (c.training->hidden_dropout == 0) return true;
       return !(Graphs(c, "mlp") && Recomputes(c, model::kRecomputeMlp)) &&
              !(Graphs(c, "moe") && Recomputes(c, model::kRecomputeMoe));
     },
     [](C c) {
       return StrCat("Recomputing mlp or moe inside a CUDA graph needs --hidden-dropout 0, not ",
                     c.training->hidden_dropout, ".");
     }},
    {"cuda_graph_of_router_excludes_moe_recompute", "core/transformer/transformer_config.py:2869",
     "--cuda-graph-modules", kRecomputeScope,
     [](C c) {
       return c.facts->cuda_graph != "transformer_engine" || c.facts->cuda_graph_modules.empty() ||
              !Graphs(c, "moe_router") || !Recomputes(c, model::kRecomputeMoe);
     },
     [](C) {
       return std::string(
           "Recomputing moe excludes a CUDA graph of moe_router by transformer_engine.");
     }},
};

}  // namespace

absl::Span<const Rule> RecomputeRules() { return kRules; }

}  // namespace hapmoe::plan
