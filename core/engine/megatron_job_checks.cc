// Options that contradict each other whatever the plan, and features that cannot be costed.
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/engine/megatron_job_reading.h"

namespace hapmoe::engine {
namespace {

// What a check looks at.
struct Options {
  const OptionValues& values;
  const MegatronJob& job;

  bool on(absl::string_view dest) const { return values.Flag(dest); }
  bool has(absl::string_view dest) const { return values.Has(dest); }
  bool is(absl::string_view dest, absl::string_view text) const {
    return values.Text(dest) == text;
  }
  int64_t integer(absl::string_view dest) const { return values.Int(dest).value_or(0); }
  double number(absl::string_view dest) const { return values.Float(dest).value_or(0); }
  bool moe() const { return job.model.moe.has_value(); }
  bool mla() const { return job.model.mla.has_value(); }
};
using O = const Options&;

struct Check {
  absl::string_view rule;
  absl::string_view dest;  // Of the option at fault.
  bool (*broken)(O);
  absl::string_view message;  // One sentence; all faults here are of switches, without numbers.
};

bool GivesData(O o, bool per_split) {
  if (!per_split) return o.has("data_path") && !o.values.List("data_path").empty();
  return o.has("train_data_path") || o.has("valid_data_path") || o.has("test_data_path");
}

// Emerging optimizers are all but these two.
bool HasPlainOptimizer(O o) { return o.is("optimizer", "adam") || o.is("optimizer", "sgd"); }

bool GeluFusion(O o) {
  return o.on("bias_gelu_fusion") && o.on("add_bias_linear") && !o.on("swiglu");
}

constexpr Check kChecks[] = {
    // Training length, rates, checkpoints, data.
    {"option_no_longer_valid", "batch_size", [](O o) { return o.has("batch_size"); },
     "--batch-size became --micro-batch-size."},
    {"option_no_longer_valid", "warmup", [](O o) { return o.has("warmup"); },
     "--warmup became --lr-warmup-fraction."},
    {"option_no_longer_valid", "model_parallel_size",
     [](O o) { return o.has("model_parallel_size"); },
     "--model-parallel-size became --tensor-model-parallel-size."},
    {"option_no_longer_valid", "checkpoint_activations",
     [](O o) { return o.on("checkpoint_activations"); },
     "--checkpoint-activations became --recompute-activations."},
    {"iterations_exclude_samples", "train_samples",
     [](O o) {
       return !o.on("skip_train") && o.integer("train_iters") != 0 &&
              (o.has("train_samples") || o.has("lr_decay_samples") ||
               o.integer("lr_warmup_samples") != 0);
     },
     "With --train-iters, training, decay and warm-up are counted in iterations, not in samples."},
    {"samples_exclude_iterations", "train_iters",
     [](O o) {
       return !o.on("skip_train") && o.integer("train_samples") != 0 &&
              !(o.integer("train_iters") != 0) &&
              (o.has("train_iters") || o.has("lr_decay_iters") ||
               o.integer("lr_warmup_iters") != 0);
     },
     "With --train-samples, training, decay and warm-up are counted in samples, not iterations."},
    {"one_warm_up", "lr_warmup_fraction",
     [](O o) {
       if (o.on("skip_train") || !o.has("lr_warmup_fraction")) return false;
       if (o.integer("train_iters") != 0) return o.integer("lr_warmup_iters") != 0;
       return o.integer("train_samples") != 0 && o.integer("lr_warmup_samples") != 0;
     },
     "--lr-warmup-fraction excludes a warm-up in iterations or samples."},
    {"learning_rates_ordered", "min_lr",
     [](O o) { return o.has("lr") && o.number("min_lr") > o.number("lr"); },
     "--min-lr must not exceed --lr."},
    {"weight_decay_ends", "weight_decay_incr_style",
     [](O o) {
       const bool constant = o.is("weight_decay_incr_style", "constant");
       return constant ? o.has("start_weight_decay") || o.has("end_weight_decay")
                       : !o.has("start_weight_decay") || !o.has("end_weight_decay");
     },
     "--start-weight-decay and --end-weight-decay go with a growing weight decay, and only so."},
    {"save_needs_interval", "save_interval",
     [](O o) { return o.has("save") && o.integer("save_interval") <= 0; },
     "--save needs a positive --save-interval."},
    {"checkpoint_format_needs_fsdp", "ckpt_format",
     [](O o) {
       return (o.is("ckpt_format", "torch_dcp") && !o.on("use_torch_fsdp2")) ||
              (o.is("ckpt_format", "fsdp_dtensor") && !o.on("use_megatron_fsdp"));
     },
     "--ckpt-format torch_dcp and fsdp_dtensor need fully sharded data parallelism."},
    {"checkpoint_kind", "non_persistent_ckpt_type",
     [](O o) { return o.is("non_persistent_ckpt_type", "in_memory"); },
     "--non-persistent-ckpt-type takes global or local."},
    {"gloo_needed_by_checkpoint", "use_gloo_process_groups",
     [](O o) {
       return !o.on("use_gloo_process_groups") && o.is("ckpt_format", "torch") &&
              HasPlainOptimizer(o) && o.on("use_distributed_optimizer");
     },
     "--disable-gloo-process-groups with the distributed optimizer excludes --ckpt-format torch."},
    {"main_parameters_need_no_load_optim", "load_main_params_from_ckpt",
     [](O o) { return o.on("load_main_params_from_ckpt") && !o.on("no_load_optim"); },
     "--load-main-params-from-ckpt needs --no-load-optim."},
    {"checkpoint_iteration_excludes_finetune", "override_ckpt_iteration",
     [](O o) { return o.has("override_ckpt_iteration") && o.on("finetune"); },
     "--override-ckpt-iteration excludes --finetune."},
    {"upcycling_needs_save", "moe_use_upcycling",
     [](O o) { return o.on("moe_use_upcycling") && !o.has("save"); },
     "--moe-use-upcycling needs --save."},
    {"one_data_source", "data_path",
     [](O o) {
       return (o.on("mock_data") ? 1 : 0) + (GivesData(o, false) ? 1 : 0) +
                  (GivesData(o, true) ? 1 : 0) >
              1;
     },
     "--mock-data, --data-path and the data paths of single splits exclude each other."},
    {"one_data_source", "data_args_path",
     [](O o) {
       return (o.has("data_args_path") && o.has("data_path")) ||
              (o.has("per_split_data_args_path") && GivesData(o, true));
     },
     "Data paths are given as options or in a file, not both."},

    // Shape and arithmetic.
    {"position_embedding_deprecated", "add_position_embedding",
     [](O o) {
       return !o.on("add_position_embedding") && !o.is("position_embedding_type", "rope") &&
              !o.on("use_rotary_position_embeddings");
     },
     "--no-position-embedding is no longer valid; use --position-embedding-type."},
    {"relative_positions_need_transformer_engine", "position_embedding_type",
     [](O o) {
       return o.is("position_embedding_type", "relative") &&
              !o.on("use_rotary_position_embeddings") &&
              !o.is("transformer_impl", "transformer_engine");
     },
     "--position-embedding-type relative needs --transformer-impl transformer_engine."},
    {"mrope_needs_sections", "mrope_section",
     [](O o) {
       return o.is("position_embedding_type", "mrope") && !o.has("mrope_section") &&
              !o.on("use_rotary_position_embeddings");
     },
     "--position-embedding-type mrope needs --mrope-section."},
    {"rope_type_needs_mla", "rope_type", [](O o) { return o.is("rope_type", "yarn") && !o.mla(); },
     "--rope-type yarn needs --multi-latent-attention."},
    {"mla_rope_fusion_needs_yarn", "rope_type",
     [](O o) {
       const bool rope =
           o.is("position_embedding_type", "rope") || o.on("use_rotary_position_embeddings");
       return o.mla() && rope && o.on("apply_rope_fusion") && o.is("rope_type", "rope");
     },
     "--multi-latent-attention with --rope-type rope needs --no-rope-fusion."},
    {"mla_excludes_interleaved_rotary", "rotary_interleaved",
     [](O o) { return o.mla() && o.on("rotary_interleaved"); },
     "--multi-latent-attention excludes --rotary-interleaved."},
    {"mla_excludes_output_gate", "attention_output_gate",
     [](O o) { return o.mla() && o.on("attention_output_gate"); },
     "--multi-latent-attention excludes --attention-output-gate."},
    {"down_projection_fusion_needs_mla", "mla_down_proj_fusion",
     [](O o) { return o.on("mla_down_proj_fusion") && !o.mla(); },
     "--mla-down-proj-fusion needs --multi-latent-attention."},
    {"local_attention_needs_local_spec", "attention_backend",
     [](O o) {
       if (!o.is("attention_backend", "local")) return false;
       return o.values.List("spec").empty() || o.values.List("spec").front() != "local";
     },
     "--attention-backend local needs --spec local."},
    {"one_activation", "swiglu",
     [](O o) { return o.on("swiglu") && (o.on("squared_relu") || o.on("quick_geglu")); },
     "--swiglu, --squared-relu and --quick-geglu exclude each other."},
    {"squared_relu_excludes_fusion", "bias_gelu_fusion",
     [](O o) { return o.on("squared_relu") && GeluFusion(o); },
     "--squared-relu needs --no-bias-gelu-fusion or --disable-bias-linear."},
    {"latent_experts_need_experts", "moe_latent_size",
     [](O o) { return o.has("moe_latent_size") && (!o.moe() || o.integer("moe_latent_size") < 1); },
     "--moe-latent-size needs --num-experts and must be positive."},
    {"norm_fusion_needs_rms_norm", "fused_residual_rmsnorm",
     [](O o) { return o.on("fused_residual_rmsnorm") && !o.is("normalization", "RMSNorm"); },
     "--fused-residual-rmsnorm needs --normalization RMSNorm."},
    {"fp16_cross_entropy_needs_fp16", "fp16_lm_cross_entropy",
     [](O o) { return o.on("fp16_lm_cross_entropy") && !o.on("fp16"); },
     "--fp16-lm-cross-entropy needs --fp16."},
    {"te_cross_entropy_disabled", "cross_entropy_fusion_impl",
     [](O o) {
       return o.on("cross_entropy_loss_fusion") && o.is("cross_entropy_fusion_impl", "te");
     },
     "--cross-entropy-loss-fusion needs --cross-entropy-fusion-impl native."},
    {"deterministic_mode_excludes_fusion", "deterministic_mode",
     [](O o) {
       return o.on("deterministic_mode") &&
              (o.on("cross_entropy_loss_fusion") || o.on("tp_comm_overlap"));
     },
     "--deterministic-mode excludes --cross-entropy-loss-fusion and --tp-comm-overlap."},
    {"delayed_fp8_excludes_bf16_ends", "first_last_layers_bf16",
     [](O o) {
       return o.has("fp8") && o.on("first_last_layers_bf16") && o.is("fp8_recipe", "delayed");
     },
     "--first-last-layers-bf16 excludes --fp8-recipe delayed."},
    {"custom_fp8_needs_factory", "fp8_quantizer_factory",
     [](O o) {
       return o.has("fp8") && o.is("fp8_recipe", "custom") && !o.has("fp8_quantizer_factory");
     },
     "--fp8-recipe custom needs --fp8-quantizer-factory."},

    // Optimizer and overlap.
    {"emerging_optimizer_checkpoint_format", "ckpt_format",
     [](O o) {
       return !HasPlainOptimizer(o) && !o.is("ckpt_format", "torch") &&
              !o.is("ckpt_format", "torch_dist");
     },
     "Optimizers other than adam and sgd need --ckpt-format torch or torch_dist."},
    {"optimizer_step_overlap_excluded", "overlap_param_gather_with_optimizer_step",
     [](O o) {
       return o.on("overlap_param_gather_with_optimizer_step") &&
              (!o.is("ckpt_format", "torch") || !o.on("overlap_param_gather") ||
               !o.on("use_distributed_optimizer"));
     },
     "--overlap-param-gather-with-optimizer-step needs --overlap-param-gather, "
     "--use-distributed-optimizer and --ckpt-format torch."},
    {"buckets_by_size_or_number", "ddp_num_buckets",
     [](O o) {
       return o.has("ddp_num_buckets") &&
              (o.has("ddp_bucket_size") || o.integer("ddp_num_buckets") < 1);
     },
     "--ddp-num-buckets must be positive and excludes --ddp-bucket-size."},
    {"mxfp8_buffer_needs_fp8_parameters", "reuse_grad_buf_for_mxfp8_param_ag",
     [](O o) { return o.on("reuse_grad_buf_for_mxfp8_param_ag") && !o.on("fp8_param_gather"); },
     "--reuse-grad-buf-for-mxfp8-param-ag needs --fp8-param-gather."},
    {"grouped_tensor_needs_grouped_gemm", "moe_use_grouped_tensor",
     [](O o) { return o.on("moe_use_grouped_tensor") && !o.on("moe_grouped_gemm"); },
     "--moe-use-grouped-tensor needs --moe-grouped-gemm."},
    {"early_release_needs_dispatch_overlap", "ep_overlap_early_attn_memory_release",
     [](O o) {
       return o.on("ep_overlap_early_attn_memory_release") &&
              !o.on("overlap_moe_expert_parallel_comm");
     },
     "--ep-overlap-early-attn-memory-release needs --overlap-moe-expert-parallel-comm."},
    {"cuda_graph_excludes_nan_check", "check_for_nan_in_loss_and_grad",
     [](O o) {
       return o.is("cuda_graph_impl", "full_iteration") && !o.on("fp16") &&
              o.on("check_for_nan_in_loss_and_grad");
     },
     "--cuda-graph-impl full_iteration needs --no-check-for-nan-in-loss-and-grad."},
    {"cuda_graph_whole_iteration_has_no_modules", "cuda_graph_modules",
     [](O o) {
       return o.is("cuda_graph_impl", "full_iteration") && o.has("cuda_graph_modules") &&
              !o.is("cuda_graph_modules", "full");
     },
     "--cuda-graph-impl full_iteration excludes --cuda-graph-modules."},
    {"fake_process_group_excludes_flex", "fake_process_group",
     [](O o) { return o.on("fake_process_group") && o.is("moe_token_dispatcher_type", "flex"); },
     "--fake-process-group excludes --moe-token-dispatcher-type flex."},

    // Sound to the engine, but not described by the model that plans are costed with.
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
};

}  // namespace

void CheckOptions(const OptionValues& values, const MegatronJob& job, Violations& violations) {
  const Options options{values, job};
  for (const Check& check : kChecks) {
    if (!check.broken(options)) continue;
    violations.push_back({std::string(check.rule), FlagOf(check.dest), std::string(check.message)});
  }
}

}  // namespace hapmoe::engine
