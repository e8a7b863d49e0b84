// Options that contradict each other: training, checkpoints, data, shape.
#include "core/engine/megatron_job_checks.h"

#include <string>

#include "core/engine/megatron_job_reading.h"

namespace hapmoe::engine {
namespace {

using O = const Options&;

bool GivesData(O o, bool per_split) {
  if (!per_split) return o.has("data_path") && !o.values.List("data_path").empty();
  return o.has("train_data_path") || o.has("valid_data_path") || o.has("test_data_path");
}

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
              o.plain_optimizer() && o.on("use_distributed_optimizer");
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

    {"memory_log_interval", "log_memory_interval",
     [](O o) {
       const int64_t interval = o.integer("log_interval");
       return o.has("log_memory_interval") && interval > 0 &&
              o.integer("log_memory_interval") % interval != 0;
     },
     "--log-memory-interval must be a multiple of --log-interval."},
    {"checkpoint_conversion_needs_paths", "ckpt_convert_format",
     [](O o) {
       return o.has("ckpt_convert_format") && (!o.has("ckpt_convert_save") || !o.has("load"));
     },
     "--ckpt-convert-format needs --ckpt-convert-save and --load."},
    {"replication_needs_jump", "replication",
     [](O o) {
       return o.on("replication") &&
              (!o.has("replication_jump") || !o.is("non_persistent_ckpt_type", "local"));
     },
     "--replication needs --replication-jump and --non-persistent-ckpt-type local."},
    {"saved_logits_need_top_k", "logits_save_dir",
     [](O o) {
       return o.has("logits_save_dir") && (!o.has("logits_save_top_k") || !o.on("async_save") ||
                                           !o.on("use_persistent_ckpt_worker"));
     },
     "--logits-save-dir needs --logits-save-top-k, --async-save and "
     "--use-persistent-ckpt-worker."},

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
};

}  // namespace

absl::Span<const Check> JobChecks() { return kChecks; }

void CheckOptions(const OptionValues& values, const MegatronJob& job, Violations& violations) {
  const Options options{values, job};
  for (absl::Span<const Check> checks : {JobChecks(), FeatureChecks(), UnsupportedChecks()}) {
    for (const Check& check : checks) {
      if (!check.broken(options)) continue;
      violations.push_back(
          {std::string(check.rule), FlagOf(check.dest), std::string(check.message)});
    }
  }
}

}  // namespace hapmoe::engine
