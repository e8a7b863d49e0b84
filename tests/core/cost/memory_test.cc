// Numbers are worked out by hand. The small model: hidden 256, 4 heads of 64, feed-forward 512,
// gated; 256 tokens; 2 bytes an element.
#include "core/cost/memory.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "core/cost/mesh_cost.h"
#include "tests/core/testing/fixtures.h"

namespace hapmoe::cost {
namespace {

using hapmoe::testing::Layers;
using hapmoe::testing::SmallModel;
using hapmoe::testing::TestProblem;

constexpr double kWorkspaces = 3.0 * 32 * 1024 * 1024;
// 768 x 256, 256 x 256, 1024 x 256 and 256 x 512.
constexpr double kDenseWeights = 655360;

TEST(MemoryTest, ALayerSavesWhatItsOperationsNeedAgain) {
  const Problem dense = TestProblem(SmallModel(2, 256));
  const MeshCost costs(dense, 0, {.dp = 8}, 1, false, {});
  // Tokens x hidden is 131072 bytes: both norms' inputs, both norms' outputs and attention's
  // output; log-sum-exp 256 x 4 x 4; queries, keys and values 3 x 131072; the gate's input 256 x
  // 1024 x 2 and its output 256 x 512 x 2.
  const double attention = 4.0 * 131072 + 4096 + 3 * 131072;
  EXPECT_DOUBLE_EQ(costs.Chunk(Layers(0, 1), {}).passes.saved_bytes,
                   attention + 131072 + 524288 + 262144);

  const Problem moe = TestProblem(SmallModel(2, 256, 4));
  const MeshCost expert_costs(moe, 0, {.dp = 8, .ep = 4}, 1, false, {});
  // The norm's output once for the router, its logits and scores 2 x 256 x 4 x 4; 512 tokens
  // arrive: 512 x 256 x 2, the gate's input 512 x 1024 x 2 with a probability of 4 bytes, its
  // output.
  EXPECT_DOUBLE_EQ(expert_costs.Chunk(Layers(0, 1), {}).passes.saved_bytes,
                   attention + 131072 + 8192 + 262144 + 512.0 * (2048 + 4) + 524288);
}

TEST(MemoryTest, APlaceholderIsKeptOnceForEveryShapeOfWeight) {
  Problem problem = TestProblem(SmallModel(4, 256));
  const auto held = [&](int64_t layers) {
    const MeshCost costs(problem, 0, {.dp = 8}, 1, false, {});
    return costs.Memory(costs.Chunk(Layers(0, layers), {}), 1, 0).placeholder_bytes;
  };
  EXPECT_DOUBLE_EQ(held(1), kWorkspaces + 2 * kDenseWeights);
  EXPECT_DOUBLE_EQ(held(4), held(1));
  problem.training.keeps_gradient_placeholders = false;
  EXPECT_DOUBLE_EQ(held(4), kWorkspaces);
}

TEST(MemoryTest, DenseAndExpertLayersShareThePlaceholdersOfShapesTheyShare) {
  model::TransformerSpec spec = SmallModel(4, 256, 4);
  spec.moe->ffn_hidden = 128;  // Weights 256 x 256, as the output projection, and 256 x 128.
  spec.layer_kinds[0] = model::LayerKind::kDense;
  const Problem problem = TestProblem(spec);
  const MeshCost costs(problem, 0, {.dp = 8, .ep = 4}, 1, false, {});
  const auto held = [&](int64_t first, int64_t count) {
    return costs.Memory(costs.Chunk(Layers(first, count), {}), 1, 0).placeholder_bytes -
           kWorkspaces;
  };
  EXPECT_DOUBLE_EQ(held(0, 1), 2 * kDenseWeights);
  EXPECT_DOUBLE_EQ(held(1, 1), 2.0 * (768 * 256 + 256 * 256 + 256 * 128));
  EXPECT_DOUBLE_EQ(held(0, 2), 2 * (kDenseWeights + 256 * 128));
}

TEST(MemoryTest, WeightsCastTo8BitStayByRowsAndByColumnsUnlessParametersAreIn8Bit) {
  Problem problem = TestProblem(SmallModel(4, 256));
  const auto held = [&] {
    const MeshCost costs(problem, 0, {.dp = 8}, 1, false, {});
    return costs.Memory(costs.Chunk(Layers(0, 4), {}), 1, 0).placeholder_bytes;
  };
  const double without = held();
  problem.training.fp8 = true;
  EXPECT_DOUBLE_EQ(held(), without + 4 * kDenseWeights * 2);
  problem.training.fp8_parameters = true;
  EXPECT_DOUBLE_EQ(held(), without);
}

TEST(MemoryTest, TheOutputLayersBackwardPassIsThePeakWhereItsWeightOutgrowsTheLogits) {
  Problem problem = TestProblem(SmallModel(4, 256));
  problem.model.vocab = 1 << 17;
  plan::Chunk chunk = Layers(0, 4);
  chunk.loss = true;
  // 64 tokens: 6 bytes a logit at the loss, then 2 bytes a logit, 256 x 2 bytes a row of the
  // weight, and 64 x 256 twice.
  const MeshCost costs(problem, 0, {.cp = 4, .dp = 2}, 1, false, {});
  const StageCost stage = costs.Chunk(chunk, {});
  EXPECT_DOUBLE_EQ(stage.logits_bytes, 64.0 * 131072 * 6);
  EXPECT_DOUBLE_EQ(stage.output_backward_bytes, 2.0 * (64 + 256) * 131072 + 2 * 2 * 64 * 256);
  const MemoryBreakdown memory = costs.Memory(stage, 1, 0);
  EXPECT_EQ(memory.moment, PeakMoment::kOutput);
  EXPECT_DOUBLE_EQ(memory.logits_bytes, stage.output_backward_bytes);
  // Four times the tokens, and the loss needs more.
  const MeshCost whole(problem, 0, {.dp = 8}, 1, false, {});
  EXPECT_EQ(whole.Memory(whole.Chunk(chunk, {}), 1, 0).moment, PeakMoment::kLoss);
}

TEST(MemoryTest, LossesDifferInTheCopiesOfLogitsTheyMake) {
  Problem problem = TestProblem(SmallModel(4, 256));
  plan::Chunk chunk = Layers(0, 4);
  chunk.loss = true;
  const auto bytes_per_logit = [&] {
    const MeshCost costs(problem, 0, {.dp = 8}, 1, false, {});
    return costs.Chunk(chunk, {}).logits_bytes / (256.0 * 1024);
  };
  EXPECT_DOUBLE_EQ(bytes_per_logit(), 2 + 4);
  problem.training.fused_cross_entropy = true;
  EXPECT_DOUBLE_EQ(bytes_per_logit(), 2 + 4 + 4);
  problem.training.cross_entropy_in_place = true;
  EXPECT_DOUBLE_EQ(bytes_per_logit(), 2);
}

TEST(MemoryTest, TheEmbeddingsGradientComesWhenItsMicroBatchHoldsNothingElse) {
  Problem problem = TestProblem(SmallModel(4, 256));
  problem.model.vocab = 1 << 17;
  plan::Chunk chunk = Layers(0, 4);
  chunk.embedding = true;
  const MeshCost costs(problem, 0, {.dp = 8}, 1, false, {});
  const StageCost stage = costs.Chunk(chunk, {});
  const MemoryBreakdown memory = costs.Memory(stage, 3, 0);
  EXPECT_EQ(memory.moment, PeakMoment::kEmbedding);
  EXPECT_DOUBLE_EQ(memory.activations_bytes, 2 * stage.passes.saved_bytes);
  EXPECT_DOUBLE_EQ(memory.working_set_bytes, 131072.0 * 256 * 2);
}

TEST(MemoryTest, TheStepIsThePeakWhereItWidensAllGradients) {
  Problem problem = TestProblem(SmallModel(4, 256));
  model::Optimizer& optimizer = problem.training.optimizer;
  optimizer.distributed = false;
  problem.training.gradient_bytes = 2;
  const auto memory = [&] {
    const MeshCost costs(problem, 0, {.cp = 4, .dp = 2}, 1, false, {});
    return costs.Memory(costs.Chunk(Layers(0, 4), {}), 1, 0);
  };
  const MemoryBreakdown widened = memory();
  EXPECT_EQ(widened.moment, PeakMoment::kOptimizer);
  EXPECT_DOUBLE_EQ(widened.activations_bytes, 0);
  EXPECT_DOUBLE_EQ(widened.working_set_bytes, 2 * widened.parameters_bytes);
  optimizer.precision_aware = true;
  EXPECT_EQ(memory().moment, PeakMoment::kBackward);
  optimizer.precision_aware = false;
  problem.training.gradient_bytes = 4;
  EXPECT_EQ(memory().moment, PeakMoment::kBackward);
}

// CVI-SZU/Linly issue 83: host memory, not the accelerator's, was the limit.
TEST(MemoryTest, OffloadedStatesMustFitTheRanksShareOfItsHost) {
  Problem problem = TestProblem(SmallModel(4, 256));
  problem.training.optimizer.offload_ratio = 1;
  const auto memory = [&] {
    const MeshCost costs(problem, 0, {.dp = 8}, 1, false, {});
    return costs.Memory(costs.Chunk(Layers(0, 4), {}), 1, 0);
  };
  // 12 bytes of states and 4 of gradient for an eighth of the parameters, 2 bytes each.
  const double need = memory().parameters_bytes / 2 / 8 * 16;
  EXPECT_DOUBLE_EQ(memory().host_bytes, need);
  EXPECT_TRUE(memory().fits());
  problem.cluster.pools[0].host_memory_bytes = 8 * need;  // 8 accelerators share it.
  EXPECT_TRUE(memory().fits());
  problem.cluster.pools[0].host_memory_bytes = 8 * need - 8;
  const MemoryBreakdown misfit = memory();
  EXPECT_FALSE(misfit.fits());
  EXPECT_TRUE(misfit.host_binds());
  EXPECT_DOUBLE_EQ(misfit.short_bytes(), 1);
}

// What users found planners to get wrong.
struct LogitsCase {
  const char* source;
  int64_t vocab;
  int64_t tokens;
  int64_t micro_batch;
  int64_t tp;
  double bytes_per_logit;
  double want_bytes;
  double tolerance_bytes;
};

TEST(MemoryTest, LogitsThatUsersMeasured) {
  for (const LogitsCase& c : {
           LogitsCase{"151936 rows, 8192 tokens: 4.638 GiB in 32 bit", 151936, 8192, 1, 1, 4,
                      4.638 * 1073741824, 2e6},
           LogitsCase{"128000 rows, 4 x 4096 tokens, tp 8: 0.5 GB in 16 bit", 128000, 4096, 4, 8, 2,
                      0.5e9, 0.03e9},
       }) {
    SCOPED_TRACE(c.source);
    Problem problem = TestProblem(SmallModel(4, 512));
    problem.model.vocab = c.vocab;
    problem.model.seq_length = c.tokens;
    plan::Chunk chunk = Layers(0, 4);
    chunk.loss = true;
    const MeshCost costs(problem, 0, {.tp = c.tp}, c.micro_batch, true, {});
    EXPECT_NEAR(costs.Chunk(chunk, {}).logits_bytes * c.bytes_per_logit / 6, c.want_bytes,
                c.tolerance_bytes);
  }
}

// NVIDIA/Megatron-LM pull request 6782: expert parallelism moves tokens and removes none.
TEST(MemoryTest, ExpertParallelismAloneDoesNotShrinkActivations) {
  const Problem problem = TestProblem(SmallModel(4, 256, 8));
  const MeshCost two(problem, 0, {.dp = 8, .ep = 2}, 1, false, {});
  const MeshCost four(problem, 0, {.dp = 8, .ep = 4}, 1, false, {});
  EXPECT_DOUBLE_EQ(two.Chunk(Layers(0, 4), {}).passes.saved_bytes,
                   four.Chunk(Layers(0, 4), {}).passes.saved_bytes);
}

// Users of dropless experts ran out of memory as routing drifted.
TEST(MemoryTest, ImbalanceScalesWhatTheFullestRanksExpertsSave) {
  Problem problem = TestProblem(SmallModel(4, 256, 4));
  const auto saved = [&](const std::vector<int64_t>& expert_tokens) {
    auto statistics = std::make_shared<model::RouterStatistics>();
    statistics->layers.assign(4, expert_tokens);
    problem.training.router_statistics = statistics;
    const MeshCost costs(problem, 0, {.dp = 8, .ep = 4}, 1, false, {});
    return costs.Chunk(Layers(0, 1), {}).passes.saved_bytes;
  };
  // Twice the 512 tokens that ALayerSavesWhatItsOperationsNeedAgain counts.
  EXPECT_DOUBLE_EQ(saved({2, 1, 1, 0}) - saved({1, 1, 1, 1}), 512.0 * (512 + 2048 + 4 + 1024));
}

}  // namespace
}  // namespace hapmoe::cost
