// Features that are sound to the engine but cannot be costed.
#include "core/engine/megatron_job_checks.h"

namespace hapmoe::engine {
namespace {

using O = const Options&;

constexpr Check kChecks[] = {
    {"unsupported_yaml_configuration", "yaml_cfg", [](O o) { return o.has("yaml_cfg"); },
     "--yaml-cfg replaces every other option by a file; give its settings as options instead."},
    {"unsupported_checkpoint_arguments", "use_checkpoint_args",
     [](O o) { return o.on("use_checkpoint_args"); },
     "--use-checkpoint-args takes the model's shape from a checkpoint; give --num-layers, "
     "--hidden-size, --num-attention-heads and the rest of the shape as options instead."},
    {"unsupported_hybrid_model", "hybrid_layer_pattern",
     [](O o) {
       return o.has("hybrid_layer_pattern") || o.has("hybrid_override_pattern") ||
              o.on("is_hybrid_model") ||
              (o.has("mtp_hybrid_override_pattern") && o.job.model.mtp_layers > 0);
     },
     "Hybrid models of state space and attention layers cannot be planned."},
    {"unsupported_heterogeneous_layers", "heterogeneous_layers_config_path",
     [](O o) {
       return o.has("heterogeneous_layers_config_path") ||
              o.has("heterogeneous_layers_config_encoded_json");
     },
     "Models whose layers differ in shape cannot be planned."},
    {"unsupported_custom_spec", "spec",
     [](O o) { return o.has("spec") && (o.values.List("spec").empty() || !o.is("spec", "local")); },
     "--spec builds layers that cannot be looked into; only --spec local can be planned."},
    {"unsupported_attention_variant", "experimental_attention_variant",
     [](O o) { return o.has("experimental_attention_variant"); },
     "--experimental-attention-variant cannot be planned."},
    {"unsupported_sliding_window", "window_size", [](O o) { return o.has("window_size"); },
     "Sliding window attention (--window-size) cannot be planned."},
    {"unsupported_hyper_connections", "enable_mhc_connections",
     [](O o) { return o.on("enable_mhc_connections"); },
     "--enable-mhc-connections cannot be planned."},
    {"unsupported_repeated_mtp_layer", "mtp_use_repeated_layer",
     [](O o) { return o.on("mtp_use_repeated_layer") && o.job.model.mtp_layers > 1; },
     "--mtp-use-repeated-layer with several multi-token prediction layers cannot be planned."},
    {"unsupported_fp4", "fp4", [](O o) { return o.has("fp4"); },
     "4-bit floating point (--fp4-format) cannot be planned."},
    {"unsupported_fsdp", "use_megatron_fsdp",
     [](O o) { return o.on("use_megatron_fsdp") || o.on("use_torch_fsdp2"); },
     "Fully sharded data parallelism cannot be planned; --use-distributed-optimizer can."},
    {"unsupported_weight_shards", "tensor_parallel_num_weight_shards",
     [](O o) {
       const auto differs = [&](absl::string_view dest, int64_t degree) {
         return o.has(dest) && o.integer(dest) != degree;
       };
       return differs("tensor_parallel_num_weight_shards", o.job.parallel.tp) ||
              differs("expert_tensor_parallel_num_weight_shards", o.job.parallel.expert_tp());
     },
     "Weight shards beyond the tensor parallel size cannot be planned."},
    {"unsupported_dynamic_context_parallel", "hybrid_context_parallel",
     [](O o) { return o.on("hybrid_context_parallel"); },
     "--hybrid-context-parallel cannot be planned."},
    {"unsupported_batch_size_schedule", "step_batch_size_schedule",
     [](O o) { return o.has("step_batch_size_schedule") && !o.has("global_batch_size"); },
     "A batch that grows by --step-batch-size-schedule cannot be planned; give the "
     "--global-batch-size to plan for instead."},
    {"unsupported_activation_offload", "cpu_offloading_num_layers",
     [](O o) {
       // Where the engine refuses it anyway, its rule is enough.
       return o.job.facts.cpu_offload_layers > 0 && o.job.parallel.pp == 1 &&
              o.job.training.recompute.granularity == model::Recompute::Granularity::kNone;
     },
     "Offloading of activations (--cpu-offloading-num-layers) cannot be planned."},
    {"unsupported_activation_offload", "fine_grained_activation_offloading",
     [](O o) { return o.on("fine_grained_activation_offloading"); },
     "--fine-grained-activation-offloading cannot be planned."},
    {"unsupported_reinforcement_learning", "perform_rl_step",
     [](O o) { return o.on("perform_rl_step"); },
     "Reinforcement learning steps (--perform-rl-step) cannot be planned."},
    {"unsupported_frozen_layers", "freeze_all_layers",
     [](O o) { return o.on("freeze_all_layers") || o.on("skip_train"); },
     "A job that trains no parameters (--freeze-all-layers, --skip-train) cannot be planned."},
    {"unsupported_inference_implementation", "transformer_impl",
     [](O o) { return o.is("transformer_impl", "inference_optimized"); },
     "--transformer-impl inference_optimized is for inference and cannot be planned."},
};

}  // namespace

absl::Span<const Check> UnsupportedChecks() { return kChecks; }

}  // namespace hapmoe::engine
