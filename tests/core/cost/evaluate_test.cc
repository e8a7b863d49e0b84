#include "core/cost/evaluate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "absl/strings/str_join.h"
#include "tests/core/testing/fixtures.h"

namespace hapmoe::cost {
namespace {

using hapmoe::testing::ScaledProfile;
using hapmoe::testing::SmallModel;
using hapmoe::testing::SmallPool;
using hapmoe::testing::SmallTraining;
using hapmoe::testing::TestProblem;
using ::testing::AllOf;
using ::testing::HasSubstr;

Problem TwoPools() {
  Problem problem;
  problem.model = SmallModel(8, 256, 4);
  problem.training = SmallTraining(64);
  problem.cluster.pools = {SmallPool("fast", 1, 8), SmallPool("slow", 1, 8)};
  problem.profiles = {ScaledProfile("fast", 3, 1e12), ScaledProfile("slow", 1, 1e12)};
  return problem;
}

plan::Stage Stage(const model::TransformerSpec& model, int64_t first, int64_t last) {
  plan::Chunk chunk;
  chunk.first_layer = first;
  chunk.layers = last - first;
  chunk.embedding = first == 0;
  chunk.loss = last == model.layers;
  return {.chunks = {chunk}, .recompute = {}};
}

plan::Plan TwoStages(const Problem& problem, int64_t split) {
  plan::Plan plan;
  const plan::Degrees degrees{.dp = 8, .ep = 4};
  plan.meshes = {
      {.pool = 0, .degrees = degrees, .stages = {Stage(problem.model, 0, split)}},
      {.pool = 1, .degrees = degrees, .stages = {Stage(problem.model, split, 8)}},
  };
  plan.global_batch = 64;
  plan.micro_batches = 8;
  return plan;
}

TEST(EvaluateTest, BreakdownAddsUpToTheIteration) {
  const Problem problem = TwoPools();
  const auto prediction = Evaluate(problem, TwoStages(problem, 6));
  ASSERT_TRUE(prediction.ok()) << prediction.status();
  const TimeBreakdown& time = prediction->time;
  EXPECT_NEAR(time.compute_seconds + time.recompute_seconds + time.tensor_parallel_seconds +
                  time.context_parallel_seconds + time.expert_parallel_seconds +
                  time.pipeline_seconds + time.bubble_seconds + time.gradient_sync_seconds +
                  time.optimizer_seconds,
              prediction->iteration_seconds, 1e-12);
  EXPECT_GE(time.bubble_seconds, 0);
  EXPECT_DOUBLE_EQ(prediction->tokens_per_second, 64 * 256 / prediction->iteration_seconds);
  EXPECT_TRUE(prediction->fits());
}

TEST(EvaluateTest, LayersOnTheFasterPoolPayOff) {
  const Problem problem = TwoPools();
  const double even = Evaluate(problem, TwoStages(problem, 4))->iteration_seconds;
  const double uneven = Evaluate(problem, TwoStages(problem, 6))->iteration_seconds;
  EXPECT_LT(uneven, even);
}

TEST(EvaluateTest, OneMicroBatchMakesThePipelineSerial) {
  // Twice the stages of the same accelerators give nothing with one micro-batch.
  Problem problem = TwoPools();
  problem.profiles[1] = problem.profiles[0];
  plan::Plan plan = TwoStages(problem, 4);
  plan.micro_batches = 1;
  plan.global_batch = 8;
  const auto prediction = Evaluate(problem, plan);
  double serial = 0;
  for (const StagePrediction& stage : prediction->stages) {
    serial += stage.forward_seconds + stage.backward_seconds;
  }
  EXPECT_GE(prediction->iteration_seconds, serial);
}

TEST(EvaluateTest, MemoryOfEachStageCountsWhatItHasInFlight) {
  Problem problem = TwoPools();
  problem.model.vocab = 1 << 17;  // The loss needs more than any layer.
  const auto prediction = Evaluate(problem, TwoStages(problem, 4));
  EXPECT_EQ(prediction->stages[0].memory.in_flight_micro_batches, 2);
  EXPECT_EQ(prediction->stages[1].memory.in_flight_micro_batches, 1);
  EXPECT_GT(prediction->stages[1].memory.logits_bytes, 0);
  EXPECT_EQ(prediction->stages[0].memory.logits_bytes, 0);
}

TEST(EvaluateTest, SaysWhichLinkItAssumed) {
  Problem problem = TwoPools();
  using ::testing::Contains;
  using ::testing::HasSubstr;
  EXPECT_THAT(Evaluate(problem, TwoStages(problem, 4))->assumptions,
              Contains(HasSubstr("fast and slow")));
  problem.cluster.links.push_back({.first_pool = 0, .second_pool = 1, .network = {1e9, 1e-6}});
  EXPECT_THAT(Evaluate(problem, TwoStages(problem, 4))->assumptions,
              ::testing::Not(Contains(HasSubstr("fast and slow"))));
}

TEST(EvaluateTest, SaysWhereAttentionIsNotFused) {
  Problem problem = TwoPools();
  using ::testing::Contains;
  using ::testing::Not;
  auto slow = std::make_shared<profile::AcceleratorProfile>(*problem.profiles[1]);
  slow->fused_attention = false;
  problem.profiles[1] = slow;
  EXPECT_THAT(Evaluate(problem, TwoStages(problem, 4))->assumptions,
              Contains("No kernel fuses attention on slow: its scores are computed whole and kept "
                       "in memory."));
  // Not where the job keeps them anyway.
  problem.training.flash_attention = false;
  EXPECT_THAT(Evaluate(problem, TwoStages(problem, 4))->assumptions,
              Not(Contains(HasSubstr("No kernel fuses"))));
}

TEST(EvaluateTest, SaysWhatItAssumesOfTheRouter) {
  Problem problem = TestProblem(SmallModel(4, 256, 8));
  plan::Plan plan;
  plan.meshes = {
      {.pool = 0, .degrees = {.dp = 8, .ep = 8}, .stages = {Stage(problem.model, 0, 4)}}};
  plan.global_batch = 64;
  plan.micro_batches = 8;
  const auto said = [&] {
    const auto prediction = Evaluate(problem, plan);
    EXPECT_TRUE(prediction.ok());
    return absl::StrJoin(prediction->assumptions, "|");
  };
  EXPECT_EQ(said(), "Tokens are routed to expert ranks evenly.");
  problem.training.balancing = model::Balancing::kAuxiliaryLoss;
  problem.training.imbalance_quantile = 0.9;
  // 512 assignments a rank, one expert each, 2 of 8: the root of (0.138^2 + 1/512) x 6/7, 0.1340.
  // Blom gives 1.434 of it, and the quantile 0.9^(1/8) 2.224.
  EXPECT_THAT(said(),
              AllOf(HasSubstr("With an auxiliary loss the busiest"), HasSubstr("1.192 times"),
                    HasSubstr("holds 1.298 times"), HasSubstr("enough in 90 %")));
  problem.training.imbalance_quantile = 0;
  EXPECT_THAT(said(), HasSubstr("1.192 times the mean tokens, in time and memory alike"));
}

TEST(EvaluateTest, AFasterLinkNeverSlowsThePlan) {
  Problem problem = TwoPools();
  double before = 1e9;
  for (const double rate : {1e8, 1e9, 1e10, 1e11}) {
    problem.cluster.links = {{.first_pool = 0, .second_pool = 1, .network = {rate, 1e-6}}};
    const double seconds = Evaluate(problem, TwoStages(problem, 4))->iteration_seconds;
    EXPECT_LE(seconds, before);
    before = seconds;
  }
}

TEST(EvaluateTest, UnsupportedPrecisionIsNamed) {
  Problem problem = TwoPools();
  problem.training.fp8 = true;
  const auto prediction = Evaluate(problem, TwoStages(problem, 4));
  EXPECT_EQ(prediction.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(prediction.status().message()), ::testing::HasSubstr("fp8"));
}

TEST(InFlightTest, FollowsTheSchedule) {
  EXPECT_EQ(InFlightMicroBatches(0, 4, 1, 4, 16), 4);
  EXPECT_EQ(InFlightMicroBatches(0, 4, 1, 4, 2), 2);
  EXPECT_EQ(InFlightMicroBatches(3, 4, 1, 4, 16), 1);
  // 2 x 3 + 1 x 4 + 1 chunk passes of half a stage.
  EXPECT_EQ(InFlightMicroBatches(0, 4, 2, 4, 16), 5.5);
}

// On unit accelerators: tp 8 inside nodes, dp 4 between them.
Prediction CorrectedBy(const profile::Corrections& corrections) {
  Problem problem = TestProblem(SmallModel(8, 512));
  auto profile = std::make_shared<profile::AcceleratorProfile>(*problem.profiles[0]);
  profile->corrections = corrections;
  profile->allocator_slack_ratio = 0.1;
  problem.profiles[0] = profile;
  plan::Plan plan;
  plan.meshes = {
      {.pool = 0, .degrees = {.tp = 8, .dp = 4}, .stages = {Stage(problem.model, 0, 8)}}};
  plan.global_batch = 64;
  plan.micro_batches = 16;
  return Evaluate(problem, plan).value();
}

TEST(EvaluateTest, CorrectionsAreFactorsOnWhatTheyAreAbout) {
  const Prediction plain = CorrectedBy({});
  const auto with = [](std::initializer_list<profile::Term> terms) {
    profile::Corrections corrections;
    for (const profile::Term term : terms) corrections.set(term, 2);
    return CorrectedBy(corrections);
  };
  using profile::Term;
  const Prediction compute = with({Term::kProducts, Term::kAttention, Term::kMemory});
  EXPECT_NEAR(compute.time.compute_seconds, 2 * plain.time.compute_seconds,
              1e-9 * plain.time.compute_seconds);
  EXPECT_EQ(compute.time.tensor_parallel_seconds, plain.time.tensor_parallel_seconds);
  EXPECT_GT(plain.time.tensor_parallel_seconds, 0);
  const Prediction inside = with({Term::kScaleUp});
  EXPECT_NEAR(inside.time.tensor_parallel_seconds, 2 * plain.time.tensor_parallel_seconds,
              1e-9 * plain.time.tensor_parallel_seconds);
  EXPECT_EQ(inside.time.compute_seconds, plain.time.compute_seconds);
  EXPECT_GT(plain.time.gradient_sync_seconds, 0);
  const Prediction between = with({Term::kNetwork});
  EXPECT_NEAR(between.time.gradient_sync_seconds, 2 * plain.time.gradient_sync_seconds,
              0.01 * plain.time.gradient_sync_seconds);  // Latencies are as they are.
  const Prediction memory = with({Term::kActivations});
  EXPECT_NEAR(memory.stages[0].memory.activations_bytes,
              2 * plain.stages[0].memory.activations_bytes, 1);
  EXPECT_NEAR(memory.stages[0].memory.slack_bytes, 2 * plain.stages[0].memory.slack_bytes, 1);
  EXPECT_EQ(memory.stages[0].memory.parameters_bytes, plain.stages[0].memory.parameters_bytes);
  EXPECT_EQ(memory.iteration_seconds, plain.iteration_seconds);
  const Prediction slack = with({Term::kSlack});
  EXPECT_NEAR(slack.stages[0].memory.slack_bytes, 2 * plain.stages[0].memory.slack_bytes, 1);
  EXPECT_EQ(slack.allocated_memory_bytes(), plain.allocated_memory_bytes());
  // Whatever this job does not do takes no part.
  EXPECT_EQ(with({Term::kLowPrecision, Term::kRouting, Term::kHost}).iteration_seconds,
            plain.iteration_seconds);
}

}  // namespace
}  // namespace hapmoe::cost
