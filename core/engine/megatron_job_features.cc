// Options that contradict each other: precision, optimizer, overlap, graphs, rare features.
#include <string>

#include "core/engine/layer_pattern.h"
#include "core/engine/megatron_job_checks.h"

namespace hapmoe::engine {
namespace {

using O = const Options&;

// True if the bias and the activation of the feed-forward block are one kernel.
bool FusesActivation(O o) {
  return o.on("swiglu") ? o.on("bias_swiglu_fusion")
                        : o.on("bias_gelu_fusion") && o.on("add_bias_linear");
}

// True if some option asks for virtual stages; how many there are is for the rules to say.
bool MayInterleave(O o) {
  return o.job.parallel.layers_per_virtual_stage.has_value() ||
         o.job.parallel.virtual_stages_per_rank.value_or(1) > 1 ||
         o.job.parallel.layout.has_value();
}

// True if this module is in the list of those to capture.
bool Graphs(O o, absl::string_view module) {
  for (const std::string& given : o.job.facts.cuda_graph_modules) {
    if (given == module) return true;
  }
  return false;
}

constexpr Check kChecks[] = {
    // Optimizer and overlap.
    {"emerging_optimizer_checkpoint_format", "ckpt_format",
     [](O o) {
       return !o.plain_optimizer() && !o.is("ckpt_format", "torch") &&
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
    {"cuda_graph_modules_fit_layers", "cuda_graph_modules",
     [](O o) {
       if (!o.is("cuda_graph_impl", "local") && !o.is("cuda_graph_impl", "transformer_engine")) {
         return false;
       }
       const bool expert_layers = Graphs(o, "moe") || Graphs(o, "moe_router");
       if (Graphs(o, "moe") && Graphs(o, "moe_router")) return true;
       if (!o.moe()) return expert_layers;
       return Graphs(o, "moe") && !(o.job.facts.capacity_factor && o.job.facts.pad_to_capacity);
     },
     "--cuda-graph-modules takes moe and moe_router with experts only, not both, and moe with "
     "--moe-pad-expert-input-to-capacity only."},
    {"fake_process_group_excludes_flex", "fake_process_group",
     [](O o) { return o.on("fake_process_group") && o.is("moe_token_dispatcher_type", "flex"); },
     "--fake-process-group excludes --moe-token-dispatcher-type flex."},
    // Rare features.
    {"fp4_parameters_need_fp4", "fp4_param_gather",
     [](O o) { return o.on("fp4_param_gather") && !o.has("fp4"); },
     "--fp4-param-gather needs --fp4-format."},
    {"fp8_output_projection_needs_mxfp8", "fp8_output_proj",
     [](O o) { return o.on("fp8_output_proj") && (!o.has("fp8") || !o.is("fp8_recipe", "mxfp8")); },
     "--fp8-output-proj needs --fp8-format and --fp8-recipe mxfp8."},
    {"single_grouped_parameters_need_grouped_gemm", "moe_single_grouped_weight",
     [](O o) {
       return (o.on("moe_single_grouped_weight") || o.on("moe_single_grouped_bias")) &&
              !o.on("moe_grouped_gemm");
     },
     "--moe-single-grouped-weight and --moe-single-grouped-bias need --moe-grouped-gemm."},
    {"rank_capacity_needs_hybridep", "moe_expert_rank_capacity_factor",
     [](O o) {
       return o.has("moe_expert_rank_capacity_factor") &&
              (o.is("moe_flex_dispatcher_backend", "deepep") || o.on("moe_enable_deepep"));
     },
     "--moe-expert-rank-capacity-factor needs --moe-flex-dispatcher-backend hybridep or ncclep."},
    {"paged_stash_needs_rank_capacity", "moe_paged_stash",
     [](O o) { return o.on("moe_paged_stash") && !o.has("moe_expert_rank_capacity_factor"); },
     "--moe-paged-stash needs --moe-expert-rank-capacity-factor."},
    {"dispatch_type_needs_ncclep", "moe_dispatch_fwd_dtype",
     [](O o) {
       if (o.is("moe_dispatch_fwd_dtype", "bf16") && o.is("moe_combine_bwd_dtype", "bf16")) {
         return false;
       }
       return !o.is("moe_token_dispatcher_type", "flex") ||
              !o.is("moe_flex_dispatcher_backend", "ncclep") ||
              !o.on("use_transformer_engine_op_fuser") || !o.on("moe_grouped_gemm");
     },
     "--moe-dispatch-fwd-dtype and --moe-combine-bwd-dtype other than bf16 need the flex "
     "dispatcher with ncclep, --use-transformer-engine-op-fuser and --moe-grouped-gemm."},
    {"activation_fusion_excludes_te_activation", "use_te_activation_func",
     [](O o) { return o.on("use_te_activation_func") && FusesActivation(o); },
     "--use-te-activation-func needs --no-bias-swiglu-fusion or --no-bias-gelu-fusion."},
    {"gate_offset_needs_quick_geglu", "glu_linear_offset",
     [](O o) {
       return o.number("glu_linear_offset") != 0 && FusesActivation(o) && !o.on("quick_geglu");
     },
     "--glu-linear-offset with a fused activation needs --quick-geglu."},
    {"warm_up_overlap_needs_virtual_stages", "overlap_p2p_comm_warmup_flush",
     [](O o) {
       if (!o.on("overlap_p2p_comm_warmup_flush")) return false;
       return !o.on("overlap_p2p_comm") || !MayInterleave(o);
     },
     "--overlap-p2p-communication-warmup-flush needs virtual stages and overlapping sends."},
    {"deferred_embedding_gradient_needs_pipeline", "defer_embedding_wgrad_compute",
     [](O o) {
       return o.on("defer_embedding_wgrad_compute") &&
              (o.job.parallel.pp == 1 || !o.on("gradient_accumulation_fusion") ||
               o.integer("wgrad_deferral_limit") < 0);
     },
     "--defer-embedding-wgrad-compute needs pipeline stages and gradient accumulation fusion."},
    {"fp32_accumulation_excludes_name_patterns",
     "ddp_param_name_patterns_for_fp32_local_accumulation",
     [](O o) {
       return o.has("ddp_param_name_patterns_for_fp32_local_accumulation") &&
              (o.on("bf16") ? o.job.training.gradient_bytes == 4
                            : o.job.facts.accumulate_fp32_given);
     },
     "Gradients are summed in fp32 already; "
     "--ddp-param-name-patterns-for-fp32-local-accumulation names some of them once more."},
    {"registration_needs_fsdp", "fsdp_manual_registration",
     [](O o) {
       return o.on("fsdp_manual_registration") && (!o.on("use_megatron_fsdp") || !o.on("nccl_ub"));
     },
     "--fsdp-manual-registration needs --use-megatron-fsdp and --use-nccl-ub."},
    {"batch_invariance_needs_flash_attention", "batch_invariant_mode",
     [](O o) {
       const int64_t version = o.integer("flash_attention_version");
       return o.on("batch_invariant_mode") &&
              (!o.on("bf16") || !o.is("attention_backend", "flash") || version < 3 ||
               o.job.parallel.cp > 1 || o.job.training.attention_dropout != 0);
     },
     "--batch-invariant-mode needs --bf16, --attention-backend flash, --flash-attention-version 3 "
     "or 4, no context parallelism and no attention dropout."},
    {"xavier_initialization_broken", "init_method_xavier_uniform",
     [](O o) { return o.on("init_method_xavier_uniform"); },
     "--init-method-xavier-uniform ends this version of Megatron-LM at start-up."},
    {"rope_skips_divide_layers", "no_rope_freq",
     [](O o) {
       const std::string text = o.values.Text("no_rope_freq");
       if (text.empty()) return false;
       if (text.find('[') == std::string::npos) {
         const int64_t every = o.integer("no_rope_freq");
         return every != 0 && (every < 0 || o.job.model.layers % every != 0);
       }
       const auto pattern = EvaluateLayerPattern(text);
       return pattern.has_value() && !pattern->empty() &&
              static_cast<int64_t>(pattern->size()) != o.job.model.layers;
     },
     "--no-rope-freq must divide the layers, or list all of them."},
    {"qk_clip_alpha_range", "qk_clip_alpha",
     [](O o) {
       return o.on("qk_clip") &&
              (o.number("qk_clip_alpha") <= 0 || o.number("qk_clip_alpha") >= 1 ||
               o.number("qk_clip_threshold") <= 0);
     },
     "--qk-clip needs --qk-clip-alpha between 0 and 1 and a positive --qk-clip-threshold."},
    {"inference_option_needs_inference_implementation", "transformer_impl",
     [](O o) {
       return !o.is("transformer_impl", "inference_optimized") &&
              (o.on("inference_fuse_tp_communication") ||
               o.on("inference_disable_triton_nvls_kernels"));
     },
     "--inference-fuse-tp-communication and --inference-disable-triton-nvls-kernels need "
     "--transformer-impl inference_optimized."},
    {"inference_graph_scope", "inference_cuda_graph_scope",
     [](O o) {
       if (!o.has("inference_cuda_graph_scope")) return false;
       return o.is("inference_cuda_graph_scope", "none") == o.is("cuda_graph_impl", "local");
     },
     "--inference-cuda-graph-scope layer or block goes with --cuda-graph-impl local, and only "
     "so."},
    {"inference_batches_need_pipeline", "inference_batch_times_seqlen_threshold",
     [](O o) {
       return o.integer("inference_batch_times_seqlen_threshold") > -1 && o.job.parallel.pp == 1;
     },
     "--inference-batch-times-seqlen-threshold needs pipeline stages."},
    {"weight_shard_modules_known", "gtp_remat_opt_in_modules",
     [](O o) {
       for (const std::string& name : o.values.List("gtp_remat_opt_in_modules")) {
         if (name != "moe_latent_proj") return true;
       }
       return false;
     },
     "--gtp-remat-opt-in-modules takes moe_latent_proj only."},
};

}  // namespace

absl::Span<const Check> FeatureChecks() { return kChecks; }

}  // namespace hapmoe::engine
