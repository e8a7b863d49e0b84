// What a job's arguments mean for its model, training and plan.
#include "core/engine/megatron_job.h"

#include <string>
#include <vector>

#include "core/plan/pipeline_layout.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/engine/argument_lists.h"

namespace hapmoe::engine {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

// Four layers of two heads, nothing else given.
Argv Small() {
  return Words(
      "--num-layers 4 --hidden-size 256 --num-attention-heads 2 --seq-length 128 "
      "--max-position-embeddings 128 --micro-batch-size 2 --global-batch-size 16");
}

MegatronJob Parse(const Argv& argv) {
  Violations violations;
  MegatronJob job = ParseMegatronJob(argv, violations);
  EXPECT_THAT(violations, IsEmpty());
  EXPECT_TRUE(job.complete);
  return job;
}

MegatronJob Parse(const std::string& words) { return Parse(With(Small(), words)); }

std::vector<std::string> Faults(const Argv& argv) {
  Violations violations;
  ParseMegatronJob(argv, violations);
  std::vector<std::string> rules;
  for (const Violation& violation : violations) rules.push_back(violation.rule);
  return rules;
}

TEST(Defaults, AreMegatrons) {
  const MegatronJob job = Parse(Small());
  EXPECT_EQ(job.model.ffn_hidden, 1024);  // 4 x 256.
  EXPECT_EQ(job.model.query_groups, 2);
  EXPECT_EQ(job.model.head_dim, 128);  // 256 / 2.
  EXPECT_TRUE(job.model.linear_bias);
  EXPECT_TRUE(job.model.qkv_bias);
  EXPECT_EQ(job.model.norm_parameters, 2);
  EXPECT_TRUE(job.model.learned_positions);
  EXPECT_TRUE(job.model.tied_embeddings);
  EXPECT_FALSE(job.model.gated_mlp);
  EXPECT_FALSE(job.model.moe.has_value());
  EXPECT_EQ(job.training.precision, model::Precision::kFp32);
  EXPECT_EQ(job.training.gradient_bytes, 4);
  EXPECT_EQ(job.training.dispatcher, model::Dispatcher::kAllGather);
  EXPECT_EQ(job.training.attention_dropout, 0.1);
  EXPECT_TRUE(job.training.flash_attention);
  EXPECT_TRUE(job.training.optimizer.clips_gradient);
  EXPECT_EQ(job.training.recompute, model::Recompute{});
  EXPECT_EQ(job.parallel.expert_tp(), 1);
}

TEST(FeedForward, HasTwoThirdsOfTheWidthWhenGated) {
  // 4 x 4096 x 2 / 3 = 10922.67, in whole multiples of 64: 170 x 64 = 10880.
  EXPECT_EQ(Parse("--hidden-size 4096 --swiglu").model.ffn_hidden, 10880);
  EXPECT_EQ(Parse("--hidden-size 4096 --quick-geglu").model.ffn_hidden, 16384);
  EXPECT_TRUE(Parse("--quick-geglu").model.gated_mlp);
  EXPECT_EQ(Parse("--swiglu --ffn-hidden-size 100").model.ffn_hidden, 100);
}

TEST(QueryGroups, NeedTheirSwitch) {
  EXPECT_EQ(Parse("--num-query-groups 1").model.query_groups, 2);
  EXPECT_EQ(Parse("--num-query-groups 1 --group-query-attention").model.query_groups, 1);
  EXPECT_EQ(Parse("--group-query-attention").model.query_groups, 1);  // Multi-query.
}

TEST(Biases, OfQueriesFollowThoseOfAllLayers) {
  EXPECT_FALSE(Parse("--disable-bias-linear").model.qkv_bias);
  EXPECT_TRUE(Parse("--disable-bias-linear --add-qkv-bias").model.qkv_bias);
}

TEST(Positions, AreLearnedUnlessRotary) {
  EXPECT_FALSE(Parse("--position-embedding-type rope").model.learned_positions);
  EXPECT_FALSE(Parse("--use-rotary-position-embeddings").model.learned_positions);
  EXPECT_FALSE(Parse("--position-embedding-type none").model.learned_positions);
}

TEST(Vocabulary, IsPaddedForTheTensorParallelSize) {
  const MegatronJob job = Parse("--tokenizer-type NullTokenizer --vocab-size 128256");
  EXPECT_EQ(job.model.PaddedVocab(2), 128256);   // 501 x 256.
  EXPECT_EQ(job.model.PaddedVocab(4), 128512);   // 251 x 512.
  EXPECT_EQ(job.model.PaddedVocab(16), 129024);  // 63 x 2048.
  EXPECT_THAT(job.notes, IsEmpty());
  EXPECT_EQ(Parse("").model.vocab, 50257);
  EXPECT_EQ(Parse("").model.PaddedVocab(1), 50304);  // 393 x 128.
  EXPECT_EQ(Parse("--tokenizer-type Llama2Tokenizer").model.vocab, 32000);
  EXPECT_EQ(Parse("--padded-vocab-size 1000").model.PaddedVocab(4), 1000);
  EXPECT_EQ(Parse("--vocab-size 1001 --no-pad-vocab-size").model.PaddedVocab(1), 1001);
}

TEST(Vocabulary, IsAssumedWithANoteWhereItIsInFiles) {
  const MegatronJob job = Parse("--tokenizer-type HuggingFaceTokenizer");
  EXPECT_EQ(job.model.vocab, 50257);
  EXPECT_THAT(job.notes, ElementsAre(HasSubstr("HuggingFaceTokenizer")));
}

TEST(Experts, TakeTheirDefaults) {
  const MegatronJob job = Parse("--num-experts 4 --ffn-hidden-size 512");
  ASSERT_TRUE(job.model.moe.has_value());
  EXPECT_EQ(job.model.moe->ffn_hidden, 512);
  EXPECT_EQ(job.model.moe->topk, 2);
  EXPECT_EQ(job.model.moe->shared_ffn_hidden, 0);
  EXPECT_TRUE(job.model.moe->router_bias);  // As all linear layers.
  EXPECT_THAT(job.model.layer_kinds, ElementsAre(model::LayerKind::kMoe, model::LayerKind::kMoe,
                                                 model::LayerKind::kMoe, model::LayerKind::kMoe));
  EXPECT_FALSE(Parse("--num-experts 0").model.moe.has_value());
  EXPECT_FALSE(Parse("--num-experts 4 --moe-expert-capacity-factor -1").model.moe->capacity_factor);
  EXPECT_EQ(Parse("--num-experts 4 --moe-expert-capacity-factor 1.5").model.moe->capacity_factor,
            1.5);
  EXPECT_EQ(Parse("--num-experts 4 --moe-latent-size 64").model.moe->latent, 64);
}

TEST(Balancing, IsWhatTheOptionsGive) {
  using model::Balancing;
  const std::string experts = "--num-experts 8 ";
  for (const auto& [options, balancing] :
       {std::pair{"", Balancing::kNone},  // An auxiliary loss with a coefficient of 0.
        {"--moe-aux-loss-coeff 1e-2", Balancing::kAuxiliaryLoss},
        {"--moe-router-load-balancing-type seq_aux_loss --moe-aux-loss-coeff 1e-4",
         Balancing::kAuxiliaryLoss},
        {"--moe-router-load-balancing-type none --moe-aux-loss-coeff 1e-2", Balancing::kNone},
        {"--moe-router-load-balancing-type sinkhorn", Balancing::kSinkhorn},
        {"--moe-router-enable-expert-bias --moe-router-score-function sigmoid "
         "--moe-aux-loss-coeff 1e-4",
         Balancing::kExpertBias},
        {"--moe-router-force-load-balancing --moe-aux-loss-coeff 1e-2", Balancing::kForced}}) {
    EXPECT_EQ(Parse(experts + options).training.balancing, balancing) << options;
  }
}

TEST(LayerKinds, FollowAFrequencyOrAList) {
  const auto experts = [](const std::string& freq) {
    std::string kinds;
    for (model::LayerKind kind :
         Parse("--num-experts 4 --moe-layer-freq " + freq).model.layer_kinds) {
      kinds.push_back(kind == model::LayerKind::kMoe ? '1' : '0');
    }
    return kinds;
  };
  EXPECT_EQ(experts("1"), "1111");
  EXPECT_EQ(experts("2"), "1010");
  EXPECT_EQ(experts("3"), "1001");
  EXPECT_EQ(experts("-2"), "1010");
  EXPECT_EQ(experts("99999999999999999999"), "1000");
  EXPECT_EQ(experts("[0]*3+[1]"), "0001");
  EXPECT_THAT(Faults(With(Small(), "--num-experts 4 --moe-layer-freq 0")),
              ElementsAre("layer_pattern_invalid"));
  EXPECT_THAT(Faults(With(Small(), "--num-experts 4 --moe-layer-freq [2]*4")),
              ElementsAre("layer_pattern_invalid"));
}

TEST(MultiLatentAttention, TakesTheCommandLinesDefaults) {
  const MegatronJob job = Parse("--multi-latent-attention");
  ASSERT_TRUE(job.model.mla.has_value());
  EXPECT_EQ(job.model.mla->q_lora_rank, std::nullopt);  // Not the 512 of the configuration class.
  EXPECT_EQ(job.model.mla->kv_lora_rank, 32);
  EXPECT_EQ(job.model.mla->qk_head_dim, 128);
  EXPECT_EQ(job.model.mla->qk_pos_emb_head_dim, 64);
  EXPECT_EQ(job.model.mla->v_head_dim, 128);
  EXPECT_EQ(job.model.query_groups, 2);
}

TEST(Gradients, AreSummedInFp32WithBf16UnlessToldOtherwise) {
  EXPECT_EQ(Parse("--bf16").training.gradient_bytes, 4);
  EXPECT_EQ(Parse("--bf16 --grad-reduce-in-bf16").training.gradient_bytes, 2);
  EXPECT_EQ(Parse("--bf16 --main-grads-dtype bf16 --use-precision-aware-optimizer")
                .training.gradient_bytes,
            2);
  EXPECT_EQ(Parse("--fp16").training.gradient_bytes, 2);
  EXPECT_EQ(Parse("--fp16 --accumulate-allreduce-grads-in-fp32").training.gradient_bytes, 4);
}

TEST(Optimizer, HasTheStatesOfItsKind) {
  const model::Optimizer sgd = Parse("--optimizer sgd").training.optimizer;
  EXPECT_EQ(sgd.first_moment_bytes, 4);
  EXPECT_EQ(sgd.second_moment_bytes, 0);
  EXPECT_EQ(Parse("--optimizer sgd --sgd-momentum 0").training.optimizer.first_moment_bytes, 0);
  const model::Optimizer aware =
      Parse(
          "--use-precision-aware-optimizer --exp-avg-dtype bf16 --exp-avg-sq-dtype fp8 "
          "--main-params-dtype fp16")
          .training.optimizer;
  EXPECT_EQ(aware.first_moment_bytes, 2);
  EXPECT_EQ(aware.second_moment_bytes, 1);
  EXPECT_EQ(aware.main_parameter_bytes, 2);
  EXPECT_THAT(Parse("--optimizer muon").notes, ElementsAre(HasSubstr("muon")));
  EXPECT_EQ(Parse("--optimizer-cpu-offload --use-precision-aware-optimizer "
                  "--optimizer-offload-fraction 0.25")
                .training.optimizer.offload_ratio,
            0.25);
  EXPECT_EQ(Parse("--optimizer-offload-fraction 0.25").training.optimizer.offload_ratio, 0);
  EXPECT_FALSE(Parse("--clip-grad 0").training.optimizer.clips_gradient);
}

TEST(Recomputation, IsReadInAllItsForms) {
  using model::Recompute;
  EXPECT_EQ(Parse("--recompute-activations").training.recompute,
            (Recompute{.granularity = Recompute::Granularity::kSelective,
                       .modules = model::kRecomputeCoreAttention}));
  EXPECT_EQ(Parse("--recompute-granularity full --recompute-method uniform "
                  "--recompute-num-layers 2")
                .training.recompute,
            (Recompute{.granularity = Recompute::Granularity::kFull,
                       .method = Recompute::Method::kUniform,
                       .num_layers = 2}));
  EXPECT_EQ(Parse("--recompute-granularity selective --recompute-modules mlp layernorm")
                .training.recompute.modules,
            model::kRecomputeMlp | model::kRecomputeLayerNorm);
  EXPECT_EQ(Parse("--num-experts 4 --moe-layer-recompute").training.recompute,
            (Recompute{.granularity = Recompute::Granularity::kSelective,
                       .modules = model::kRecomputeCoreAttention | model::kRecomputeMoe}));
  // A list without the granularity has no effect.
  EXPECT_EQ(Parse("--recompute-modules mlp").training.recompute, Recompute{});
}

TEST(Attention, KeepsScoresWithoutAFlashKernel) {
  EXPECT_FALSE(Parse("--attention-backend unfused").training.flash_attention);
  EXPECT_FALSE(Parse("--transformer-impl local").training.flash_attention);
  EXPECT_TRUE(Parse("--transformer-impl local --use-flash-attn").training.flash_attention);
}

TEST(MissingOptions, AreToldAllAtOnce) {
  Violations violations;
  const MegatronJob job = ParseMegatronJob(Argv{"--bf16"}, violations);
  EXPECT_FALSE(job.complete);
  std::vector<std::string> fields;
  for (const Violation& violation : violations) {
    EXPECT_EQ(violation.rule, "missing_option");
    fields.push_back(violation.field);
  }
  EXPECT_THAT(fields, UnorderedElementsAre("--num-layers", "--hidden-size", "--seq-length",
                                           "--num-attention-heads", "--max-position-embeddings",
                                           "--micro-batch-size"));
  EXPECT_THAT(CheckMegatronJob(job, {.world_size = 7}), IsEmpty());
}

TEST(EncoderNames, StandInForTheOthers) {
  const Argv renamed = With(Without(Without(Small(), "--num-layers"), "--seq-length"),
                            "--encoder-num-layers 6 --encoder-seq-length 64");
  EXPECT_EQ(Parse(renamed).model.layers, 6);
  EXPECT_EQ(Parse(renamed).model.seq_length, 64);
  EXPECT_THAT(Faults(With(Small(), "--encoder-num-layers 6")), ElementsAre("option_given_twice"));
}

TEST(Values, AreBounded) {
  for (const char* words :
       {"--num-layers 0", "--num-layers 10001", "--num-layers 99999999999999999999",
        "--hidden-size 4611686018427387904", "--tensor-model-parallel-size 0",
        "--pipeline-model-parallel-size -1", "--micro-batch-size 0", "--seq-length 99999999999",
        "--global-batch-size 2000000000", "--num-virtual-stages-per-pipeline-rank 0",
        "--attention-dropout nan", "--attention-dropout 2", "--vocab-size 0",
        "--num-experts 999999999", "--moe-router-topk 0"}) {
    EXPECT_THAT(Faults(With(Small(), words)), ElementsAre("value_out_of_range")) << words;
  }
  // Each within its bound, too much together: 10000 x 65536 x 3 x 1048576^2 parameters.
  EXPECT_THAT(Faults(With(Small(),
                          "--num-layers 10000 --hidden-size 1048576 --num-experts 65536 "
                          "--moe-ffn-hidden-size 1048576")),
              Contains("model_too_large"));
}

TEST(Unsupported, IsNamedAndNeverCosted) {
  const std::pair<const char*, const char*> cases[] = {
      {"--hybrid-layer-pattern M*M*", "unsupported_hybrid_model"},
      {"--hybrid-override-pattern M*M*", "unsupported_hybrid_model"},
      {"--yaml-cfg job.yaml", "unsupported_yaml_configuration"},
      {"--use-checkpoint-args", "unsupported_checkpoint_arguments"},
      {"--heterogeneous-layers-config-path c.json", "unsupported_heterogeneous_layers"},
      {"--spec my.module layer", "unsupported_custom_spec"},
      {"--experimental-attention-variant dsa", "unsupported_attention_variant"},
      {"--window-size 128,0", "unsupported_sliding_window"},
      {"--enable-mhc-connections", "unsupported_hyper_connections"},
      {"--fp4-format e2m1", "unsupported_fp4"},
      {"--use-megatron-fsdp --ckpt-format fsdp_dtensor", "unsupported_fsdp"},
      {"--use-torch-fsdp2", "unsupported_fsdp"},
      {"--tensor-parallel-num-weight-shards 2", "unsupported_weight_shards"},
      {"--hybrid-context-parallel", "unsupported_dynamic_context_parallel"},
      {"--cpu-offloading-num-layers 1", "unsupported_activation_offload"},
      {"--perform-rl-step", "unsupported_reinforcement_learning"},
      {"--transformer-impl inference_optimized", "unsupported_inference_implementation"},
      {"--freeze-all-layers", "unsupported_frozen_layers"},
      {"--mtp-num-layers 2 --mtp-use-repeated-layer --position-embedding-type rope",
       "unsupported_repeated_mtp_layer"},
  };
  for (const auto& [words, rule] : cases) {
    EXPECT_THAT(Faults(With(Small(), words)), ElementsAre(rule)) << words;
  }
  EXPECT_THAT(
      Faults(With(Without(Small(), "--global-batch-size"), "--step-batch-size-schedule 0:8")),
      ElementsAre("unsupported_batch_size_schedule"));
  // What the checkpoint or the file holds is not missing.
  EXPECT_THAT(Faults(Words("--use-checkpoint-args --micro-batch-size 1")),
              ElementsAre("unsupported_checkpoint_arguments"));
}

TEST(Contradictions, AreNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"--batch-size 4", "option_no_longer_valid"},
      {"--model-parallel-size 2", "option_no_longer_valid"},
      {"--checkpoint-activations", "option_no_longer_valid"},
      {"--train-iters 5 --train-samples 5", "iterations_exclude_samples"},
      {"--train-samples 5 --lr-decay-iters 5", "samples_exclude_iterations"},
      {"--train-iters 5 --lr-warmup-iters 1 --lr-warmup-fraction 0.1", "one_warm_up"},
      {"--lr 1e-5 --min-lr 1e-4", "learning_rates_ordered"},
      {"--start-weight-decay 0.1", "weight_decay_ends"},
      {"--save ckpt", "save_needs_interval"},
      {"--ckpt-format torch_dcp", "checkpoint_format_needs_fsdp"},
      {"--mock-data --data-path a", "one_data_source"},
      {"--data-path a --data-args-path b", "one_data_source"},
      {"--no-position-embedding", "position_embedding_deprecated"},
      {"--rope-type yarn", "rope_type_needs_mla"},
      {"--multi-latent-attention --attention-output-gate", "mla_excludes_output_gate"},
      {"--attention-backend local", "local_attention_needs_local_spec"},
      {"--squared-relu", "squared_relu_excludes_fusion"},
      {"--swiglu --squared-relu", "one_activation"},
      {"--moe-latent-size 8", "latent_experts_need_experts"},
      {"--fp16-lm-cross-entropy", "fp16_cross_entropy_needs_fp16"},
      {"--cross-entropy-loss-fusion --cross-entropy-fusion-impl te", "te_cross_entropy_disabled"},
      {"--deterministic-mode --cross-entropy-loss-fusion", "deterministic_mode_excludes_fusion"},
      {"--ddp-num-buckets 2 --ddp-bucket-size 2", "buckets_by_size_or_number"},
      {"--cuda-graph-impl full_iteration", "cuda_graph_excludes_nan_check"},
      {"--override-ckpt-iteration 1 --finetune", "checkpoint_iteration_excludes_finetune"},
      {"--moe-use-upcycling", "upcycling_needs_save"},
      {"--log-memory-interval 30", "memory_log_interval"},  // --log-interval is 100.
      {"--ckpt-convert-format torch", "checkpoint_conversion_needs_paths"},
      {"--replication", "replication_needs_jump"},
      {"--logits-save-dir d", "saved_logits_need_top_k"},
      {"--fp4-param-gather", "fp4_parameters_need_fp4"},
      {"--fp8-format hybrid --fp8-output-proj", "fp8_output_projection_needs_mxfp8"},
      {"--moe-single-grouped-weight", "single_grouped_parameters_need_grouped_gemm"},
      {"--moe-expert-rank-capacity-factor 1", "rank_capacity_needs_hybridep"},
      {"--moe-paged-stash", "paged_stash_needs_rank_capacity"},
      {"--moe-combine-bwd-dtype mxfp8", "dispatch_type_needs_ncclep"},
      {"--use-te-activation-func", "activation_fusion_excludes_te_activation"},
      {"--swiglu --glu-linear-offset 1", "gate_offset_needs_quick_geglu"},
      {"--overlap-p2p-communication-warmup-flush", "warm_up_overlap_needs_virtual_stages"},
      {"--defer-embedding-wgrad-compute", "deferred_embedding_gradient_needs_pipeline"},
      {"--bf16 --ddp-param-name-patterns-for-fp32-local-accumulation w",
       "fp32_accumulation_excludes_name_patterns"},
      {"--fsdp-manual-registration", "registration_needs_fsdp"},
      {"--bf16 --batch-invariant-mode", "batch_invariance_needs_flash_attention"},
      {"--init-method-xavier-uniform", "xavier_initialization_broken"},
      {"--no-rope-freq 3", "rope_skips_divide_layers"},
      {"--no-rope-freq [1]*3", "rope_skips_divide_layers"},
      {"--qk-clip --qk-clip-alpha 1", "qk_clip_alpha_range"},
      {"--inference-fuse-tp-communication", "inference_option_needs_inference_implementation"},
      {"--inference-cuda-graph-scope block", "inference_graph_scope"},
      {"--inference-batch-times-seqlen-threshold 3", "inference_batches_need_pipeline"},
      {"--gtp-remat-opt-in-modules x", "weight_shard_modules_known"},
  };
  for (const auto& [words, rule] : cases) {
    EXPECT_THAT(Faults(With(Small(), words)), ElementsAre(rule)) << words;
  }
}

TEST(PlanFromJob, ResolvesDegreesAndBatch) {
  const MegatronJob job = Parse(
      With(Dense(),
           "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 4 --sequence-parallel "
           "--num-virtual-stages-per-pipeline-rank 2 --recompute-activations"));
  ASSERT_THAT(CheckMegatronJob(job, {.world_size = 16}), IsEmpty());
  const plan::Plan plan = PlanFromJob(job, 16);
  ASSERT_THAT(plan.meshes, SizeIs(1));
  // 16 / (2 x 4) = 2; etp follows tp, so that 2 x 2 ranks hold 2 copies of the experts.
  EXPECT_EQ(plan.meshes[0].degrees, (plan::Degrees{.tp = 2, .cp = 1, .dp = 2, .ep = 1, .etp = 2}));
  EXPECT_EQ(plan.world_size(), 16);
  EXPECT_EQ(plan.micro_batches, 64);  // 128 / (1 x 2).
  EXPECT_EQ(plan.global_batch, 128);
  EXPECT_EQ(plan.virtual_stages(), 2);
  EXPECT_EQ(plan.interleaving_group, 4);
  EXPECT_TRUE(plan.sequence_parallel);
  EXPECT_EQ(plan.rank_order, plan::RankOrder::kPipelineOutermost);
  ASSERT_THAT(plan.meshes[0].stages, SizeIs(4));
  EXPECT_THAT(plan.meshes[0].stages, Each(Field(&plan::Stage::recompute, job.training.recompute)));
  // 32 layers in 8 virtual stages of 4: rank 1 holds the second and the sixth.
  EXPECT_THAT(plan.meshes[0].stages[1].chunks,
              ElementsAre(plan::Chunk{.first_layer = 4, .layers = 4},
                          plan::Chunk{.first_layer = 20, .layers = 4}));
}

TEST(PlanFromJob, FillsInTheBatchThatTheJobLeavesOut) {
  const MegatronJob job = Parse(Without(Small(), "--global-batch-size"));
  EXPECT_FALSE(job.facts.global_batch_given);
  const plan::Plan plan = PlanFromJob(job, 8);
  EXPECT_EQ(plan.global_batch, 16);  // One micro-batch of 2 on each of 8 ranks.
  EXPECT_EQ(plan.micro_batches, 1);
}

TEST(PlanFromJob, RoundsTheBatchDownWhereTheJobAllowsIt) {
  const MegatronJob job =
      Parse("--global-batch-size 21 --decrease-batch-size-if-needed --eval-global-batch-size 16");
  const plan::Plan plan = PlanFromJob(job, 4);
  EXPECT_EQ(plan.micro_batches, 2);  // 21 / (2 x 4) = 2.6.
  EXPECT_EQ(plan.global_batch, 16);
}

TEST(PlanFromJob, DropsSequenceParallelismWithoutTensorParallelism) {
  EXPECT_FALSE(PlanFromJob(Parse("--sequence-parallel"), 8).sequence_parallel);
}

}  // namespace
}  // namespace hapmoe::engine
