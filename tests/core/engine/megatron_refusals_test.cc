// Jobs that Megatron-LM refuses: each is refused here too, by exactly the rules it breaks.
#include <set>
#include <string>
#include <vector>

#include "core/engine/megatron_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/engine/argument_lists.h"

namespace hapmoe::engine {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const plan::Environment kOneConnection = {{"CUDA_DEVICE_MAX_CONNECTIONS", "1"}};

struct Refusal {
  std::string name;
  Argv argv;
  int64_t world_size;
  std::vector<std::string> rules;
  std::string words;  // Held by the first message.
  plan::Environment environment = kOneConnection;
  int architecture = 9;
};

Violations Check(const Argv& argv, int64_t world_size, const plan::Environment& environment,
                 int architecture = 9) {
  Violations violations;
  const MegatronJob job = ParseMegatronJob(argv, violations);
  const Violations more = CheckMegatronJob(
      job, {.world_size = world_size, .environment = &environment, .architecture = architecture});
  violations.insert(violations.end(), more.begin(), more.end());
  return violations;
}

const char kTp2Pp4[] =
    "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 4 --sequence-parallel ";

Argv D(const std::string& words) { return With(Dense(), words); }
Argv DenseTp2Pp4(const std::string& words) { return With(Dense(), kTp2Pp4 + words); }
Argv E(const std::string& words) { return With(Experts(), words); }
Argv L(const std::string& words) { return With(Latent(), words); }

std::vector<Refusal> WorldAndDimensions() {
  return {
      {"WorldNotDivisible",
       DenseTp2Pp4(""),
       12,
       {"world_divisible_by_tp_pp_cp"},
       "world size 12 is not divisible by tensor x pipeline x context = 2 x 4 x 1 = 8"},
      {"WorldNotDivisibleByExpertGrid",
       E("--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --sequence-parallel "
         "--expert-model-parallel-size 8 --expert-tensor-parallel-size 1 --global-batch-size 120"),
       24,
       {"world_divisible_by_etp_ep_pp"},
       "world size 24 is not divisible by expert tensor x expert x pipeline = 1 x 8 x 2 = 16"},
      {"MappingNeedsEqualDataParallel",
       E("--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --sequence-parallel "
         "--expert-model-parallel-size 4 --expert-tensor-parallel-size 1 --use-tp-pp-dp-mapping"),
       32,
       {"data_outermost_needs_equal_data_parallel"},
       "data parallel size 8"},
      {"ExpertParallelWithoutExperts",
       D("--expert-model-parallel-size 2"),
       8,
       {"expert_parallel_needs_experts"},
       "size 2"},
      {"ExpertsNotDivisible",
       E("--expert-model-parallel-size 3 --global-batch-size 120"),
       6,
       {"experts_divisible_by_ep"},
       "8 experts are not divisible by expert parallel size 3"},
      {"OptimizerInstances",
       D("--num-distributed-optimizer-instances 3"),
       8,
       {"data_parallel_divisible_by_optimizer_instances"},
       "8 x 1"},
      {"ExpertOptimizerInstances",
       E("--num-distributed-optimizer-instances 4 --expert-model-parallel-size 4"),
       8,
       {"expert_data_parallel_divisible_by_optimizer_instances"},
       "experts, 2,"},
      {"HierarchicalProduct",
       D("--context-parallel-size 4 --hierarchical-context-parallel-sizes 2 4"),
       8,
       {"hierarchical_cp_product"},
       "2 x 4"},
      {"HierarchicalSizesMissing",
       D("--context-parallel-size 4 --cp-comm-type a2a+p2p"),
       8,
       {"hierarchical_cp_sizes_given"},
       "a2a+p2p"},
      {"CommunicationForEachLayer",
       D("--context-parallel-size 2 --cp-comm-type p2p a2a"),
       8,
       {"cp_communication_for_each_layer"},
       "2 kinds"},
      {"HeadsNotDivisible",
       D("--tensor-model-parallel-size 3 --sequence-parallel --ffn-hidden-size 14337 "
         "--num-query-groups 1 --seq-length 6144 --global-batch-size 4"),
       12,
       {"heads_divisible_by_tp"},
       "32 attention heads are not divisible by tensor parallel size 3"},
      {"QueryGroups",
       D("--tensor-model-parallel-size 12 --num-attention-heads 48 --hidden-size 6144 "
         "--ffn-hidden-size 14400 --seq-length 6144 --sequence-parallel --global-batch-size 12"),
       12,
       {"query_groups_multiple_or_divisor_of_tp"},
       "8 query groups are neither a multiple nor a divisor of tensor parallel size 12"},
      {"HeadsInGroups",
       D("--num-query-groups 5"),
       8,
       {"heads_divisible_by_query_groups"},
       "5 query groups"},
      {"FeedForward",
       D("--tensor-model-parallel-size 8 --sequence-parallel "
         "--ffn-hidden-size 14340"),
       8,
       {"ffn_divisible_by_tp"},
       "14340"},
      {"SharedExpertWidth",
       E("--tensor-model-parallel-size 8 --sequence-parallel --expert-tensor-parallel-size 1 "
         "--moe-shared-expert-intermediate-size 2052"),
       8,
       {"shared_expert_width_divisible_by_tp"},
       "2052"},
      {"ExpertWidth",
       E("--expert-tensor-parallel-size 3 --global-batch-size 12"),
       6,
       {"expert_width_divisible_by_etp"},
       "14336 is not divisible by expert tensor parallel size 3"},
      {"Vocabulary",
       DenseTp2Pp4("--padded-vocab-size 50257"),
       8,
       {"vocabulary_divisible_by_tp"},
       "50257"},
      {"TwiceContext",
       D("--context-parallel-size 3 --global-batch-size 2"),
       6,
       {"sequence_divisible_by_twice_cp"},
       "2 x 3 = 6"},
      {"Positions",
       D("--max-position-embeddings 4096"),
       8,
       {"sequence_within_positions"},
       "8192 exceeds the 4096"},
      {"SequenceParallel",
       D("--tensor-model-parallel-size 8 --sequence-parallel "
         "--seq-length 8188"),
       8,
       {"sequence_divisible_by_cp_tp"},
       "8188 / 1 = 8188"},
      {"HiddenByHeads",
       Without(D("--hidden-size 4100"), "--kv-channels"),
       8,
       {"hidden_divisible_by_heads"},
       "4100 is not divisible by 32"},
      {"MlaAndGroups",
       L("--group-query-attention --num-query-groups 8 --expert-model-parallel-size 8 "
         "--expert-tensor-parallel-size 1"),
       512,
       {"mla_excludes_query_groups"},
       "exclude each other"},
      {"LinearAttentionHeads",
       D("--experimental-attention-variant gdn --linear-attention-freq 4 "
         "--linear-num-key-heads 6 --tensor-model-parallel-size 4 --sequence-parallel"),
       8,
       {"unsupported_attention_variant", "linear_attention_heads_divisible_by_tp_cp"},
       ""},
      {"Connections", DenseTp2Pp4(""), 8, {"connections_variable_is_one"}, "to be 1", {}},
      {"ConnectionsNotOne",
       D("--context-parallel-size 2"),
       8,
       {"connections_variable_is_one"},
       "to be 1",
       {{"CUDA_DEVICE_MAX_CONNECTIONS", "8"}}},
      {"FsdpWithOneConnection",
       D("--use-megatron-fsdp --ckpt-format fsdp_dtensor"),
       8,
       {"unsupported_fsdp", "fsdp_excludes_single_connection"},
       ""},
      {"GroupedGemmOnVolta", E(""), 8, {"grouped_gemm_needs_sm80"}, "not 7", kOneConnection, 7},
  };
}

std::vector<Refusal> BatchAndLayers() {
  const std::string vpp2 = "--num-virtual-stages-per-pipeline-rank 2 ";
  return {
      {"GlobalBatch",
       D(""),
       24,
       {"global_batch_divisible_by_micro_batch_dp"},
       "128 is not divisible by micro-batch x data parallel = 1 x 24 = 24"},
      {"EvalBatch",
       D("--eval-global-batch-size 12"),
       8,
       {"eval_batch_divisible_by_micro_batch_dp"},
       "12"},
      {"NoMicroBatch",
       D("--micro-batch-size 4 --global-batch-size 16 --decrease-batch-size-if-needed "
         "--eval-global-batch-size 32"),
       8,
       {"at_least_one_micro_batch"},
       "16 holds no micro-batch of 4"},
      {"BatchAndSchedule",
       D("--step-batch-size-schedule 0:128"),
       8,
       {"global_batch_excludes_schedule"},
       "128"},
      {"LayersNotDivisible",
       DenseTp2Pp4("--num-layers 30"),
       8,
       {"layers_divisible_by_pp"},
       "30 layers are not divisible by pipeline parallel size 4"},
      {"LayersAndEndsNotDivisible",
       DenseTp2Pp4("--account-for-embedding-in-pipeline-split"),
       8,
       {"layers_and_ends_divisible_by_pp"},
       "33"},
      {"MiddleNotDivisible",
       DenseTp2Pp4("--decoder-first-pipeline-num-layers 8 --decoder-last-pipeline-num-layers 7"),
       8,
       {"middle_stages_divide_layers"},
       "17 layers are left for 2 stages"},
      {"NoMiddleStages",
       D("--pipeline-model-parallel-size 2 --decoder-first-pipeline-num-layers 8 "
         "--decoder-last-pipeline-num-layers 8"),
       8,
       {"middle_stages_divide_layers"},
       "16 layers are left for 0 stages"},
      {"FirstStageEmpty",
       DenseTp2Pp4("--decoder-first-pipeline-num-layers 0"),
       8,
       {"first_last_stage_layers_positive"},
       "0"},
      {"LayoutAndFirst",
       DenseTp2Pp4("--pipeline-model-parallel-layout Et*8|t*8|t*8|t*8L "
                   "--decoder-first-pipeline-num-layers 8"),
       8,
       {"layout_excludes_split_options"},
       "excludes"},
      {"LayoutAndLayersPerVirtualStage",
       DenseTp2Pp4("--pipeline-model-parallel-layout Et*8|t*8|t*8|t*8L "
                   "--num-layers-per-virtual-pipeline-stage 4"),
       8,
       {"one_virtual_stage_option"},
       "exclude each other"},
      {"FirstAndAccountFor",
       DenseTp2Pp4("--decoder-first-pipeline-num-layers 8 "
                   "--account-for-loss-in-pipeline-split"),
       8,
       {"first_last_excludes_account_for"},
       "account-for"},
      {"FirstAndLayersPerVirtualStage",
       DenseTp2Pp4("--decoder-first-pipeline-num-layers 8 "
                   "--num-layers-per-virtual-pipeline-stage 4"),
       8,
       {"first_last_excludes_layers_per_virtual_stage"},
       "--num-virtual-stages"},
      {"VirtualStageLayers",
       DenseTp2Pp4("--num-layers-per-virtual-pipeline-stage 3"),
       8,
       {"stage_layers_divisible_by_layers_per_virtual_stage"},
       "8 layers of a stage"},
      {"VirtualStages",
       DenseTp2Pp4("--num-virtual-stages-per-pipeline-rank 3"),
       8,
       {"stage_layers_divisible_by_virtual_stages"},
       "3 virtual stages"},
      {"VirtualStagesOfEnds",
       DenseTp2Pp4(vpp2 + "--decoder-first-pipeline-num-layers 5 "
                          "--decoder-last-pipeline-num-layers 7"),
       8,
       {"stage_layers_divisible_by_virtual_stages"},
       "(5, 7 and 10)"},
      {"VirtualStagesOfOneRank", D(vpp2), 8, {"virtual_stages_need_pipeline"}, "above 1"},
      {"VirtualStagesWithoutOverlap",
       D("--pipeline-model-parallel-size 2 --no-overlap-p2p-communication " + vpp2),
       8,
       {"virtual_stages_need_pipeline"},
       "above 2"},
      {"TooFewMicroBatches",
       DenseTp2Pp4(vpp2 + "--global-batch-size 4"),
       16,
       {"interleaving_group_in_range"},
       "pipeline parallel size 4 to the 2 micro-batches"},
      // 6 micro-batches in runs of 4 leave 2.
      {"Remainder",
       DenseTp2Pp4(vpp2 + "--global-batch-size 6"),
       8,
       {"interleaving_remainder"},
       "6 micro-batches in runs of 4 leave 2"},
      {"MtpPositions",
       With(Without(L("--pipeline-model-parallel-size 1 --expert-model-parallel-size 8 "
                      "--expert-tensor-parallel-size 1"),
                    "--position-embedding-type"),
            "--use-rotary-position-embeddings"),
       512,
       {"mtp_positions"},
       "rope or none"},
  };
}

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
      {"GraphAndFull",
       full("--recompute-method block --recompute-num-layers 1 "
            "--cuda-graph-impl transformer_engine"),
       8,
       {"cuda_graph_excludes_full_recompute"},
       "not transformer_engine"},
  };
}

std::vector<Refusal> ExpertOptions() {
  const std::string overlap = "--overlap-moe-expert-parallel-comm --expert-model-parallel-size 4 ";
  return {
      {"TpWithoutSequenceParallel",
       E("--tensor-model-parallel-size 2 --expert-tensor-parallel-size 1"),
       8,
       {"experts_with_tp_need_sequence_parallel"},
       "--sequence-parallel"},
      {"DeepepFlag", E("--moe-enable-deepep"), 8, {"deepep_needs_flex"}, "not alltoall"},
      {"DeepepAndHybridep",
       E("--moe-enable-deepep --moe-token-dispatcher-type flex --expert-model-parallel-size 2 "
         "--moe-flex-dispatcher-backend hybridep"),
       8,
       {"deepep_excludes_hybridep"},
       "hybridep"},
      {"DeepepAlone",
       E("--moe-token-dispatcher-type flex"),
       8,
       {"flex_needs_expert_ranks"},
       "1 x 1"},
      {"DeepepAndPadding",
       E("--moe-token-dispatcher-type flex --expert-model-parallel-size 2 "
         "--moe-pad-expert-input-to-capacity --moe-expert-capacity-factor 1.0"),
       8,
       {"deepep_excludes_pad_to_capacity"},
       "deepep"},
      {"NcclepWithoutFlex",
       E("--moe-flex-dispatcher-backend ncclep"),
       8,
       {"ncclep_needs_flex"},
       "not alltoall"},
      {"NcclepAndCapacity",
       E("--moe-token-dispatcher-type flex --expert-model-parallel-size 2 "
         "--moe-flex-dispatcher-backend ncclep --moe-expert-capacity-factor 1.0"),
       8,
       {"ncclep_excludes_capacity"},
       "ncclep"},
      {"PadWithoutCapacity",
       E("--moe-pad-expert-input-to-capacity"),
       8,
       {"pad_to_capacity_needs_capacity_factor"},
       "--moe-expert-capacity-factor"},
      {"CapacityAndSinkhorn",
       E("--moe-expert-capacity-factor 1.0 --moe-router-load-balancing-type sinkhorn"),
       8,
       {"capacity_factor_needs_auxiliary_loss"},
       "aux_loss"},
      {"SharedOverlapAllgather",
       E("--moe-shared-expert-intermediate-size 2048 --moe-shared-expert-overlap "
         "--moe-token-dispatcher-type allgather"),
       8,
       {"shared_expert_overlap_needs_all_to_all"},
       "allgather"},
      {"ExpertBias",
       With(Without(Without(Experts(), "--disable-bias-linear"), "--moe-grouped-gemm"),
            "--expert-tensor-parallel-size 2"),
       8,
       {"expert_bias_needs_etp_one"},
       "size 1, but it is 2"},
      {"SharedExpertBias",
       With(Without(Without(Experts(), "--disable-bias-linear"), "--moe-grouped-gemm"),
            "--moe-shared-expert-intermediate-size 2048"),
       8,
       {"shared_experts_exclude_bias"},
       "--disable-bias-linear"},
      {"GroupedGemmBias",
       Without(Experts(), "--disable-bias-linear"),
       8,
       {"grouped_gemm_bias_excludes_dropout_fusion"},
       "--no-bias-dropout-fusion"},
      {"TopkOne",
       E("--moe-router-topk 1"),
       8,
       {"topk_one_needs_pre_softmax"},
       "--moe-router-pre-softmax"},
      {"TopkMany", E("--moe-router-topk 9"), 8, {"topk_within_experts"}, "9 of only 8"},
      {"ExpertBiasSoftmax",
       E("--moe-router-enable-expert-bias"),
       8,
       {"expert_bias_needs_sigmoid"},
       "not softmax"},
      {"TwoBalancings",
       E("--moe-router-load-balancing-type aux_loss seq_aux_loss --moe-aux-loss-coeff 0.1"),
       8,
       {"auxiliary_loss_for_each_balancing"},
       "2 kinds"},
      {"GroupsMissing",
       E("--moe-router-group-topk 2"),
       8,
       {"group_routing_needs_groups"},
       "--moe-router-num-groups"},
      {"GroupsNotDivisible",
       E("--moe-router-group-topk 2 --moe-router-num-groups 3"),
       8,
       {"group_routing_divides_experts"},
       "3 groups"},
      {"GroupTopk",
       E("--moe-router-group-topk 8 --moe-router-num-groups 4"),
       8,
       {"group_topk_within_groups"},
       "8 of only 4"},
      {"PaddingWithoutFp8",
       E("--moe-router-padding-for-fp8"),
       8,
       {"router_padding_needs_low_precision"},
       "--fp8-format"},
      {"PaddingAllgather",
       E("--moe-router-padding-for-fp8 --fp8-format hybrid "
         "--moe-token-dispatcher-type allgather"),
       8,
       {"router_padding_excludes_allgather"},
       "allgather"},
      {"PatternLength",
       E("--moe-layer-freq [1]*31"),
       8,
       {"layer_pattern_length"},
       "lists 31 layers, the model has 32"},
      {"ExpertWidthAlone",
       D("--moe-ffn-hidden-size 1024"),
       8,
       {"expert_width_needs_experts"},
       "--num-experts"},
      {"OverlapWithoutVirtualStages",
       E(overlap + "--pipeline-model-parallel-size 2"),
       8,
       {"dispatch_overlap_needs_virtual_stages"},
       "2 pipeline stages"},
      {"OverlapWithoutExpertParallel",
       E("--overlap-moe-expert-parallel-comm"),
       8,
       {"dispatch_overlap_needs_expert_parallel"},
       "above 1"},
      {"OverlapAllgather",
       E(overlap + "--moe-token-dispatcher-type allgather"),
       8,
       {"dispatch_overlap_needs_all_to_all"},
       "allgather"},
      {"OverlapFull",
       E(overlap + "--recompute-granularity full --recompute-method block "
                   "--recompute-num-layers 1"),
       8,
       {"dispatch_overlap_excludes_full_recompute"},
       "full"},
      {"OverlapMoeRecompute",
       E(overlap + "--recompute-granularity selective --recompute-modules moe"),
       8,
       {"dispatch_overlap_excludes_moe_recompute"},
       "moe"},
      {"OverlapFp32",
       Without(E(overlap), "--bf16"),
       8,
       {"dispatch_overlap_needs_half_precision"},
       "--bf16"},
      {"OverlapShared",
       E(overlap + "--moe-shared-expert-intermediate-size 2048 --moe-shared-expert-overlap"),
       8,
       {"dispatch_overlap_excludes_shared_expert_overlap"},
       "--moe-shared-expert-overlap"},
      {"OverlapMtp",
       E(overlap + "--mtp-num-layers 2"),
       8,
       {"dispatch_overlap_takes_one_mtp_layer"},
       "not 2"},
      {"DelayAlone",
       E("--delay-wgrad-compute"),
       8,
       {"weight_gradient_delay_needs_dispatch_overlap"},
       "--delay-wgrad-compute"},
  };
}

std::vector<Refusal> OptimizerAndPrecision() {
  const Argv replicated = Without(Dense(), "--use-distributed-optimizer");
  return {
      {"GatherWithoutShards",
       With(replicated, "--overlap-param-gather --overlap-grad-reduce"),
       8,
       {"parameter_gather_overlap_needs_distributed_optimizer"},
       "--use-distributed-optimizer"},
      {"GatherWithoutReduce",
       D("--overlap-param-gather"),
       8,
       {"parameter_gather_overlap_needs_gradient_overlap"},
       "--overlap-grad-reduce"},
      {"OptimizerOffload",
       D("--optimizer-cpu-offload"),
       8,
       {"optimizer_offload_needs_precision_aware"},
       "--use-precision-aware-optimizer"},
      {"OptimizerOffloadFp8",
       D("--optimizer-cpu-offload --use-precision-aware-optimizer --fp8-format hybrid "
         "--fp8-param-gather --fp8-recipe blockwise"),
       8,
       {"optimizer_offload_needs_delayed_fp8"},
       "blockwise"},
      {"PrecisionAwareSgd",
       D("--optimizer sgd --use-precision-aware-optimizer"),
       8,
       {"precision_aware_needs_adam"},
       "not sgd"},
      {"LowPrecisionStates",
       D("--exp-avg-dtype bf16"),
       8,
       {"low_precision_states_need_precision_aware"},
       "4, 4, 2 and 4 bytes"},
      {"AccumulateFp32",
       D("--accumulate-allreduce-grads-in-fp32 --main-grads-dtype bf16 "
         "--use-precision-aware-optimizer"),
       8,
       {"fp32_accumulation_needs_fp32_gradients"},
       "fp32"},
      {"TwoPrecisions", D("--fp16"), 8, {"bf16_excludes_fp16"}, "exclude each other"},
      {"Fp32Residual",
       Without(D("--fp32-residual-connection"), "--bf16"),
       8,
       {"fp32_residual_needs_half_precision"},
       "--bf16"},
      {"Fp8Parameters",
       With(replicated, "--fp8-param-gather --fp8-format hybrid"),
       8,
       {"fp8_parameters_need_distributed_optimizer"},
       "--use-distributed-optimizer"},
      {"Fp8ParametersWithoutFp8",
       D("--fp8-param-gather"),
       8,
       {"fp8_parameters_need_fp8"},
       "--fp8-format"},
      {"Fsdp2Pipeline",
       With(replicated, "--use-torch-fsdp2 --pipeline-model-parallel-size 2"),
       8,
       {"unsupported_fsdp", "fsdp2_excludes_pipeline"},
       "",
       {}},
      {"Fsdp2Experts",
       Without(E("--use-torch-fsdp2 --expert-model-parallel-size 2"),
               "--use-distributed-optimizer"),
       8,
       {"unsupported_fsdp", "fsdp2_excludes_expert_parallel"},
       "",
       {}},
      {"Fsdp2Shards",
       D("--use-torch-fsdp2"),
       8,
       {"unsupported_fsdp", "fsdp2_excludes_distributed_optimizer"},
       "",
       {}},
      {"TpOverlap",
       D("--tp-comm-overlap --sequence-parallel"),
       8,
       {"tensor_parallel_overlap_needs_sequence_parallel"},
       "which is 1"},
  };
}

std::vector<Refusal> All() {
  std::vector<Refusal> all;
  for (auto* part : {&WorldAndDimensions, &BatchAndLayers, &Layouts, &Recomputation, &ExpertOptions,
                     &OptimizerAndPrecision}) {
    for (Refusal& refusal : (*part)()) all.push_back(std::move(refusal));
  }
  return all;
}

class RefusalTest : public ::testing::TestWithParam<Refusal> {};

TEST_P(RefusalTest, NamesTheRulesAndTheValues) {
  const Refusal& refusal = GetParam();
  const Violations violations =
      Check(refusal.argv, refusal.world_size, refusal.environment, refusal.architecture);
  std::vector<std::string> rules;
  std::string messages;
  for (const Violation& violation : violations) {
    rules.push_back(violation.rule);
    messages += violation.message + "\n";
  }
  EXPECT_THAT(rules, ElementsAreArray(refusal.rules)) << messages;
  EXPECT_THAT(messages.substr(0, messages.find('\n')), HasSubstr(refusal.words));
}

INSTANTIATE_TEST_SUITE_P(Rules, RefusalTest, ::testing::ValuesIn(All()),
                         [](const auto& param_info) { return param_info.param.name; });

TEST(RefusalCoverage, EveryRuleHasACase) {
  std::set<std::string> seen;
  for (const Refusal& refusal : All()) seen.insert(refusal.rules.begin(), refusal.rules.end());
  for (const plan::Rule& rule : plan::MegatronRules()) {
    // Arguments cannot say it: sizes below 1 are refused when they are read.
    if (rule.name == "degrees_positive") continue;
    EXPECT_TRUE(seen.count(std::string(rule.name))) << rule.name;
  }
}

TEST(AcceptedJobs, BreakNoRule) {
  const std::string dense_pp4 = std::string(kTp2Pp4);
  const std::pair<Argv, int64_t> jobs[] = {
      {D("--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --sequence-parallel"),
       16},
      {DenseTp2Pp4("--pipeline-model-parallel-layout Et*7|t*9|t*9|t*7L"), 8},
      {DenseTp2Pp4("--num-layers 30 --account-for-embedding-in-pipeline-split "
                   "--account-for-loss-in-pipeline-split"),
       8},
      {DenseTp2Pp4("--recompute-granularity full --recompute-method block "
                   "--recompute-num-layers 99"),
       8},
      {E("--expert-model-parallel-size 8 --expert-tensor-parallel-size 1"), 8},
      {E("--expert-tensor-parallel-size 4"), 8},  // Larger than tp.
      {L("--tensor-model-parallel-size 2 --sequence-parallel --pipeline-model-parallel-size 16 "
         "--expert-model-parallel-size 64 --expert-tensor-parallel-size 1 "
         "--pipeline-model-parallel-layout Et*3|(tt|)*29,m|L"),
       1024},
      {Words("--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 "
             "--max-position-embeddings 1024 --micro-batch-size 4 --global-batch-size 8 --fp16"),
       1},
      {DenseTp2Pp4("--num-layers 1 --pipeline-model-parallel-layout E||t|L"), 8},
  };
  for (const auto& [argv, world_size] : jobs) {
    EXPECT_THAT(Check(argv, world_size, kOneConnection), IsEmpty());
  }
}

TEST(EnvironmentRules, HoldWhereNothingIsKnownOfIt) {
  Violations violations;
  const MegatronJob job = ParseMegatronJob(DenseTp2Pp4(""), violations);
  EXPECT_THAT(violations, IsEmpty());
  EXPECT_THAT(CheckMegatronJob(job, {.world_size = 8}), IsEmpty());
  const plan::Environment empty;
  EXPECT_THAT(CheckMegatronJob(job, {.world_size = 8, .environment = &empty, .architecture = 10}),
              IsEmpty());
}

TEST(JobScope, LeavesOutWhatAPlanWillDecide) {
  Violations violations;
  const MegatronJob job =
      ParseMegatronJob(DenseTp2Pp4("--num-layers 30 --fp16"), violations);  // 30 layers on 4.
  const Violations found = CheckMegatronJob(job, {.world_size = 12}, plan::kJobScope);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found.front().rule, "bf16_excludes_fp16");
}

}  // namespace
}  // namespace hapmoe::engine
