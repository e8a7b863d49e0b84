#include "tests/core/engine/launcher_cases.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace hapmoe::engine {
namespace {

using model::Recompute;
using plan::Degrees;
using plan::Mesh;
using plan::Plan;
using plan::Stage;
using Argv = std::vector<std::string>;

// What all jobs say.
constexpr char kData[] =
    " --train-iters 500 --lr 1e-4 --min-lr 1e-5 --lr-decay-style cosine --lr-warmup-iters 50 "
    "--weight-decay 0.1 --clip-grad 1.0 --log-interval 1 --eval-iters 10 --eval-interval 1000 "
    "--mock-data --split 99,1,0";

constexpr char kLlama[] =
    " --swiglu --disable-bias-linear --normalization RMSNorm --position-embedding-type rope "
    "--group-query-attention --num-query-groups 8 --attention-dropout 0 --hidden-dropout 0 --bf16 "
    "--use-distributed-optimizer --tokenizer-type NullTokenizer --vocab-size 128256";

constexpr char kLlama8b[] =
    "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 "
    "--seq-length 8192 --max-position-embeddings 8192";

constexpr char kMixtral[] =
    "--use-mcore-models --disable-bias-linear --seq-length 4096 --max-position-embeddings 32768 "
    "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 "
    "--init-method-std 0.01 --attention-dropout 0.0 --hidden-dropout 0.0 --normalization RMSNorm "
    "--position-embedding-type rope --swiglu --untie-embeddings-and-output-weights "
    "--group-query-attention --num-query-groups 8 --no-masked-softmax-fusion "
    "--no-position-embedding --rotary-base 1000000 --num-experts 8 --moe-router-topk 2 "
    "--moe-router-load-balancing-type aux_loss --moe-aux-loss-coeff 1e-2 --moe-grouped-gemm "
    "--moe-token-dispatcher-type alltoall --overlap-param-gather --overlap-grad-reduce "
    "--tokenizer-type Llama2Tokenizer --tokenizer-model /tok.model --data-path /data/doc "
    "--split 99990,8,2 --micro-batch-size 1 --global-batch-size 256 --lr 1e-4 "
    "--train-iters 500000 --lr-decay-iters 320000 --lr-decay-style cosine --min-lr 1.0e-5 "
    "--weight-decay 0.1 --lr-warmup-iters 500 --clip-grad 1.0 --bf16 "
    "--tensor-model-parallel-size 1 --pipeline-model-parallel-size 4 "
    "--expert-model-parallel-size 8 --use-distributed-optimizer --sequence-parallel "
    "--log-interval 1 --save-interval 10000 --eval-interval 1000 --eval-iters 10 --save /ckpt "
    "--load /ckpt --tensorboard-dir /ckpt/tensorboard --no-load-optim --no-load-rng "
    "--wandb-project Mixtral --wandb-exp-name Mixtral_8x7B";

constexpr char kDeepSeekV3[] =
    "--num-layers 61 --hidden-size 7168 --ffn-hidden-size 18432 --num-attention-heads 128 "
    "--seq-length 4096 --max-position-embeddings 4096 --multi-latent-attention "
    "--q-lora-rank 1536 --kv-lora-rank 512 --qk-head-dim 128 --qk-pos-emb-head-dim 64 "
    "--v-head-dim 128 --qk-layernorm --swiglu --disable-bias-linear --normalization RMSNorm "
    "--position-embedding-type rope --untie-embeddings-and-output-weights --num-experts 256 "
    "--moe-layer-freq ([0]*3+[1]*58) --moe-ffn-hidden-size 2048 "
    "--moe-shared-expert-intermediate-size 2048 --moe-router-topk 8 --moe-router-num-groups 8 "
    "--moe-router-group-topk 4 --moe-router-score-function sigmoid "
    "--moe-router-enable-expert-bias --moe-router-dtype fp32 --moe-grouped-gemm "
    "--moe-token-dispatcher-type alltoall --moe-router-load-balancing-type seq_aux_loss "
    "--moe-aux-loss-coeff 1e-4 --mtp-num-layers 1 --mtp-loss-scaling-factor 0.1 "
    "--attention-dropout 0 --hidden-dropout 0 --bf16 --use-distributed-optimizer "
    "--tokenizer-type NullTokenizer --vocab-size 129280 --micro-batch-size 1 "
    "--global-batch-size 2048 --tensor-model-parallel-size 1 --pipeline-model-parallel-size 16 "
    "--expert-model-parallel-size 16 --pipeline-model-parallel-layout Et*3|(tt|)*29m|L "
    "--recompute-granularity selective --recompute-modules mla_up_proj layernorm";

constexpr char kQwen30b[] =
    "--num-layers 48 --hidden-size 2048 --ffn-hidden-size 6144 --num-attention-heads 32 "
    "--kv-channels 128 --group-query-attention --num-query-groups 4 --qk-layernorm "
    "--seq-length 4096 --max-position-embeddings 40960 --swiglu --disable-bias-linear "
    "--normalization RMSNorm --norm-epsilon 1e-6 --position-embedding-type rope "
    "--rotary-base 1000000 --untie-embeddings-and-output-weights --num-experts 128 "
    "--moe-ffn-hidden-size 768 --moe-router-topk 8 --moe-grouped-gemm "
    "--moe-token-dispatcher-type alltoall --attention-dropout 0 --hidden-dropout 0 --bf16 "
    "--use-distributed-optimizer --tokenizer-type NullTokenizer --vocab-size 151936";

constexpr char kGpt2[] =
    "--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 "
    "--max-position-embeddings 1024 --fp16 --loss-scale-window 100 --tokenizer-type NullTokenizer "
    "--vocab-size 50257";

Mesh MeshOf(int64_t pool, std::vector<Stage> stages) { return {pool, {}, std::move(stages)}; }

// As many stages as there are numbers, all with the same recomputation.
std::vector<Stage> StagesOf(const std::vector<int64_t>& layers,
                            const Recompute& recompute = NoRecompute()) {
  std::vector<Stage> stages;
  for (int64_t count : layers) stages.push_back(StageOf(count, recompute));
  return stages;
}

Argv Join(const std::string& first, const std::string& second, const std::string& third = "") {
  return SplitWords(absl::StrCat(first, " ", second, " ", third));
}

cluster::Pool Named(cluster::Pool pool, std::vector<std::string> hosts) {
  pool.hosts = std::move(hosts);
  return pool;
}

PoolEnvironment Ascend() {
  PoolEnvironment environment;
  environment.single_connection = false;
  environment.variables = {{"HCCL_CONNECT_TIMEOUT", "1200"}, {"TASK_QUEUE_ENABLE", "2"}};
  return environment;
}

void AddDense(std::vector<LauncherCase>& cases) {
  cases.push_back({"gpt2_learned_tied_fp16_1x1",
                   Join(kGpt2, "--micro-batch-size 4 --global-batch-size 32", kData),
                   {{PoolOf("t4", 1, 1)}, {}},
                   PlanOf({1, 1, 1, 1, 1}, 4, 32, {MeshOf(0, StagesOf({24}))}, false)});
  cases.push_back(
      {"gpt2_stages_in_a_node_differ_1x8",
       Join(kGpt2,
            "--micro-batch-size 4 --global-batch-size 64 "
            "--tensor-model-parallel-size 2 --recompute-activations",
            kData),
       {{PoolOf("a100", 1)}, {}},
       PlanOf({2, 1, 1, 1, 2}, 2, 64,
              {MeshOf(0, {StageOf(5, FullBlock(3)), StageOf(6, FullUniform(2)),
                          StageOf(7, Selective(model::kRecomputeCoreAttention)), StageOf(6)})},
              false)});
  cases.push_back(
      {"llama8b_two_types_3x8",
       Join(kLlama8b, kLlama,
            absl::StrCat("--untie-embeddings-and-output-weights --micro-batch-size 1 "
                         "--global-batch-size=128 --context-parallel-size=1",
                         kData)),
       {{PoolOf("h100", 2), PoolOf("a100", 1)}, {}},
       PlanOf({2, 1, 4, 1, 2}, 1, 128,
              {MeshOf(0, StagesOf({14, 13})), MeshOf(1, StagesOf({5}, FullBlock(2)))}, true)});
  cases.push_back(
      {"llama70b_three_pools_64x8",
       Join("--num-layers 80 --hidden-size 8192 --ffn-hidden-size 28672 --num-attention-heads 64 "
            "--seq-length 8192 --max-position-embeddings 8192",
            kLlama,
            absl::StrCat("--untie-embeddings-and-output-weights --micro-batch-size 1 "
                         "--global-batch-size 1024 --tensor-model-parallel-size 8 "
                         "--pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank "
                         "4 --sequence-parallel --recompute-granularity full --recompute-method "
                         "uniform --recompute-num-layers 1 --tp-comm-overlap",
                         kData)),
       {{PoolOf("h200", 16), PoolOf("h100", 32), PoolOf("a100", 16)}, {}},
       PlanOf({8, 1, 8, 1, 8}, 1, 1024,
              {MeshOf(0, StagesOf({13, 13})), MeshOf(1, StagesOf({11, 11, 10, 10}, FullBlock(2))),
               MeshOf(2, StagesOf({6, 6}, FullBlock(4)))},
              true)});
  cases.push_back({"qwen05b_tied_one_stage_per_gpu_1x4",
                   Join("--num-layers 24 --hidden-size 896 --ffn-hidden-size 4864 "
                        "--num-attention-heads 14 --group-query-attention --num-query-groups 2 "
                        "--add-qkv-bias --seq-length 2048 --max-position-embeddings 32768 --swiglu "
                        "--disable-bias-linear --normalization RMSNorm "
                        "--position-embedding-type rope --bf16 --tokenizer-type NullTokenizer "
                        "--vocab-size 151936 --micro-batch-size 2 --global-batch-size 16 "
                        "--decoder-first-pipeline-num-layers 5",
                        kData),
                   {{PoolOf("rtx4090", 1, 4)}, {}},
                   PlanOf({1, 1, 1, 1, 1}, 2, 16, {MeshOf(0, StagesOf({7, 7, 6, 4}))}, false)});
  cases.push_back(
      {"nemotron_bias_layernorm_squared_relu_2x8",
       Join("--num-layers 32 --hidden-size 4096 --ffn-hidden-size 16384 "
            "--num-attention-heads 32 --seq-length 4096 "
            "--max-position-embeddings 4096 --squared-relu "
            "--position-embedding-type rope --untie-embeddings-and-output-weights "
            "--bf16 --tokenizer-type NullTokenizer --vocab-size 256000",
            "--micro-batch-size 1 --global-batch-size 32 --no-overlap-p2p-communication "
            "--account-for-embedding-in-pipeline-split "
            "--account-for-loss-in-pipeline-split --pipeline-model-parallel-size 2 "
            "--use-distributed-optimizer --no-bias-gelu-fusion",
            kData),
       {{PoolOf("mi300x", 2)}, {}},
       PlanOf({4, 1, 2, 1, 4}, 1, 32, {MeshOf(0, StagesOf({17, 15}))}, false)});
  Plan interleaved =
      PlanOf({2, 1, 4, 1, 2}, 1, 64, {MeshOf(0, StagesOf({8, 8, 8, 8}, FullBlock(1)))}, true);
  int64_t next = 0;
  for (int chunk = 0; chunk < 2; ++chunk) {
    for (Stage& stage : interleaved.meshes[0].stages) {
      if (chunk == 0) stage.chunks.clear();
      stage.chunks.push_back({next, 4, false, 0, false});
      next += 4;
    }
  }
  interleaved.meshes[0].stages.front().chunks.front().embedding = true;
  interleaved.meshes[0].stages.back().chunks.back().loss = true;
  interleaved.interleaving_group = 8;
  cases.push_back({"llama8b_interleaved_4x8",
                   Join(kLlama8b, kLlama,
                        absl::StrCat("--untie-embeddings-and-output-weights --micro-batch-size 1 "
                                     "--global-batch-size 64 --overlap-grad-reduce "
                                     "--overlap-param-gather",
                                     kData)),
                   {{PoolOf("h800", 4)}, {}},
                   interleaved});
  Plan data_outermost = PlanOf({2, 1, 4, 1, 2}, 1, 64, {MeshOf(0, StagesOf({16, 16}))}, true);
  data_outermost.rank_order = plan::RankOrder::kDataOutermost;
  cases.push_back({"llama8b_data_outermost_2x8",
                   Join(kLlama8b, kLlama,
                        absl::StrCat("--untie-embeddings-and-output-weights --micro-batch-size 1 "
                                     "--global-batch-size 64 --use-tp-pp-dp-mapping",
                                     kData)),
                   {{PoolOf("h100", 2)}, {}},
                   data_outermost});
  cases.push_back(
      {"llama8b_fsdp_2x8",
       Join(kLlama8b, kLlama,
            absl::StrCat("--untie-embeddings-and-output-weights --micro-batch-size 1 "
                         "--global-batch-size 64 --use-megatron-fsdp "
                         "--data-parallel-sharding-strategy optim_grads_params "
                         "--ckpt-format fsdp_dtensor --no-gradient-accumulation-fusion",
                         kData)),
       {{PoolOf("h100", 2)}, {}},
       PlanOf({1, 1, 16, 1, 1}, 1, 64, {MeshOf(0, StagesOf({32}, FullBlock(8)))}, false)});
  cases.push_back({"llama8b_there_and_back_4x8",
                   Join(kLlama8b, kLlama,
                        absl::StrCat("--untie-embeddings-and-output-weights --micro-batch-size 1 "
                                     "--global-batch-size 64",
                                     kData)),
                   {{Named(PoolOf("h100", 2), {"fast-0.cluster", "fast-1.cluster"}),
                     Named(PoolOf("l40s", 2), {"slow-0.cluster", "slow-1.cluster"})},
                    {}},
                   PlanOf({4, 1, 2, 1, 4}, 1, 64,
                          {MeshOf(0, StagesOf({10})), MeshOf(1, StagesOf({6, 6}, FullBlock(3))),
                           MeshOf(0, StagesOf({10}))},
                          true)});
  cases.push_back({"llama8b_unequal_nodes_1x8_2x4",
                   Join(kLlama8b, kLlama,
                        absl::StrCat("--untie-embeddings-and-output-weights --micro-batch-size 1 "
                                     "--global-batch-size 64 --recompute-granularity selective",
                                     kData)),
                   {{PoolOf("h100", 1, 8), PoolOf("a100", 2, 4)}, {}},
                   PlanOf({2, 1, 1, 1, 2}, 1, 64,
                          {MeshOf(0, {StageOf(5), StageOf(5), StageOf(5, FullBlock(1)),
                                      StageOf(5, FullBlock(1))}),
                           MeshOf(1, StagesOf({3, 3, 3, 3}, FullBlock(2)))},
                          true)});
  cases.push_back({"llama8b_rest_of_a_node_idles_2x8",
                   Join(kLlama8b, kLlama,
                        absl::StrCat("--untie-embeddings-and-output-weights --micro-batch-size 1 "
                                     "--global-batch-size 64",
                                     kData)),
                   {{PoolOf("h100", 3)}, {}},
                   PlanOf({4, 1, 1, 1, 4}, 1, 64, {MeshOf(0, StagesOf({11, 11, 10}))}, true)});
  cases.push_back(
      {"llama8b_context_parallel_2x8",
       Join("--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 "
            "--num-attention-heads 32 --seq-length 65536 "
            "--max-position-embeddings 131072",
            kLlama,
            absl::StrCat("--untie-embeddings-and-output-weights --micro-batch-size 1 "
                         "--global-batch-size 16 --context-parallel-size 8 "
                         "--cp-comm-type a2a+p2p "
                         "--hierarchical-context-parallel-sizes 2 4 "
                         "--eval-global-batch-size 12",
                         kData)),
       {{PoolOf("h100", 2)}, {}},
       PlanOf({2, 4, 1, 1, 2}, 1, 16, {MeshOf(0, StagesOf({16, 16}, FullBlock(4)))}, true)});
  cases.push_back({"llama8b_offload_withdrawn_1x8",
                   Join(kLlama8b, kLlama,
                        absl::StrCat("--untie-embeddings-and-output-weights --micro-batch-size 1 "
                                     "--cpu-offloading-num-layers 4 --enable-cuda-graph",
                                     kData)),
                   {{PoolOf("h100", 1)}, {}},
                   PlanOf({2, 1, 2, 1, 2}, 2, 32,
                          {MeshOf(0, {StageOf(16, FullBlock(4)), StageOf(16)})}, true)});
}

void AddExperts(std::vector<LauncherCase>& cases) {
  cases.push_back({"mixtral_h800_a100_6x8",
                   SplitWords(kMixtral),
                   {{PoolOf("h800", 4), PoolOf("a100", 2)}, {}},
                   PlanOf({1, 1, 8, 8, 1}, 1, 256,
                          {MeshOf(0, StagesOf({7, 7, 6, 6})),
                           MeshOf(1, StagesOf({3, 3}, Selective(model::kRecomputeMoeActivation |
                                                                model::kRecomputeLayerNorm)))},
                          false)});
  cases.push_back(
      {"mixtral_h800_ascend_4x8",
       SplitWords(kMixtral),
       {{PoolOf("h800", 2), PoolOf("ascend910b", 2)}, {}},
       PlanOf({1, 1, 8, 4, 1}, 1, 256,
              {MeshOf(0, StagesOf({11, 10})), MeshOf(1, StagesOf({6, 5}, FullBlock(3)))}, false),
       {PoolEnvironment(), Ascend()},
       {{"flagcx", "a build of Megatron-LM whose communication backend joins NCCL and HCCL"}}});
  cases.push_back({"mixtral_etp2_sequence_parallel_forced_2x8",
                   SplitWords(kMixtral),
                   {{PoolOf("a800", 2)}, {}},
                   PlanOf({2, 1, 2, 4, 1}, 1, 256,
                          {MeshOf(0, StagesOf({8, 8, 8, 8}, FullUniform(1)))}, false)});
  cases.push_back(
      {"deepseek_v3_three_pools_64x8",
       SplitWords(absl::StrCat(kDeepSeekV3, kData)),
       {{PoolOf("h800", 32), PoolOf("h100", 16), PoolOf("h20", 16)}, {}},
       PlanOf(
           {1, 1, 64, 64, 1}, 1, 2048,
           {MeshOf(0, StagesOf({9, 9, 9, 9}, Selective(model::kRecomputeMlaUpProjection |
                                                       model::kRecomputeLayerNorm))),
            MeshOf(1, StagesOf({9, 8}, FullBlock(2))),
            MeshOf(2, {StageOf(4, FullBlock(4)), StageOf(4, Selective(model::kRecomputeMoe), 1)})},
           false)});
  cases.push_back({"deepseek_lite_shared_experts_tied_2x8",
                   Join("--num-layers 27 --hidden-size 2048 --ffn-hidden-size 10944 "
                        "--num-attention-heads 16 --seq-length 4096 "
                        "--max-position-embeddings 4096 --multi-latent-attention "
                        "--kv-lora-rank 512 --swiglu --disable-bias-linear "
                        "--normalization RMSNorm --position-embedding-type rope --num-experts 64 "
                        "--moe-layer-freq ([0]+[1]*26) --moe-ffn-hidden-size 1408 "
                        "--moe-shared-expert-intermediate-size 2816 --moe-router-topk 6 "
                        "--moe-token-dispatcher-type allgather --bf16 --attention-dropout 0 "
                        "--hidden-dropout 0 --tokenizer-type NullTokenizer --vocab-size 102400",
                        "--micro-batch-size 2 --global-batch-size 128 --moe-layer-recompute "
                        "--expert-tensor-parallel-size 1",
                        kData),
                   {{PoolOf("h100", 1), PoolOf("a100", 1)}, {}},
                   PlanOf({2, 1, 4, 4, 2}, 2, 128,
                          {MeshOf(0, StagesOf({16})),
                           MeshOf(1, StagesOf({11}, Selective(model::kRecomputeMlp |
                                                              model::kRecomputeSharedExperts)))},
                          true)});
  cases.push_back(
      {"qwen30b_a3b_two_stages_a_node_4x8",
       Join(kQwen30b, "--micro-batch-size 1 --global-batch-size 256", kData),
       {{PoolOf("h100", 2), PoolOf("a800", 2)}, {}},
       PlanOf({1, 1, 4, 4, 1}, 1, 256,
              {MeshOf(0, {StageOf(7), StageOf(7), StageOf(7), StageOf(7)}),
               MeshOf(1, {StageOf(5), StageOf(5, Selective(model::kRecomputeMoeActivation)),
                          StageOf(5, Selective(model::kRecomputeMoeActivation)),
                          StageOf(5, FullBlock(5))})},
              false)});
  PoolEnvironment blackwell;
  blackwell.single_connection = false;
  blackwell.variables = {{"NVTE_FWD_LAYERNORM_SM_MARGIN", "16"},
                         {"CUDA_DEVICE_MAX_CONNECTIONS", "32"}};
  cases.push_back({"qwen30b_a3b_overlap_withdrawn_4x4",
                   Join(kQwen30b,
                        "--micro-batch-size 1 --global-batch-size 256 "
                        "--overlap-moe-expert-parallel-comm --delay-wgrad-compute",
                        kData),
                   {{PoolOf("gb200", 4, 4)}, {}},
                   PlanOf({2, 1, 4, 8, 1}, 1, 256, {MeshOf(0, StagesOf({25, 23}))}, true),
                   {blackwell}});
  cases.push_back(
      {"moe_learned_positions_tied_fp16_1x2",
       Join("--num-layers 12 --hidden-size 768 --num-attention-heads 12 "
            "--seq-length 1024 --max-position-embeddings 1024 --num-experts 4 "
            "--moe-router-topk 2 --moe-layer-freq 2 --fp16 "
            "--tokenizer-type NullTokenizer --vocab-size 50257",
            "--micro-batch-size 2 --global-batch-size 16 "
            "--num-layers-per-virtual-pipeline-stage 3 --pipeline-model-parallel-size 2",
            kData),
       {{PoolOf("v100", 1, 2)}, {}},
       PlanOf({1, 1, 2, 2, 1}, 2, 16, {MeshOf(0, StagesOf({12}))}, false)});
}

}  // namespace

std::vector<LauncherCase> LauncherCases() {
  std::vector<LauncherCase> cases;
  AddDense(cases);
  AddExperts(cases);
  return cases;
}

}  // namespace hapmoe::engine
