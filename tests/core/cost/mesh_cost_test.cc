#include "core/cost/mesh_cost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "tests/core/testing/fixtures.h"

namespace hapmoe::cost {
namespace {

using hapmoe::testing::Layers;
using hapmoe::testing::SmallModel;
using hapmoe::testing::TestProblem;
using model::Recompute;

Recompute Full(Recompute::Method method, int64_t layers) {
  Recompute recompute;
  recompute.granularity = Recompute::Granularity::kFull;
  recompute.method = method;
  recompute.num_layers = layers;
  return recompute;
}

TEST(MeshCostTest, LayersAddUp) {
  model::TransformerSpec spec = SmallModel(6, 256, 4);
  spec.layer_kinds[0] = spec.layer_kinds[1] = model::LayerKind::kDense;
  const Problem problem = TestProblem(spec);
  const MeshCost costs(problem, 0, {.dp = 8, .ep = 4}, 1, false, {});
  const auto forward = [&](int64_t first, int64_t count) {
    return costs.Chunk(Layers(first, count), {}).passes.forward.total();
  };
  EXPECT_NEAR(forward(0, 6), forward(0, 3) + forward(3, 3), 1e-12);
  EXPECT_NEAR(forward(1, 2), forward(1, 1) + forward(2, 1), 1e-12);
  EXPECT_NE(forward(0, 1), forward(2, 1));
}

TEST(MeshCostTest, TiedOutputHoldsACopyOnlyAwayFromTheEmbedding) {
  model::TransformerSpec spec = SmallModel(4, 256);
  spec.tied_embeddings = true;
  const Problem problem = TestProblem(spec);
  const MeshCost costs(problem, 0, {.dp = 8}, 1, false, {});
  const double word = 1024 * 256;
  plan::Chunk first = Layers(0, 4);
  first.embedding = true;
  plan::Chunk last = Layers(0, 4);
  last.loss = true;
  plan::Chunk both = first;
  both.loss = true;
  const double layers = costs.Chunk(Layers(0, 4), {}).passes.dense_parameters;
  EXPECT_EQ(costs.Chunk(first, {}).passes.dense_parameters, layers + word);
  EXPECT_EQ(costs.Chunk(last, {}).passes.dense_parameters, layers + word + 256);
  EXPECT_EQ(costs.Chunk(both, {}).passes.dense_parameters, layers + word + 256);
}

TEST(MeshCostTest, FullRecomputationKeepsInputsAndRepeatsTheForwardPass) {
  const Problem problem = TestProblem(SmallModel(4, 256));
  const MeshCost costs(problem, 0, {.dp = 8}, 1, false, {});
  const StageCost none = costs.Chunk(Layers(0, 4), {});
  const StageCost full = costs.Chunk(Layers(0, 4), Full(Recompute::Method::kBlock, 4));
  const double input = 256 * 256 * 2;  // Tokens x hidden x 2 bytes.
  EXPECT_DOUBLE_EQ(full.passes.saved_bytes, 4 * input);
  EXPECT_NEAR(full.passes.recompute.total(), none.passes.forward.total(), 1e-15);
  // One layer comes back at a time.
  EXPECT_NEAR(full.working_set.replayed_bytes, none.passes.saved_bytes / 4, 1);

  const StageCost half = costs.Chunk(Layers(0, 4), Full(Recompute::Method::kBlock, 2));
  EXPECT_DOUBLE_EQ(half.passes.saved_bytes, 2 * input + none.passes.saved_bytes / 2);
  // More than there are: all of them. None: none.
  EXPECT_DOUBLE_EQ(
      costs.Chunk(Layers(0, 4), Full(Recompute::Method::kBlock, 99)).passes.saved_bytes, 4 * input);
  EXPECT_DOUBLE_EQ(costs.Chunk(Layers(0, 4), Full(Recompute::Method::kBlock, 0)).passes.saved_bytes,
                   none.passes.saved_bytes);
  // Two units of two layers keep two inputs and bring back two layers at once.
  const StageCost units = costs.Chunk(Layers(0, 4), Full(Recompute::Method::kUniform, 2));
  EXPECT_DOUBLE_EQ(units.passes.saved_bytes, 2 * input);
  EXPECT_NEAR(units.working_set.replayed_bytes, none.passes.saved_bytes / 2, 1);
}

TEST(MeshCostTest, SelectiveRecomputationLiesBetweenNoneAndFull) {
  const Problem problem = TestProblem(SmallModel(4, 256, 8));
  const std::vector<uint32_t> sets = {model::kRecomputeLayerNorm, model::kRecomputeMoeActivation,
                                      model::kRecomputeMoe};
  const MeshCost costs(problem, 0, {.dp = 8, .ep = 8}, 1, false, sets);
  const StageCost none = costs.Chunk(Layers(0, 4), {});
  const StageCost full = costs.Chunk(Layers(0, 4), Full(Recompute::Method::kBlock, 4));
  for (const uint32_t set : sets) {
    SCOPED_TRACE(set);
    Recompute selective;
    selective.granularity = Recompute::Granularity::kSelective;
    selective.modules = set;
    const StageCost cost = costs.Chunk(Layers(0, 4), selective);
    EXPECT_LT(cost.passes.saved_bytes, none.passes.saved_bytes);
    EXPECT_GT(cost.passes.saved_bytes, full.passes.saved_bytes);
    EXPECT_GT(cost.passes.recompute.total(), 0);
    EXPECT_LT(cost.passes.recompute.total(), full.passes.recompute.total());
  }
}

struct StateCase {
  const char* name;
  bool distributed;
  int64_t gradient_bytes;
  double offload_ratio;
  double want_per_parameter;  // On the device, over 8 shards where distributed.
  double want_host;
};

TEST(MeshCostTest, StateBytesFollowTheEnginesTable) {
  for (const StateCase& c :
       std::vector<StateCase>{{"no sharding", false, 4, 0, 18, 0},
                              {"ZeRO-1", true, 4, 0, 6 + 12.0 / 8, 0},
                              {"ZeRO-1, 16-bit gradients", true, 2, 0, 4 + 12.0 / 8, 0},
                              {"ZeRO-1, offloaded", true, 4, 1, 6, 16.0 / 8},
                              {"ZeRO-1, half offloaded", true, 4, 0.5, 6 + 6.0 / 8, 8.0 / 8}}) {
    SCOPED_TRACE(c.name);
    Problem problem = TestProblem(SmallModel(4, 256));
    problem.training.optimizer.distributed = c.distributed;
    problem.training.gradient_bytes = c.gradient_bytes;
    problem.training.optimizer.offload_ratio = c.offload_ratio;
    const MeshCost costs(problem, 0, {.cp = 2, .dp = 4}, 1, false, {});  // Sharded over dp x cp.
    const StageCost stage = costs.Chunk(Layers(0, 4), {});
    const MemoryBreakdown memory = costs.Memory(stage, 1, 0);
    const double parameters = stage.passes.dense_parameters;
    EXPECT_NEAR(
        (memory.parameters_bytes + memory.gradients_bytes + memory.optimizer_bytes) / parameters,
        c.want_per_parameter, 1e-9);
    EXPECT_NEAR(memory.host_bytes / parameters, c.want_host, 1e-9);
  }
}

TEST(MeshCostTest, ExpertStatesAreShardedOverExpertDataParallelRanks) {
  const Problem problem = TestProblem(SmallModel(4, 256, 8));
  const MeshCost costs(problem, 0, {.dp = 8, .ep = 4}, 1, false, {});  // Expert dp 2.
  const StageCost stage = costs.Chunk(Layers(0, 4), {});
  EXPECT_NEAR(costs.Memory(stage, 1, 0).optimizer_bytes,
              stage.passes.dense_parameters * 12 / 8 + stage.passes.expert_parameters * 12 / 2, 1);
}

TEST(MeshCostTest, PartsOfMemoryAddUpAndActivationsScaleWithWhatIsInFlight) {
  const Problem problem = TestProblem(SmallModel(4, 256, 8));
  const MeshCost costs(problem, 0, {.dp = 8, .ep = 4}, 1, false, {});
  plan::Chunk chunk = Layers(0, 4);
  chunk.loss = true;
  const StageCost stage = costs.Chunk(chunk, {});
  const MemoryBreakdown one = costs.Memory(stage, 1, 3);
  const MemoryBreakdown four = costs.Memory(stage, 4, 3);
  EXPECT_DOUBLE_EQ(four.activations_bytes, 4 * one.activations_bytes);
  EXPECT_DOUBLE_EQ(four.peak_bytes() - one.peak_bytes(), 3 * one.activations_bytes);
  EXPECT_DOUBLE_EQ(one.peak_bytes(), one.allocated_bytes() + one.slack_bytes +
                                         one.communication_bytes + one.framework_bytes);
}

TEST(MeshCostTest, ThePeakIsTheLossOrTheBackwardPassWhicheverNeedsMore) {
  Problem problem = TestProblem(SmallModel(4, 256, 8));
  plan::Chunk chunk = Layers(0, 4);
  chunk.loss = true;
  for (const int64_t vocab : {1024, 1 << 17}) {
    problem.model.vocab = vocab;
    const MeshCost costs(problem, 0, {.dp = 8, .ep = 4}, 1, false, {});
    const StageCost stage = costs.Chunk(chunk, {});
    // Tokens x vocabulary, 2 bytes and 4.
    EXPECT_DOUBLE_EQ(stage.logits_bytes, 256.0 * static_cast<double>(vocab) * 6);
    const MemoryBreakdown memory = costs.Memory(stage, 1, 0);
    const double backward = stage.working_set.total() + stage.dispatch_bytes;
    const bool loss = stage.logits_bytes > backward;
    EXPECT_EQ(loss, vocab > 1024);
    EXPECT_EQ(memory.moment, loss ? PeakMoment::kLoss : PeakMoment::kBackward);
    EXPECT_DOUBLE_EQ(memory.working_set_bytes + memory.dispatch_bytes + memory.logits_bytes,
                     std::max(stage.logits_bytes, backward));
  }
}

TEST(MeshCostTest, OverlapHidesGradientSyncButNotItsLastBucket) {
  Problem problem = TestProblem(SmallModel(4, 256));
  const plan::Degrees degrees{.dp = 32};
  const auto sync = [&] {
    const MeshCost costs(problem, 0, degrees, 1, false, {});
    return costs.Tail(costs.Chunk(Layers(0, 4), {})).gradient_sync_seconds;
  };
  const double exposed = sync();
  problem.training.overlap.gradient_reduce = true;
  const double overlapped = sync();
  EXPECT_GT(exposed, 0);
  EXPECT_LE(overlapped, exposed);
  EXPECT_GT(overlapped, 0);
}

TEST(MeshCostTest, OffloadedStatesMoveAtFourFifthsOfTheHostsRates) {
  Problem problem = TestProblem(SmallModel(4, 256));
  problem.training.optimizer.distributed = false;
  problem.training.optimizer.offload_ratio = 1;
  profile::AcceleratorProfile profile = *problem.profiles[0];
  profile.host_link_bytes_per_second = 50e9;
  profile.host_memory_bytes_per_second = 100e9;
  problem.profiles = {std::make_shared<const profile::AcceleratorProfile>(profile)};
  const MeshCost costs(problem, 0, {.dp = 8}, 1, false, {});
  const StageCost stage = costs.Chunk(Layers(0, 4), {});
  // An element: 4 bytes of gradient and 2 of parameter cross the link; 4 of gradient, 12 of states
  // read and written, and 2 of parameter are the optimizer's traffic.
  EXPECT_DOUBLE_EQ(costs.Tail(stage).optimizer_seconds,
                   stage.passes.dense_parameters * ((4.0 + 2) / 40e9 + (4.0 + 2 * 12 + 2) / 80e9));
}

// A profile that needs 5 us of the host for an operator, with one measured layer.
Problem MeasuredProblem(const model::TransformerSpec& spec, bool includes_communication) {
  Problem problem = TestProblem(spec);
  profile::AcceleratorProfile profile = *problem.profiles[0];
  profile.launch_seconds = 5e-6;
  profile.layers.push_back({{.hidden = spec.hidden,
                             .ffn_hidden = spec.ffn_hidden,
                             .gated_mlp = spec.gated_mlp,
                             .heads = spec.heads,
                             .query_groups = spec.query_groups,
                             .seq_length = spec.seq_length},
                            {{1, 2, 0.25, 0.75}, {2, 2, 0.5, 1.0}},
                            includes_communication,
                            "test"});
  problem.profiles = {std::make_shared<const profile::AcceleratorProfile>(profile)};
  return problem;
}

TEST(MeshCostTest, MeasuredLayersTakeWhatWasMeasured) {
  const Problem problem = MeasuredProblem(SmallModel(4, 256), false);
  const MeshCost costs(problem, 0, {.dp = 8}, 2, false, {});
  const LayerCost none = costs.Chunk(Layers(0, 4), {}).passes;
  EXPECT_NEAR(none.forward.total(), 1, 1e-9);
  EXPECT_NEAR(none.backward.total(), 3, 1e-9);
  EXPECT_NEAR(none.evidence.measured_seconds, 4, 1e-9);
  EXPECT_NEAR(none.evidence.total(), 4, 1e-9);
  const LayerCost full = costs.Chunk(Layers(0, 4), Full(Recompute::Method::kBlock, 4)).passes;
  EXPECT_NEAR(full.recompute.total(), 1, 1e-9);
  // Half of the smallest micro-batch.
  const MeshCost small(problem, 0, {.dp = 8}, 1, false, {});
  const LayerCost half = small.Chunk(Layers(0, 4), {}).passes;
  EXPECT_NEAR(half.forward.total(), 0.5, 1e-9);
  EXPECT_NEAR(half.evidence.interpolated_seconds, 2, 1e-9);
}

TEST(MeshCostTest, MeasuredLayersKeepOurCommunicationUnlessTheyIncludeIt) {
  const model::TransformerSpec spec = SmallModel(4, 256);
  const plan::Degrees degrees = {.tp = 2, .dp = 4};
  const auto cost = [&](const Problem& problem) {
    return MeshCost(problem, 0, degrees, 2, true, {}).Chunk(Layers(0, 4), {}).passes;
  };
  const LayerCost plain = cost(TestProblem(spec));
  const LayerCost apart = cost(MeasuredProblem(spec, false));
  const LayerCost included = cost(MeasuredProblem(spec, true));
  EXPECT_GT(plain.forward.tensor, 0);
  EXPECT_DOUBLE_EQ(apart.forward.tensor, plain.forward.tensor);
  EXPECT_NEAR(apart.forward.compute, 2, 1e-9);
  EXPECT_EQ(included.forward.tensor, 0);
  EXPECT_NEAR(included.backward.total(), 4, 1e-9);
}

TEST(MeshCostTest, LayersOfAnotherShapeOrSplitContextAreCalculated) {
  const Problem measured = MeasuredProblem(SmallModel(4, 256), false);
  const MeshCost split(measured, 0, {.cp = 2, .dp = 4}, 2, false, {});
  EXPECT_EQ(split.Chunk(Layers(0, 4), {}).passes.evidence.measured_seconds, 0);
  Problem other = measured;
  other.model.qk_layernorm = true;
  const MeshCost normed(other, 0, {.dp = 8}, 2, false, {});
  EXPECT_EQ(normed.Chunk(Layers(0, 4), {}).passes.evidence.measured_seconds, 0);
}

TEST(MeshCostTest, TypesWithoutFusedAttentionKeepTheScores) {
  Problem problem = TestProblem(SmallModel(4, 256));
  auto profile = std::make_shared<profile::AcceleratorProfile>(*problem.profiles[0]);
  profile->memory_bytes_per_second = 1e9;
  problem.profiles[0] = profile;
  const auto cost = [&] {
    return MeshCost(problem, 0, {.dp = 8}, 2, false, {}).Chunk(Layers(0, 4), {}).passes;
  };
  const LayerCost fused = cost();
  profile->fused_attention = false;
  const LayerCost unfused = cost();
  EXPECT_GT(unfused.saved_bytes, fused.saved_bytes);
  EXPECT_GT(unfused.forward.total(), fused.forward.total());
  profile->fused_attention = true;
  problem.training.flash_attention = false;
  EXPECT_EQ(cost().saved_bytes, unfused.saved_bytes);
  EXPECT_EQ(cost().forward.total(), unfused.forward.total());
}

}  // namespace
}  // namespace hapmoe::cost
