#include "core/model/operations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/core/testing/fixtures.h"

namespace hapmoe::model {
namespace {

using hapmoe::testing::Llama3Of8B;
using hapmoe::testing::Mixtral8x7B;
using hapmoe::testing::SmallModel;
using hapmoe::testing::SmallTraining;

struct Parameters {
  double dense = 0;
  double expert = 0;
};

Parameters Sum(const Operations& operations) {
  Parameters sum;
  for (const Operation& op : operations) {
    sum.dense += op.dense_parameters;
    sum.expert += op.expert_parameters;
  }
  return sum;
}

double SavedBytes(const Operations& operations) {
  double bytes = 0;
  for (const Operation& op : operations) bytes += op.saved_bytes;
  return bytes;
}

const Operation& Named(const Operations& operations, const std::string& name) {
  for (const Operation& op : operations) {
    if (name == op.name) return op;
  }
  ADD_FAILURE() << "no operation " << name;
  return operations.front();
}

TEST(OperationsTest, DenseLayerHoldsTheParametersOfTheClosedForm) {
  const TransformerSpec spec = Llama3Of8B();
  const TrainingSpec training = SmallTraining(1);
  struct Case {
    int64_t tp;
    double want;
  };
  // h kv (a + 2g)/t + kv a h/t + 3 h ffn/t + 2 h, section 6.1b of the engine's rules.
  for (const Case& c : std::vector<Case>{
           {1, 4096.0 * 128 * 48 + 128.0 * 32 * 4096 + 3.0 * 4096 * 14336 + 2 * 4096},
           {2, (4096.0 * 128 * 48 + 128.0 * 32 * 4096 + 3.0 * 4096 * 14336) / 2 + 2 * 4096},
           {8, (4096.0 * 128 * 48 + 128.0 * 32 * 4096 + 3.0 * 4096 * 14336) / 8 + 2 * 4096}}) {
    SCOPED_TRACE(c.tp);
    const Sharding sharding{.tp = c.tp, .sequence_parallel = true};
    EXPECT_EQ(Sum(LayerOperations(spec, training, LayerKind::kDense, sharding)).dense, c.want);
  }
}

TEST(OperationsTest, Llama3Of8BHoldsItsPublishedParameters) {
  const TransformerSpec spec = Llama3Of8B();
  const TrainingSpec training = SmallTraining(1);
  const double total = 32 * Sum(LayerOperations(spec, training, LayerKind::kDense, {})).dense +
                       Sum(EmbeddingOperations(spec, training, {})).dense +
                       Sum(OutputOperations(spec, training, {}, true)).dense +
                       Sum(FinalNormOperations(spec, training, {})).dense;
  EXPECT_EQ(total, 8030261248);  // As published.
}

TEST(OperationsTest, ExpertsAreSharedOutOverExpertRanks) {
  const TransformerSpec spec = Mixtral8x7B();
  const TrainingSpec training = SmallTraining(1);
  // Eight layers of TP2 EP4 ETP1 PP4 hold 2,818,572,288 expert parameters: 8 layers x 2 experts x
  // 3 x 4096 x 14336.
  const Parameters layer = Sum(LayerOperations(
      spec, training, LayerKind::kMoe, {.tp = 2, .ep = 4, .etp = 1, .sequence_parallel = true}));
  EXPECT_EQ(8 * layer.expert, 2818572288);
  // attention 41,943,040 / 2, norms 8192, router 32768.
  EXPECT_EQ(layer.dense, 41943040.0 / 2 + 8192 + 32768);
}

TEST(OperationsTest, ExpertsWithoutGroupsOfTheirOwnCountAsDense) {
  const Operations layer = LayerOperations(SmallModel(1, 64, 4), SmallTraining(1), LayerKind::kMoe,
                                           {.tp = 1, .ep = 1, .etp = 1});
  EXPECT_EQ(Sum(layer).expert, 0);
}

TEST(OperationsTest, LatentAttentionKeepsItsDownProjectionsWhole) {
  TransformerSpec spec = SmallModel(1, 1024);
  spec.mla.emplace();
  spec.mla->q_lora_rank = 256;
  spec.mla->kv_lora_rank = 128;
  spec.mla->qk_head_dim = 64;
  spec.mla->qk_pos_emb_head_dim = 32;
  spec.mla->v_head_dim = 64;
  spec.qk_layernorm = true;
  const auto dense = [&](int64_t tp) {
    return Sum(LayerOperations(spec, SmallTraining(1), LayerKind::kDense,
                               {.tp = tp, .sequence_parallel = true}))
        .dense;
  };
  // Whole: 1024 x 256 + 1024 x (128 + 32) + norms 256 + 128 + 2 x 1024.
  const double whole = 1024 * 256 + 1024 * 160 + 384 + 2048;
  // Shared out: 256 x 16 x 96, 128 x 16 x 128, 16 x 64 x 1024, 3 x 1024 x 2048.
  const double shared = 256.0 * 16 * 96 + 128.0 * 16 * 128 + 16.0 * 64 * 1024 + 3.0 * 1024 * 2048;
  EXPECT_EQ(dense(1), whole + shared);
  EXPECT_EQ(dense(4), whole + shared / 4);
}

TEST(OperationsTest, ModelFlopsEqualTheEnginesOwn) {
  // Megatron-LM's num_floating_point_operations on the same shapes.
  TrainingSpec training = SmallTraining(128);
  // 6 T (h (3 ffn) + ...) worked out for Llama 3 8B, T = 128 x 8192:
  // layers: 32 (3 x 4096 x 14336 + 4096 x 128 x 48 + 4096 x 4096) = 6,979,321,856
  // head: 4096 x 128256 = 525,336,576; attention core: 32 x 4096 x 8192 (6 kv a s per token) / 6.
  const double tokens = 128.0 * 8192;
  const double want = 6 * tokens * (6979321856.0 + 525336576.0) + 6 * tokens * 8192 * 32 * 4096.0;
  EXPECT_DOUBLE_EQ(ModelFlops(Llama3Of8B(), training, 1), want);
}

TEST(OperationsTest, TensorParallelismChangesFlopsOnlyByVocabularyPadding) {
  const TrainingSpec training = SmallTraining(8);
  TransformerSpec spec = Llama3Of8B();
  const double one = ModelFlops(spec, training, 1);
  const double four = ModelFlops(spec, training, 4);
  // 128256 is padded to 128512 with four ranks.
  EXPECT_DOUBLE_EQ(four - one, 6 * 8.0 * 8192 * 4096 * (128512 - 128256));
}

TEST(OperationsTest, RoutedActivationsDoNotFallWithExpertParallelism) {
  const TransformerSpec spec = SmallModel(1, 256, 8);
  const TrainingSpec training = SmallTraining(1);
  const auto saved = [&](int64_t ep) {
    return SavedBytes(LayerOperations(spec, training, LayerKind::kMoe, {.ep = ep}));
  };
  EXPECT_EQ(saved(2), saved(4));
  EXPECT_EQ(saved(4), saved(8));
}

TEST(OperationsTest, DenseActivationsMatchTheSequenceParallelFormula) {
  // arXiv 2205.05198: 34 s b h / t with dropout, ffn = 4 h, no gate, flash attention.
  TransformerSpec spec = SmallModel(1, 512);
  spec.gated_mlp = false;
  spec.ffn_hidden = 4 * 512;
  TrainingSpec training = SmallTraining(1);
  training.hidden_dropout = 0.1;
  for (const int64_t tp : {1, 2, 4}) {
    SCOPED_TRACE(tp);
    const Operations layer =
        LayerOperations(spec, training, LayerKind::kDense, {.tp = tp, .sequence_parallel = true});
    const double scores = Named(layer, "core_attention").saved_bytes;  // Row sums of the softmax.
    EXPECT_DOUBLE_EQ(SavedBytes(layer) - scores, 34.0 * 256 * 512 / static_cast<double>(tp));
  }
}

TEST(OperationsTest, UnfusedAttentionKeepsFiveBytesOfEveryScore) {
  // arXiv 2205.05198: 5 a s^2 b / t on top, which recomputing the core of attention drops.
  TransformerSpec spec = SmallModel(1, 512);
  TrainingSpec training = SmallTraining(1);
  training.attention_dropout = 0.1;
  const Sharding sharding = {.tp = 2, .sequence_parallel = true, .micro_batch = 3};
  const Operations fused = LayerOperations(spec, training, LayerKind::kDense, sharding);
  training.flash_attention = false;
  const Operations unfused = LayerOperations(spec, training, LayerKind::kDense, sharding);
  const double scores = static_cast<double>(spec.heads) * 256 * 256 * 3 / 2;
  const double row_sums = Named(fused, "core_attention").saved_bytes;
  EXPECT_DOUBLE_EQ(SavedBytes(unfused), SavedBytes(fused) - row_sums + 5 * scores);
  double dropped = 0;
  double flops = 0;
  double launches = 0;
  for (const Operation& op : unfused) {
    if ((op.dropped_by & kRecomputeCoreAttention) != 0) dropped += op.saved_bytes;
    if ((op.replayed_by & kRecomputeCoreAttention) == 0) continue;
    flops += op.flops;
    launches += op.forward_launches;
  }
  EXPECT_DOUBLE_EQ(dropped, 5 * scores);
  // Model FLOPs and the operators of the framework stay what they are.
  EXPECT_DOUBLE_EQ(flops, Named(fused, "core_attention").flops);
  EXPECT_EQ(launches, Named(fused, "core_attention").forward_launches);
  // One product for each of 3 sequences and half of the heads.
  const Operation& product = Named(unfused, "attention_scores");
  EXPECT_EQ(product.groups, 3 * spec.heads / 2);
  EXPECT_EQ(product.m, product.groups * 256);
  EXPECT_EQ(product.n, 256);
  EXPECT_EQ(product.k, spec.head_dim);
  EXPECT_EQ(Named(unfused, "attention_context").n, spec.head_dim);
  EXPECT_EQ(Named(unfused, "attention_context").k, 256);
  // Read and written, in 32 bit once more between mask and softmax.
  EXPECT_DOUBLE_EQ(Named(unfused, "attention_softmax").bytes, 2 * 2 * scores);
  EXPECT_DOUBLE_EQ(Named(unfused, "attention_dropout").bytes, (2 * 2 + 1) * scores);
  training.precision = Precision::kFp32;
  const Operations single = LayerOperations(spec, training, LayerKind::kDense, sharding);
  EXPECT_DOUBLE_EQ(Named(single, "attention_softmax").bytes, 4 * 4 * scores);
}

TEST(OperationsTest, ExpertsComputeTheTokensOfTheirGroup) {
  const TransformerSpec spec = SmallModel(1, 256, 8);
  // top-k x tokens of this rank x etp: 2 x 256 / 2 x 2.
  EXPECT_EQ(ExpertTokens(spec, {.tp = 2, .ep = 4, .etp = 2, .sequence_parallel = true}), 512);
  TransformerSpec dropping = spec;
  dropping.moe->capacity_factor = 0.5;
  EXPECT_EQ(ExpertTokens(dropping, {.tp = 1, .ep = 4, .etp = 1}), 256);
}

TEST(OperationsTest, EveryDispatcherMovesTokensBothWaysInBothPasses) {
  const TransformerSpec spec = SmallModel(1, 256, 8);
  for (const Dispatcher dispatcher :
       {Dispatcher::kAllGather, Dispatcher::kAllToAll, Dispatcher::kFlex}) {
    TrainingSpec training = SmallTraining(1);
    training.dispatcher = dispatcher;
    int forward = 0;
    int backward = 0;
    for (const Operation& op : LayerOperations(spec, training, LayerKind::kMoe, {.ep = 4})) {
      if (op.kind != OperationKind::kCollective) continue;
      (op.phase == Phase::kForward ? forward : backward) += 1;
      EXPECT_GT(op.bytes, 0) << op.name;
    }
    EXPECT_EQ(forward, 2);
    EXPECT_EQ(backward, 2);
  }
}

TEST(OperationsTest, PredictionAddsItsNormsAndProjection) {
  TransformerSpec spec = SmallModel(2, 256);
  spec.mtp_layers = 1;
  // 3 h norms and 2 h x h / t.
  EXPECT_EQ(
      Sum(PredictionOperations(spec, SmallTraining(1), {.tp = 2, .sequence_parallel = true})).dense,
      3 * 256 + 2 * 256 * 256 / 2);
}

}  // namespace
}  // namespace hapmoe::model
