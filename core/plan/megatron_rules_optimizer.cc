// Rules about the optimizer, precision and overlap.
#include <string>

#include "absl/strings/str_cat.h"
#include "core/plan/megatron_rules_table.h"

namespace hapmoe::plan {
namespace {

using C = const RuleContext&;
using absl::StrCat;

bool Sharded(C c) {
  return c.training->optimizer.distributed || c.facts->megatron_fsdp ||
         c.training->optimizer.name == "dist_muon";
}

bool KeepsFp32States(C c) {
  const model::Optimizer& optimizer = c.training->optimizer;
  // A moment that the optimizer does not have takes no bytes.
  const auto full = [](int64_t bytes) { return bytes == 4 || bytes == 0; };
  return full(optimizer.main_gradient_bytes) && full(optimizer.main_parameter_bytes) &&
         full(optimizer.first_moment_bytes) && full(optimizer.second_moment_bytes);
}

constexpr Rule kRules[] = {
    {"parameter_gather_overlap_needs_distributed_optimizer", "training/arguments.py:1026",
     "--overlap-param-gather", kJobScope,
     [](C c) { return !c.training->overlap.parameter_gather || Sharded(c); },
     [](C) { return std::string("--overlap-param-gather needs --use-distributed-optimizer."); }},
    {"parameter_gather_overlap_needs_gradient_overlap", "training/arguments.py:1028",
     "--overlap-param-gather", kJobScope,
     [](C c) {
       return !c.training->overlap.parameter_gather || !Sharded(c) ||
              c.training->overlap.gradient_reduce;
     },
     [](C) { return std::string("--overlap-param-gather needs --overlap-grad-reduce."); }},
    {"optimizer_offload_needs_precision_aware", "training/arguments.py:1885",
     "--optimizer-cpu-offload", kJobScope,
     [](C c) { return !c.facts->optimizer_offload || c.training->optimizer.precision_aware; },
     [](C) {
       return std::string("--optimizer-cpu-offload needs --use-precision-aware-optimizer.");
     }},
    {"optimizer_offload_needs_delayed_fp8", "training/arguments.py:1889", "--optimizer-cpu-offload",
     kJobScope,
     [](C c) {
       return !c.facts->optimizer_offload || !c.facts->fp8_parameter_gather ||
              c.facts->fp8_recipe == "delayed";
     },
     [](C c) {
       return StrCat(
           "--optimizer-cpu-offload with --fp8-param-gather needs --fp8-recipe delayed, "
           "not ",
           c.facts->fp8_recipe, ".");
     }},
    {"precision_aware_needs_adam", "core/optimizer/optimizer_config.py:435",
     "--use-precision-aware-optimizer", kJobScope,
     [](C c) {
       return !c.training->optimizer.precision_aware || c.training->optimizer.name == "adam";
     },
     [](C c) {
       return StrCat("--use-precision-aware-optimizer needs --optimizer adam, not ",
                     c.training->optimizer.name, ".");
     }},
    {"low_precision_states_need_precision_aware", "core/optimizer/optimizer_config.py:476",
     "--use-precision-aware-optimizer", kJobScope,
     [](C c) { return c.training->optimizer.precision_aware || KeepsFp32States(c); },
     [](C c) {
       const model::Optimizer& optimizer = c.training->optimizer;
       return StrCat("Main gradients, main parameters and moments of ",
                     optimizer.main_gradient_bytes, ", ", optimizer.main_parameter_bytes, ", ",
                     optimizer.first_moment_bytes, " and ", optimizer.second_moment_bytes,
                     " bytes need --use-precision-aware-optimizer; without it all are fp32.");
     }},
    {"fp32_accumulation_needs_fp32_gradients", "training/arguments.py:1210", "--main-grads-dtype",
     kJobScope,
     [](C c) {
       return c.training->precision != model::Precision::kBf16 || !c.facts->accumulate_fp32_given ||
              c.training->optimizer.main_gradient_bytes == 4;
     },
     [](C) {
       return std::string("--accumulate-allreduce-grads-in-fp32 needs --main-grads-dtype fp32.");
     }},
    {"bf16_excludes_fp16", "training/arguments.py:1196", "--fp16", kJobScope,
     [](C c) { return !c.facts->fp16_and_bf16; },
     [](C) { return std::string("--fp16 and --bf16 exclude each other."); }},
    {"fp32_residual_needs_half_precision", "training/arguments.py:1375",
     "--fp32-residual-connection", kJobScope,
     [](C c) {
       return !c.training->fp32_residual || c.training->precision != model::Precision::kFp32;
     },
     [](C) { return std::string("--fp32-residual-connection needs --bf16 or --fp16."); }},
    {"fp8_parameters_need_distributed_optimizer", "training/arguments.py:1096",
     "--fp8-param-gather", kJobScope,
     [](C c) {
       return !c.facts->fp8_parameter_gather || c.training->optimizer.distributed ||
              c.facts->megatron_fsdp || c.facts->torch_fsdp2;
     },
     [](C) { return std::string("--fp8-param-gather needs --use-distributed-optimizer."); }},
    {"fp8_parameters_need_fp8", "core/transformer/transformer_config.py:1567", "--fp8-param-gather",
     kJobScope, [](C c) { return !c.facts->fp8_parameter_gather || c.training->fp8; },
     [](C) { return std::string("--fp8-param-gather needs --fp8-format."); }},
    {"fsdp2_excludes_pipeline", "training/arguments.py:1034", "--use-torch-fsdp2", kDegreesScope,
     [](C c) { return !c.facts->torch_fsdp2 || c.parallel->pp <= 1; },
     [](C c) {
       return StrCat("--use-torch-fsdp2 excludes pipeline parallel size ", c.parallel->pp, ".");
     }},
    {"fsdp2_excludes_expert_parallel", "training/arguments.py:1036", "--use-torch-fsdp2",
     kDegreesScope, [](C c) { return !c.facts->torch_fsdp2 || c.parallel->ep <= 1; },
     [](C c) {
       return StrCat("--use-torch-fsdp2 excludes expert parallel size ", c.parallel->ep, ".");
     }},
    {"fsdp2_excludes_distributed_optimizer", "training/arguments.py:1038", "--use-torch-fsdp2",
     kJobScope, [](C c) { return !c.facts->torch_fsdp2 || !c.training->optimizer.distributed; },
     [](C) { return std::string("--use-torch-fsdp2 excludes --use-distributed-optimizer."); }},
    {"tensor_parallel_overlap_needs_sequence_parallel", "training/arguments.py:1442",
     "--tp-comm-overlap", kDegreesScope,
     [](C c) { return !c.training->overlap.tensor_parallel || c.sequence_parallel(); },
     [](C c) {
       return StrCat(
           "--tp-comm-overlap needs --sequence-parallel and a tensor parallel size "
           "above 1, which is ",
           c.parallel->tp, ".");
     }},
};

}  // namespace

absl::Span<const Rule> OptimizerRules() { return kRules; }

}  // namespace hapmoe::plan
