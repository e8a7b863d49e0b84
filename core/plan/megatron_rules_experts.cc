// Rules about routing, dispatch and experts.
#include <string>

#include "absl/strings/str_cat.h"
#include "core/plan/megatron_rules_table.h"

namespace hapmoe::plan {
namespace {

using C = const RuleContext&;
using absl::StrCat;
using model::Dispatcher;

bool HasExperts(C c) { return c.model->moe.has_value(); }
bool HasSharedExperts(C c) { return HasExperts(c) && c.model->moe->shared_ffn_hidden > 0; }
bool Flex(C c) { return c.training->dispatcher == Dispatcher::kFlex; }

bool HasLoadBalancing(C c, absl::string_view kind) {
  for (const std::string& given : c.facts->load_balancing) {
    if (given == kind) return true;
  }
  return false;
}

// True if every way of balancing is an auxiliary loss, or none.
bool BalancesByLoss(C c) {
  for (const std::string& kind : c.facts->load_balancing) {
    if (kind != "aux_loss" && kind != "seq_aux_loss" && kind != "global_aux_loss" &&
        kind != "none") {
      return false;
    }
  }
  return true;
}

bool HasCapacity(C c) {
  return c.facts->capacity_factor || (HasExperts(c) && c.model->moe->capacity_factor.has_value());
}
bool PadsToCapacity(C c) {
  return c.facts->pad_to_capacity || (HasExperts(c) && c.model->moe->pad_to_capacity);
}
bool GroupedGemm(C c) {
  return c.facts->grouped_gemm || (HasExperts(c) && c.model->moe->grouped_gemm);
}
bool Deepep(C c) { return c.facts->deepep_flag || c.facts->flex_backend == "deepep"; }
bool OverlapsDispatch(C c) { return c.training->overlap.expert_parallel; }

constexpr Rule kRules[] = {
    {"experts_with_tp_need_sequence_parallel", "core/transformer/moe/moe_layer.py:637",
     "--sequence-parallel", kDegreesScope,
     [](C c) { return !HasExperts(c) || c.parallel->tp <= 1 || c.training->sequence_parallel; },
     [](C c) {
       return StrCat("Training experts with tensor parallel size ", c.parallel->tp,
                     " needs --sequence-parallel.");
     }},
    {"deepep_needs_flex", "core/transformer/transformer_config.py:1745",
     "--moe-token-dispatcher-type", kJobScope, [](C c) { return !c.facts->deepep_flag || Flex(c); },
     [](C c) {
       return StrCat("--moe-enable-deepep needs --moe-token-dispatcher-type flex, not ",
                     model::DispatcherName(c.training->dispatcher), ".");
     }},
    {"deepep_excludes_hybridep", "core/transformer/transformer_config.py:1747",
     "--moe-flex-dispatcher-backend", kJobScope,
     [](C c) { return !c.facts->deepep_flag || !Flex(c) || c.facts->flex_backend != "hybridep"; },
     [](C) {
       return std::string("--moe-enable-deepep excludes --moe-flex-dispatcher-backend hybridep.");
     }},
    {"flex_needs_expert_ranks", "core/transformer/moe/token_dispatcher.py:1836",
     "--expert-model-parallel-size", kDegreesScope,
     [](C c) {
       if (!HasExperts(c) || !Flex(c)) return true;
       if (!Deepep(c) && c.facts->flex_backend != "ncclep") return true;
       return c.parallel->expert_tp() * c.parallel->ep > 1;
     },
     [](C c) {
       return StrCat("The flex dispatcher with ", c.facts->flex_backend,
                     " needs expert tensor x expert above 1, but it is ", c.parallel->expert_tp(),
                     " x ", c.parallel->ep, ".");
     }},
    {"deepep_excludes_pad_to_capacity", "core/transformer/transformer_config.py:1758",
     "--moe-pad-expert-input-to-capacity", kJobScope,
     [](C c) { return !PadsToCapacity(c) || !Flex(c) || !Deepep(c); },
     [](C) {
       return std::string(
           "The flex dispatcher with deepep excludes "
           "--moe-pad-expert-input-to-capacity.");
     }},
    {"ncclep_needs_flex", "core/transformer/transformer_config.py:1765",
     "--moe-flex-dispatcher-backend", kJobScope,
     [](C c) { return c.facts->flex_backend != "ncclep" || c.facts->deepep_flag || Flex(c); },
     [](C c) {
       return StrCat(
           "--moe-flex-dispatcher-backend ncclep needs --moe-token-dispatcher-type "
           "flex, not ",
           model::DispatcherName(c.training->dispatcher), ".");
     }},
    {"ncclep_excludes_capacity", "core/transformer/moe/token_dispatcher.py:1554",
     "--moe-expert-capacity-factor", kJobScope,
     [](C c) {
       return !Flex(c) || c.facts->flex_backend != "ncclep" ||
              (!HasCapacity(c) && !PadsToCapacity(c));
     },
     [](C) {
       return std::string("The flex dispatcher with ncclep excludes --moe-expert-capacity-factor.");
     }},
    {"pad_to_capacity_needs_capacity_factor", "core/transformer/transformer_config.py:1864",
     "--moe-expert-capacity-factor", kJobScope,
     [](C c) { return !PadsToCapacity(c) || HasCapacity(c); },
     [](C) {
       return std::string("--moe-pad-expert-input-to-capacity needs --moe-expert-capacity-factor.");
     }},
    {"capacity_factor_needs_auxiliary_loss", "core/transformer/transformer_config.py:1857",
     "--moe-router-load-balancing-type", kJobScope,
     [](C c) { return !HasCapacity(c) || BalancesByLoss(c); },
     [](C) {
       return std::string(
           "--moe-expert-capacity-factor needs load balancing by aux_loss, "
           "seq_aux_loss, global_aux_loss or none.");
     }},
    {"shared_expert_overlap_needs_all_to_all", "core/transformer/transformer_config.py:1824",
     "--moe-shared-expert-overlap", kJobScope,
     [](C c) {
       return (!c.facts->shared_experts && !HasSharedExperts(c)) ||
              !c.training->overlap.shared_expert ||
              c.training->dispatcher != Dispatcher::kAllGather;
     },
     [](C) {
       return std::string(
           "--moe-shared-expert-overlap needs --moe-token-dispatcher-type alltoall "
           "or flex, not allgather.");
     }},
    {"expert_bias_needs_etp_one", "core/transformer/transformer_config.py:2614",
     "--expert-tensor-parallel-size", kDegreesScope,
     [](C c) { return !HasExperts(c) || !c.model->linear_bias || c.parallel->expert_tp() <= 1; },
     [](C c) {
       return StrCat("Experts with biases need expert tensor parallel size 1, but it is ",
                     c.parallel->expert_tp(), "; --disable-bias-linear drops the biases.");
     }},
    {"shared_experts_exclude_bias", "core/transformer/moe/shared_experts.py:124",
     "--disable-bias-linear", kJobScope,
     [](C c) { return !HasSharedExperts(c) || !c.model->linear_bias; },
     [](C) { return std::string("Shared experts need --disable-bias-linear."); }},
    {"grouped_gemm_bias_excludes_dropout_fusion", "core/transformer/moe/experts.py:205",
     "--no-bias-dropout-fusion", kJobScope,
     [](C c) {
       return !HasExperts(c) || !c.model->moe->grouped_gemm || !c.model->linear_bias ||
              !c.facts->bias_dropout_fusion;
     },
     [](C) {
       return std::string("Grouped products of experts with biases need --no-bias-dropout-fusion.");
     }},
    {"grouped_gemm_needs_sm80", "training/arguments.py:1378", "--moe-grouped-gemm", kJobScope,
     [](C c) { return !GroupedGemm(c) || c.architecture == 0 || c.architecture >= 8; },
     [](C c) {
       return StrCat("--moe-grouped-gemm needs compute capability 8, not ", c.architecture, ".");
     }},
    {"topk_one_needs_pre_softmax", "core/transformer/transformer_config.py:2669",
     "--moe-router-pre-softmax", kJobScope,
     [](C c) {
       return c.facts->router_topk != 1 || c.facts->router_score_function != "softmax" ||
              c.facts->router_pre_softmax ||
              (c.facts->load_balancing.size() == 1 && HasLoadBalancing(c, "sinkhorn"));
     },
     [](C) {
       return std::string("Routing to 1 expert by softmax needs --moe-router-pre-softmax.");
     }},
    {"topk_within_experts", "core/transformer/moe/moe_utils.py:879", "--moe-router-topk", kJobScope,
     [](C c) { return !HasExperts(c) || c.model->moe->topk <= c.model->moe->experts; },
     [](C c) {
       return StrCat("Each token is routed to ", c.model->moe->topk, " of only ",
                     c.model->moe->experts, " experts.");
     }},
    {"expert_bias_needs_sigmoid", "core/transformer/transformer_config.py:2621",
     "--moe-router-enable-expert-bias", kJobScope,
     [](C c) {
       return !c.facts->router_expert_bias || c.facts->router_score_function == "sigmoid" ||
              c.facts->router_score_function == "sqrtsoftplus";
     },
     [](C c) {
       return StrCat(
           "--moe-router-enable-expert-bias needs --moe-router-score-function sigmoid "
           "or sqrtsoftplus, not ",
           c.facts->router_score_function, ".");
     }},
    {"auxiliary_loss_for_each_balancing", "core/transformer/transformer_config.py:1829",
     "--moe-aux-loss-coeff", kJobScope,
     [](C c) {
       return c.facts->load_balancing.size() == 1 ||
              static_cast<int64_t>(c.facts->load_balancing.size()) ==
                  c.facts->aux_loss_coefficients;
     },
     [](C c) {
       return StrCat(c.facts->load_balancing.size(),
                     " kinds of load balancing need as many "
                     "--moe-aux-loss-coeff, but there are ",
                     c.facts->aux_loss_coefficients, ".");
     }},
    {"group_routing_needs_groups", "core/transformer/transformer_config.py:2678",
     "--moe-router-num-groups", kJobScope,
     [](C c) { return c.facts->router_group_topk == 0 || c.facts->router_groups != 0; },
     [](C c) {
       return StrCat("--moe-router-group-topk ", c.facts->router_group_topk,
                     " needs --moe-router-num-groups.");
     }},
    {"group_routing_divides_experts", "core/transformer/transformer_config.py:2682",
     "--moe-router-num-groups", kJobScope,
     [](C c) {
       if (c.facts->router_group_topk == 0 || c.facts->router_groups == 0) return true;
       return HasExperts(c) && Divides(c.facts->router_groups, c.model->moe->experts);
     },
     [](C c) {
       return StrCat(HasExperts(c) ? c.model->moe->experts : 0, " experts are not divisible into ",
                     c.facts->router_groups, " groups.");
     }},
    {"group_topk_within_groups", "core/transformer/transformer_config.py:2686",
     "--moe-router-group-topk", kJobScope,
     [](C c) {
       return c.facts->router_groups == 0 || c.facts->router_group_topk <= c.facts->router_groups;
     },
     [](C c) {
       return StrCat("Each token is routed to ", c.facts->router_group_topk, " of only ",
                     c.facts->router_groups, " groups.");
     }},
    {"router_padding_needs_low_precision", "core/transformer/transformer_config.py:2651",
     "--moe-router-padding-for-quantization", kJobScope,
     [](C c) { return !c.facts->router_padding || c.training->fp8; },
     [](C) { return std::string("Padding the routing for quantization needs --fp8-format."); }},
    {"router_padding_excludes_allgather", "core/transformer/transformer_config.py:2656",
     "--moe-router-padding-for-quantization", kJobScope,
     [](C c) {
       return !c.facts->router_padding || !c.training->fp8 ||
              c.training->dispatcher != Dispatcher::kAllGather;
     },
     [](C) {
       return std::string(
           "Padding the routing for quantization needs --moe-token-dispatcher-type "
           "alltoall or flex, not allgather.");
     }},
    {"layer_pattern_length", "core/models/gpt/gpt_layer_specs.py:653", "--moe-layer-freq",
     kJobScope,
     [](C c) {
       return !HasExperts(c) ||
              c.facts->layer_pattern_length.value_or(c.model->layers) == c.model->layers;
     },
     [](C c) {
       return StrCat("--moe-layer-freq lists ", c.facts->layer_pattern_length.value_or(0),
                     " layers, the model has ", c.model->layers, ".");
     }},
    {"expert_width_needs_experts", "core/transformer/transformer_config.py:1702",
     "--moe-ffn-hidden-size", kJobScope,
     [](C c) { return HasExperts(c) || !c.facts->expert_width_given; },
     [](C) { return std::string("--moe-ffn-hidden-size needs --num-experts."); }},
    {"dispatch_overlap_needs_virtual_stages", "core/transformer/transformer_config.py:3008",
     "--overlap-moe-expert-parallel-comm", kDegreesScope,
     [](C c) { return !OverlapsDispatch(c) || c.parallel->pp <= 1 || c.virtual_stages > 1; },
     [](C c) {
       return StrCat("--overlap-moe-expert-parallel-comm with ", c.parallel->pp,
                     " pipeline stages needs virtual stages.");
     }},
    {"dispatch_overlap_needs_expert_parallel", "core/transformer/transformer_config.py:3014",
     "--overlap-moe-expert-parallel-comm", kDegreesScope,
     [](C c) { return !OverlapsDispatch(c) || c.parallel->ep > 1; },
     [](C c) {
       return StrCat(
           "--overlap-moe-expert-parallel-comm needs an expert parallel size above 1, "
           "not ",
           c.parallel->ep, ".");
     }},
    {"dispatch_overlap_needs_all_to_all", "core/transformer/transformer_config.py:3016",
     "--overlap-moe-expert-parallel-comm", kJobScope,
     [](C c) { return !OverlapsDispatch(c) || c.training->dispatcher != Dispatcher::kAllGather; },
     [](C) {
       return std::string(
           "--overlap-moe-expert-parallel-comm needs --moe-token-dispatcher-type "
           "alltoall or flex, not allgather.");
     }},
    {"dispatch_overlap_excludes_full_recompute", "core/transformer/transformer_config.py:3022",
     "--overlap-moe-expert-parallel-comm", kRecomputeScope,
     [](C c) {
       return !OverlapsDispatch(c) ||
              (c.training->recompute.granularity != model::Recompute::Granularity::kFull &&
               !c.facts->recompute_method.has_value() && !c.facts->recompute_layers.has_value());
     },
     [](C) {
       return std::string(
           "--overlap-moe-expert-parallel-comm excludes full recomputation, its "
           "method and its number of layers.");
     }},
    {"dispatch_overlap_excludes_moe_recompute", "core/transformer/transformer_config.py:3031",
     "--overlap-moe-expert-parallel-comm", kRecomputeScope,
     [](C c) {
       return !OverlapsDispatch(c) || (!c.facts->recompute_moe_listed &&
                                       (c.training->recompute.modules & model::kRecomputeMoe) == 0);
     },
     [](C) {
       return std::string("--overlap-moe-expert-parallel-comm excludes the recomputation of moe.");
     }},
    {"dispatch_overlap_needs_half_precision", "core/transformer/transformer_config.py:3035",
     "--overlap-moe-expert-parallel-comm", kJobScope,
     [](C c) { return !OverlapsDispatch(c) || c.training->precision != model::Precision::kFp32; },
     [](C) { return std::string("--overlap-moe-expert-parallel-comm needs --bf16 or --fp16."); }},
    {"dispatch_overlap_excludes_shared_expert_overlap",
     "core/transformer/transformer_config.py:3039", "--moe-shared-expert-overlap", kJobScope,
     [](C c) { return !OverlapsDispatch(c) || !c.training->overlap.shared_expert; },
     [](C) {
       return std::string(
           "--overlap-moe-expert-parallel-comm excludes --moe-shared-expert-overlap.");
     }},
    {"dispatch_overlap_takes_one_mtp_layer", "core/transformer/transformer_config.py:3042",
     "--mtp-num-layers", kJobScope,
     [](C c) { return !OverlapsDispatch(c) || c.model->mtp_layers <= 1; },
     [](C c) {
       return StrCat(
           "--overlap-moe-expert-parallel-comm takes at most 1 multi-token prediction "
           "layer, not ",
           c.model->mtp_layers, ".");
     }},
    {"weight_gradient_delay_needs_dispatch_overlap", "core/transformer/transformer_config.py:3075",
     "--delay-wgrad-compute", kJobScope,
     [](C c) { return !c.facts->delay_weight_gradient || OverlapsDispatch(c); },
     [](C) {
       return std::string("--delay-wgrad-compute needs --overlap-moe-expert-parallel-comm.");
     }},
};

}  // namespace

absl::Span<const Rule> ExpertRules() { return kRules; }

}  // namespace hapmoe::plan
