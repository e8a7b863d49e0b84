// Refused: layouts and recomputation.
#include "tests/core/engine/refusals.h"

namespace hapmoe::engine {

std::vector<Refusal> Layouts() {
  const auto layout = [](const std::string& text) {
    return DenseTp2Pp4("--pipeline-model-parallel-layout " + text);
  };
  const auto latent = [](const std::string& text) {
    return L(
        "--pipeline-model-parallel-size 8 --expert-model-parallel-size 64 "
        "--expert-tensor-parallel-size 1 --pipeline-model-parallel-layout " +
        text);
  };
  const auto two_mtp = [&](const std::string& text) {
    return With(latent(text), "--mtp-num-layers 2");
  };
  return {
      {"Decoders",
       layout("Et*7|t*8|t*8|t*8L"),
       8,
       {"layout_decoder_count"},
       "31 decoder layers, the model 32"},
      {"Stages", layout("Et*8|t*8|t*16L"), 8, {"layout_stages_divisible_by_pp"}, "3 stages"},
      {"NoLoss", layout("Et*8|t*8|t*8|t*8"), 8, {"layout_ends_with_loss"}, "ends with t"},
      {"LossEarly", layout("Et*8|t*8L|t*8|t*8"), 8, {"layout_ends_with_loss"}, "ends with t"},
      {"NoEmbedding",
       layout("t*8|t*8|t*8|t*8L"),
       8,
       {"layout_starts_with_embedding"},
       "starts with t"},
      {"TwoEmbeddings", layout("Et*8|Et*8|t*8|t*8L"), 8, {"layout_one_embedding"}, "2 times"},
      {"TwoLosses", layout("Et*8|t*8|t*8L|t*8L"), 8, {"layout_one_loss"}, "2 times"},
      {"Letter", layout("Et*8|d*8|t*8|t*8L"), 8, {"layout_syntax"}, "'d'"},
      {"MtpWithoutModel",
       layout("Et*8|t*8|t*8|t*8mL"),
       8,
       {"layout_mtp_count"},
       "1 multi-token prediction layers, the model 0"},
      {"MtpMissing",
       latent("Et*7|(t*8|)*6t*6L"),
       512,
       {"layout_mtp_count"},
       "0 multi-token prediction layers, the model 1"},
      {"MtpBeforeDecoder",
       latent("Et*7|(t*8|)*6mt*6L"),
       512,
       {"layout_mtp_after_decoders"},
       "after a multi-token prediction layer"},
      {"MtpEarly",
       L("--tensor-model-parallel-size 2 --sequence-parallel --pipeline-model-parallel-size 16 "
         "--expert-model-parallel-size 64 --expert-tensor-parallel-size 1 "
         "--pipeline-model-parallel-layout Et*31|t*30m|(|)*29L"),
       1024,
       {"layout_mtp_in_last_virtual_stage"},
       "virtual stage 0 of pipeline rank 1"},
      {"MtpInTwoStages",
       two_mtp("Et*15|(t*8|)*4t*8|t*6m|mL"),
       512,
       {"layout_mtp_together"},
       "2 stages"},
  };
}

std::vector<Refusal> Recomputation() {
  const auto full = [](const std::string& words) {
    return DenseTp2Pp4("--recompute-granularity full " + words);
  };
  const auto selective = [](const std::string& words) {
    return DenseTp2Pp4("--recompute-granularity selective " + words);
  };
  return {
      {"FullWithoutMethod",
       full("--recompute-num-layers 1"),
       8,
       {"full_recompute_needs_method"},
       "--recompute-method"},
      {"FullWithoutLayers",
       full("--recompute-method block"),
       8,
       {"full_recompute_needs_layers"},
       "--recompute-num-layers"},
      {"SelectiveWithMethod",
       selective("--recompute-method block"),
       8,
       {"selective_recompute_excludes_method"},
       "--recompute-method"},
      {"SelectiveWithLayers",
       selective("--recompute-num-layers 1"),
       8,
       {"selective_recompute_excludes_layers"},
       "which is 1"},
      {"UniformZero",
       full("--recompute-method uniform --recompute-num-layers 0"),
       8,
       {"uniform_recompute_needs_layers"},
       "never ends"},
      {"UniformMtp",
       L("--expert-model-parallel-size 8 --expert-tensor-parallel-size 1 "
         "--recompute-granularity full --recompute-method uniform --recompute-num-layers 2"),
       512,
       {"uniform_recompute_of_mtp_takes_one_layer"},
       "not 2"},
      {"UnknownModule",
       selective("--recompute-modules attn"),
       8,
       {"recompute_modules_known"},
       "no module attn"},
      {"MoeActWithoutGroupedGemm",
       selective("--recompute-modules moe_act"),
       8,
       {"expert_activation_recompute_needs_grouped_gemm"},
       "moe_act"},
      {"MlaUpWithoutMla",
       selective("--recompute-modules mla_up_proj"),
       8,
       {"mla_recompute_needs_mla"},
       "mla_up_proj"},
      {"GdnWithoutGdn",
       selective("--recompute-modules gdn_norm_out"),
       8,
       {"gdn_recompute_needs_gdn"},
       "gdn_norm_out"},
      {"SharedExpertsWithOverlap",
       E("--recompute-granularity selective --recompute-modules shared_experts "
         "--moe-shared-expert-intermediate-size 2048 --moe-shared-expert-overlap"),
       8,
       {"shared_expert_recompute_excludes_overlap"},
       "shared_experts"},
      {"DelayedFp8",
       selective("--recompute-modules layernorm --fp8-format hybrid"),
       8,
       {"delayed_fp8_excludes_norm_recompute"},
       "delayed"},
      {"MoeLayerAndFull",
       full("--recompute-method block --recompute-num-layers 1 --moe-layer-recompute"),
       8,
       {"full_recompute_excludes_moe_layer_recompute"},
       "--moe-layer-recompute"},
      {"DistributedWithoutTp",
       D("--distribute-saved-activations --recompute-granularity full --recompute-method block "
         "--recompute-num-layers 1"),
       8,
       {"distributed_activations_need_tensor_parallel"},
       "above 1"},
      {"DistributedWithoutFull",
       D("--tensor-model-parallel-size 2 --distribute-saved-activations"),
       8,
       {"distributed_activations_need_full_recompute"},
       "full"},
      {"DistributedWithSequenceParallel",
       full("--distribute-saved-activations --recompute-method block --recompute-num-layers 1"),
       8,
       {"distributed_activations_exclude_sequence_parallel"},
       "--sequence-parallel"},
      {"OffloadAllLayers",
       D("--cpu-offloading-num-layers 32"),
       8,
       {"unsupported_activation_offload", "cpu_offload_within_layers"},
       ""},
      {"OffloadAndPipeline",
       DenseTp2Pp4("--cpu-offloading-num-layers 2"),
       8,
       {"cpu_offload_excludes_pipeline"},
       "size is 4"},
      {"OffloadAndRecompute",
       D("--cpu-offloading-num-layers 2 --recompute-activations"),
       8,
       {"cpu_offload_excludes_recompute"},
       "recomputation"},
      {"TwoOffloads",
       DenseTp2Pp4("--cpu-offloading-num-layers 2 --fine-grained-activation-offloading "
                   "--offload-modules moe_act"),
       8,
       {"unsupported_activation_offload", "cpu_offload_excludes_pipeline",
        "fine_grained_offload_excludes_cpu_offload", "fine_grained_offload_variable"},
       ""},
      {"FineGrainedOffloadLocal",
       D("--fine-grained-activation-offloading --offload-modules core_attn "
         "--transformer-impl local"),
       8,
       {"unsupported_activation_offload", "fine_grained_offload_needs_transformer_engine"},
       "",
       {{"NVTE_CPU_OFFLOAD_V1", "1"}}},
      {"GraphAndAttentionDropout",
       selective("--cuda-graph-impl local"),
       8,
       {"cuda_graph_excludes_attention_dropout_recompute"},
       "not 0.1"},
      {"GraphAndHiddenDropout",
       selective("--cuda-graph-impl transformer_engine --recompute-modules mlp"),
       8,
       {"cuda_graph_excludes_hidden_dropout_recompute"},
       "not 0.1"},
      {"RouterGraphAndMoe",
       E("--recompute-granularity selective --recompute-modules moe "
         "--cuda-graph-impl transformer_engine --cuda-graph-modules moe_router"),
       8,
       {"cuda_graph_of_router_excludes_moe_recompute"},
       "moe_router"},
      {"GraphAndFull",
       full("--recompute-method block --recompute-num-layers 1 "
            "--cuda-graph-impl transformer_engine"),
       8,
       {"cuda_graph_excludes_full_recompute"},
       "not transformer_engine"},
  };
}

}  // namespace hapmoe::engine
