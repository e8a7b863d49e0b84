// Rules about the world, its groups, the dimensions they cut and the batch.
#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/plan/megatron_rules_table.h"

namespace hapmoe::plan {
namespace {

using C = const RuleContext&;
using absl::StrCat;

bool HasDenseLayer(C c) {
  if (!c.model->moe.has_value()) return true;
  for (model::LayerKind kind : c.model->layer_kinds) {
    if (kind == model::LayerKind::kDense) return true;
  }
  return false;
}

int64_t EvalBatch(C c) { return c.facts->eval_global_batch.value_or(c.global_batch()); }
int64_t EvalMicroBatch(C c) { return c.facts->eval_micro_batch.value_or(c.training->micro_batch); }

bool BatchDivides(C c) {
  return c.facts->decrease_batch || Divides(c.training->micro_batch * c.dp(), c.global_batch());
}

bool UsesHierarchicalCp(C c) {
  for (const std::string& kind : c.facts->cp_communication) {
    if (kind == "a2a+p2p") return true;
  }
  return false;
}

int64_t HierarchicalProduct(C c) {
  int64_t product = 1;
  for (int64_t size : c.facts->hierarchical_cp) {
    if (size < 0 || size > (1 << 20) || product > (1 << 20)) return -1;
    product *= size;
  }
  return product;
}

std::string World(C c) { return StrCat("world size ", c.world_size); }

constexpr Rule kRules[] = {
    {"degrees_positive", "core/parallel_state.py:800", "--tensor-model-parallel-size",
     kDegreesScope,
     [](C c) {
       return c.parallel->tp > 0 && c.parallel->pp > 0 && c.parallel->cp > 0 &&
              c.parallel->ep > 0 && c.parallel->expert_tp() > 0 && c.world_size > 0;
     },
     [](C c) {
       return StrCat(
           "The degrees and the world size must be positive, but tensor, pipeline, "
           "context, expert and expert tensor are ",
           c.parallel->tp, ", ", c.parallel->pp, ", ", c.parallel->cp, ", ", c.parallel->ep, ", ",
           c.parallel->expert_tp(), ", and the ", World(c), ".");
     }},
    {"world_divisible_by_tp_pp_cp", "training/arguments.py:432", "--tensor-model-parallel-size",
     kDegreesScope,
     [](C c) { return Divides(c.parallel->tp * c.parallel->pp * c.parallel->cp, c.world_size); },
     [](C c) {
       return StrCat("The ", World(c),
                     " is not divisible by tensor x pipeline x context = ", c.parallel->tp, " x ",
                     c.parallel->pp, " x ", c.parallel->cp, " = ",
                     c.parallel->tp * c.parallel->pp * c.parallel->cp, ".");
     }},
    {"world_divisible_by_etp_ep_pp", "core/parallel_state.py:882", "--expert-tensor-parallel-size",
     kDegreesScope,
     [](C c) {
       // The same grid as the dense one: told by the rule above.
       const int64_t expert = c.parallel->expert_tp() * c.parallel->ep;
       return (c.dp() == 0 && expert == c.parallel->tp * c.parallel->cp) ||
              Divides(expert * c.parallel->pp, c.world_size);
     },
     [](C c) {
       return StrCat("The ", World(c), " is not divisible by expert tensor x expert x pipeline = ",
                     c.parallel->expert_tp(), " x ", c.parallel->ep, " x ", c.parallel->pp, " = ",
                     c.parallel->expert_tp() * c.parallel->ep * c.parallel->pp, ".");
     }},
    {"data_outermost_needs_equal_data_parallel", "core/parallel_state.py:901",
     "--use-tp-pp-dp-mapping", kDegreesScope,
     [](C c) {
       return !c.parallel->data_outermost || c.parallel->pp <= 1 || c.dp() == 0 ||
              c.expert_dp() == 0 || c.dp() == c.expert_dp();
     },
     [](C c) {
       return StrCat("With data parallel ranks outermost and ", c.parallel->pp,
                     " stages, the data parallel size ", c.dp(), " and that of experts, ",
                     c.expert_dp(), ", must be the same.");
     }},
    {"expert_parallel_needs_experts", "training/arguments.py:1656", "--expert-model-parallel-size",
     kDegreesScope, [](C c) { return c.parallel->ep <= 1 || c.model->moe.has_value(); },
     [](C c) {
       return StrCat("Expert parallel size ", c.parallel->ep, " needs a model with experts.");
     }},
    {"experts_divisible_by_ep", "training/arguments.py:1657", "--expert-model-parallel-size",
     kDegreesScope,
     [](C c) {
       return !c.model->moe.has_value() || Divides(c.parallel->ep, c.model->moe->experts);
     },
     [](C c) {
       return StrCat(c.model->moe->experts, " experts are not divisible by expert parallel size ",
                     c.parallel->ep, ".");
     }},
    {"data_parallel_divisible_by_optimizer_instances", "core/parallel_state.py:922",
     "--num-distributed-optimizer-instances", kDegreesScope,
     [](C c) { return Divides(c.training->optimizer.instances, c.dp() * c.parallel->cp); },
     [](C c) {
       return StrCat("Data parallel x context = ", c.dp(), " x ", c.parallel->cp,
                     " is not divisible by ", c.training->optimizer.instances,
                     " instances of the distributed optimizer.");
     }},
    {"expert_data_parallel_divisible_by_optimizer_instances", "core/parallel_state.py:1448",
     "--num-distributed-optimizer-instances", kDegreesScope,
     [](C c) {
       const int64_t instances = c.training->optimizer.instances;
       return !Divides(instances, c.dp() * c.parallel->cp) || Divides(instances, c.expert_dp());
     },
     [](C c) {
       return StrCat("The data parallel size of experts, ", c.expert_dp(), ", is not divisible by ",
                     c.training->optimizer.instances, " instances of the distributed optimizer.");
     }},
    {"hierarchical_cp_product", "training/arguments.py:582",
     "--hierarchical-context-parallel-sizes", kDegreesScope,
     [](C c) {
       return c.facts->hierarchical_cp.empty() || HierarchicalProduct(c) == c.parallel->cp;
     },
     [](C c) {
       return StrCat("The hierarchical context parallel sizes ",
                     absl::StrJoin(c.facts->hierarchical_cp, " x "),
                     " do not multiply to context parallel size ", c.parallel->cp, ".");
     }},
    {"hierarchical_cp_sizes_given", "training/arguments.py:584", "--cp-comm-type", kJobScope,
     [](C c) { return !UsesHierarchicalCp(c) || !c.facts->hierarchical_cp.empty(); },
     [](C) {
       return std::string(
           "Context parallel communication a2a+p2p needs --hierarchical-context-parallel-sizes.");
     }},
    {"cp_communication_for_each_layer", "core/transformer/transformer_config.py:3105",
     "--cp-comm-type", kDegreesScope,
     [](C c) {
       const size_t kinds = c.facts->cp_communication.size();
       return c.parallel->cp <= 1 || kinds == 1 || static_cast<int64_t>(kinds) == c.model->layers;
     },
     [](C c) {
       return StrCat("There are ", c.facts->cp_communication.size(),
                     " kinds of context parallel communication; there must be one, or one for "
                     "each of the ",
                     c.model->layers, " layers.");
     }},
    {"heads_divisible_by_tp", "core/transformer/transformer_config.py:1447",
     "--tensor-model-parallel-size", kDegreesScope,
     [](C c) { return Divides(c.parallel->tp, c.model->heads); },
     [](C c) {
       return StrCat(c.model->heads, " attention heads are not divisible by tensor parallel size ",
                     c.parallel->tp, ".");
     }},
    {"query_groups_multiple_or_divisor_of_tp", "core/transformer/transformer_config.py:1465",
     "--tensor-model-parallel-size", kDegreesScope,
     [](C c) {
       const int64_t groups = c.model->query_groups;
       return groups == c.model->heads || Divides(c.parallel->tp, groups) ||
              Divides(groups, c.parallel->tp);
     },
     [](C c) {
       return StrCat(c.model->query_groups,
                     " query groups are neither a multiple nor a divisor of "
                     "tensor parallel size ",
                     c.parallel->tp, ".");
     }},
    {"heads_divisible_by_query_groups", "core/transformer/attention.py:353", "--num-query-groups",
     kJobScope,
     [](C c) { return c.model->mla.has_value() || Divides(c.model->query_groups, c.model->heads); },
     [](C c) {
       return StrCat(c.model->heads, " attention heads are not divisible by ",
                     c.model->query_groups, " query groups.");
     }},
    {"ffn_divisible_by_tp", "core/tensor_parallel/layers.py:1038", "--tensor-model-parallel-size",
     kDegreesScope,
     [](C c) { return Divides(c.parallel->tp, c.model->ffn_hidden) || !HasDenseLayer(c); },
     [](C c) {
       return StrCat("Feed-forward width ", c.model->ffn_hidden,
                     " is not divisible by tensor parallel size ", c.parallel->tp, ".");
     }},
    {"shared_expert_width_divisible_by_tp", "core/tensor_parallel/layers.py:1038",
     "--moe-shared-expert-intermediate-size", kDegreesScope,
     [](C c) {
       return !c.model->moe.has_value() || Divides(c.parallel->tp, c.model->moe->shared_ffn_hidden);
     },
     [](C c) {
       return StrCat("The width of the shared experts, ", c.model->moe->shared_ffn_hidden,
                     ", is not divisible by tensor parallel size ", c.parallel->tp, ".");
     }},
    {"expert_width_divisible_by_etp", "core/tensor_parallel/layers.py:1038",
     "--expert-tensor-parallel-size", kDegreesScope,
     [](C c) {
       return !c.model->moe.has_value() ||
              Divides(c.parallel->expert_tp(), c.model->moe->ffn_hidden);
     },
     [](C c) {
       return StrCat("Expert width ", c.model->moe->ffn_hidden,
                     " is not divisible by expert tensor parallel size ", c.parallel->expert_tp(),
                     ".");
     }},
    {"vocabulary_divisible_by_tp", "core/tensor_parallel/utils.py:118", "--padded-vocab-size",
     kDegreesScope,
     [](C c) {
       return !c.model->padded_vocab.has_value() || Divides(c.parallel->tp, *c.model->padded_vocab);
     },
     [](C c) {
       return StrCat("The padded vocabulary of ", *c.model->padded_vocab,
                     " is not divisible by tensor parallel size ", c.parallel->tp, ".");
     }},
    {"sequence_divisible_by_twice_cp", "training/arguments.py:1336", "--context-parallel-size",
     kDegreesScope,
     [](C c) { return c.parallel->cp <= 1 || Divides(2 * c.parallel->cp, c.model->seq_length); },
     [](C c) {
       return StrCat("Sequence length ", c.model->seq_length,
                     " is not divisible by 2 x context parallel size = 2 x ", c.parallel->cp, " = ",
                     2 * c.parallel->cp, ".");
     }},
    // Of the local attention; Transformer Engine finds no kernel either.
    {"context_parallelism_fuses_attention", "core/transformer/dot_product_attention.py:58",
     "--context-parallel-size", kDegreesScope,
     [](C c) { return c.parallel->cp <= 1 || (c.training->flash_attention && c.fuses_attention); },
     [](C c) {
       return StrCat(
           "Context parallel size ", c.parallel->cp, " needs fused attention, which ",
           c.fuses_attention ? "the job switches off." : "an accelerator has no kernel of.");
     }},
    {"sequence_within_positions", "training/arguments.py:1354", "--max-position-embeddings",
     kJobScope, [](C c) { return c.model->seq_length <= c.model->max_positions; },
     [](C c) {
       return StrCat("Sequence length ", c.model->seq_length, " exceeds the ",
                     c.model->max_positions, " position embeddings.");
     }},
    {"sequence_divisible_by_cp_tp", "core/tensor_parallel/mappings.py:176", "--sequence-parallel",
     kDegreesScope,
     [](C c) {
       if (!c.sequence_parallel() || c.parallel->cp < 1) return true;
       return Divides(c.parallel->tp, c.model->seq_length / c.parallel->cp);
     },
     [](C c) {
       return StrCat("With sequence parallelism, sequence length / context = ", c.model->seq_length,
                     " / ", c.parallel->cp, " = ", c.model->seq_length / c.parallel->cp,
                     " must be divisible by tensor parallel size ", c.parallel->tp, ".");
     }},
    {"linear_attention_heads_divisible_by_tp_cp", "core/transformer/transformer_config.py:1500",
     "--linear-num-key-heads", kDegreesScope,
     [](C c) {
       const int64_t ranks = c.parallel->tp * c.parallel->cp;
       return Divides(ranks, c.facts->linear_key_heads.value_or(0)) &&
              Divides(ranks, c.facts->linear_value_heads.value_or(0));
     },
     [](C c) {
       return StrCat("The heads of linear attention, ", c.facts->linear_key_heads.value_or(0),
                     " for keys and ", c.facts->linear_value_heads.value_or(0),
                     " for values, must be divisible by tensor x context = ", c.parallel->tp, " x ",
                     c.parallel->cp, ".");
     }},
    {"hidden_divisible_by_heads", "training/arguments.py:1332", "--num-attention-heads", kJobScope,
     [](C c) { return c.facts->head_dim_given || Divides(c.model->heads, c.model->hidden); },
     [](C c) {
       return StrCat("Hidden size ", c.model->hidden, " is not divisible by ", c.model->heads,
                     " attention heads; give --kv-channels otherwise.");
     }},
    {"mla_excludes_query_groups", "training/arguments.py:1974", "--group-query-attention",
     kJobScope, [](C c) { return !c.model->mla.has_value() || !c.facts->grouped_query_attention; },
     [](C) {
       return std::string("Multi-latent attention and --group-query-attention exclude each other.");
     }},
    {"global_batch_excludes_schedule", "training/arguments.py:699", "--step-batch-size-schedule",
     kJobScope, [](C c) { return !c.facts->batch_schedule || !c.facts->global_batch_given; },
     [](C c) {
       return StrCat("--step-batch-size-schedule excludes --global-batch-size, which is ",
                     c.training->global_batch, ".");
     }},
    {"global_batch_divisible_by_micro_batch_dp", "core/num_microbatches_calculator.py:380",
     "--global-batch-size", kDegreesScope, [](C c) { return BatchDivides(c); },
     [](C c) {
       return StrCat("Global batch ", c.global_batch(),
                     " is not divisible by micro-batch x data parallel = ", c.training->micro_batch,
                     " x ", c.dp(), " = ", c.training->micro_batch * c.dp(), ".");
     }},
    {"eval_batch_divisible_by_micro_batch_dp", "training/arguments.py:715",
     "--eval-global-batch-size", kDegreesScope,
     [](C c) { return !BatchDivides(c) || Divides(EvalMicroBatch(c) * c.dp(), EvalBatch(c)); },
     [](C c) {
       return StrCat("The global batch of evaluation, ", EvalBatch(c),
                     ", is not divisible by its micro-batch x data parallel = ", EvalMicroBatch(c),
                     " x ", c.dp(), " = ", EvalMicroBatch(c) * c.dp(), ".");
     }},
    {"at_least_one_micro_batch", "core/num_microbatches_calculator.py:390", "--global-batch-size",
     kDegreesScope, [](C c) { return c.dp() == 0 || !BatchDivides(c) || c.micro_batches() >= 1; },
     [](C c) {
       return StrCat("Global batch ", c.global_batch(), " holds no micro-batch of ",
                     c.training->micro_batch, " samples on each of ", c.dp(),
                     " data parallel ranks.");
     }},
    {"connections_variable_is_one", "training/arguments.py:1477", "CUDA_DEVICE_MAX_CONNECTIONS",
     kEnvironmentScope,
     [](C c) {
       if (c.environment == nullptr || c.architecture == 0 || c.architecture >= 10) return true;
       if (c.parallel->tp <= 1 && c.parallel->cp <= 1) return true;
       if (c.facts->megatron_fsdp || c.facts->torch_fsdp2) return true;
       if (c.training->overlap.expert_parallel) return true;
       const auto found = c.environment->find("CUDA_DEVICE_MAX_CONNECTIONS");
       return found != c.environment->end() && found->second == "1";
     },
     [](C c) {
       return StrCat("Tensor parallel size ", c.parallel->tp, " and context parallel size ",
                     c.parallel->cp,
                     " on accelerators before compute capability 10 need the "
                     "environment variable CUDA_DEVICE_MAX_CONNECTIONS to be 1.");
     }},
    {"fsdp_excludes_single_connection", "training/arguments.py:1166", "CUDA_DEVICE_MAX_CONNECTIONS",
     kEnvironmentScope,
     [](C c) {
       if (c.environment == nullptr) return true;
       if (!c.facts->megatron_fsdp && !c.facts->torch_fsdp2) return true;
       const auto found = c.environment->find("CUDA_DEVICE_MAX_CONNECTIONS");
       return found == c.environment->end() || found->second != "1";
     },
     [](C) {
       return std::string(
           "Fully sharded data parallelism must not run with CUDA_DEVICE_MAX_CONNECTIONS=1.");
     }},
};

}  // namespace

absl::Span<const Rule> WorldRules() { return kRules; }

}  // namespace hapmoe::plan
