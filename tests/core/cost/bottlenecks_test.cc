#include "core/cost/bottlenecks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "core/cost/evaluate.h"
#include "tests/core/testing/fixtures.h"

namespace hapmoe::cost {
namespace {

using hapmoe::testing::SmallModel;
using hapmoe::testing::TestProblem;
using profile::AcceleratorProfile;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// All 32 accelerators in one stage: tp inside nodes, dp over them.
plan::Plan OneStage(const Problem& problem, int64_t tp) {
  plan::Chunk chunk = hapmoe::testing::Layers(0, problem.model.layers);
  chunk.embedding = chunk.loss = true;
  plan::Plan plan;
  plan.meshes = {{.pool = 0,
                  .degrees = {.tp = tp, .dp = 32 / tp},
                  .stages = {{.chunks = {chunk}, .recompute = {}}}}};
  plan.global_batch = 64;
  plan.micro_batches = 64 / (32 / tp);
  return plan;
}

Problem Changed(const std::function<void(AcceleratorProfile&)>& change) {
  Problem problem = TestProblem(SmallModel(8, 256));
  auto profile = std::make_shared<AcceleratorProfile>(*problem.profiles[0]);
  profile->scale_up_bytes_per_second = profile->scale_up_pair_bytes_per_second = 1e15;
  profile->network_bytes_per_second = 1e15;
  profile->network_latency_seconds = 0;
  change(*profile);
  problem.profiles[0] = profile;
  return problem;
}

double Seconds(const Problem& problem, const plan::Plan& plan) {
  return Evaluate(problem, plan)->iteration_seconds;
}

std::vector<std::string> Sentences(const Problem& problem, const plan::Plan& plan) {
  return Bottlenecks(problem, plan, *Evaluate(problem, plan));
}

TEST(BottlenecksTest, NothingHoldsUpArithmetic) {
  const Problem problem = Changed([](AcceleratorProfile&) {});
  EXPECT_THAT(Sentences(problem, OneStage(problem, 1)), IsEmpty());
}

TEST(BottlenecksTest, TheNetworkByWhatTwiceOfItSaves) {
  const auto at = [](double rate) {
    return Changed([&](AcceleratorProfile& p) { p.network_bytes_per_second = rate; });
  };
  const Problem problem = at(1e8);
  const plan::Plan plan = OneStage(problem, 1);
  const double slow = Seconds(problem, plan);
  const double fast = Seconds(at(2e8), plan);
  EXPECT_THAT(
      Sentences(problem, plan),
      ElementsAre(absl::StrFormat(
          "The network between nodes holds the plan up at 0.8 Gb/s for each accelerator: were "
          "it twice as fast, an iteration would take %.3f s instead of %.3f, %.0f %% less.",
          fast, slow, 100 * (slow - fast) / slow)));
}

TEST(BottlenecksTest, ThePoolsOwnNetworkCounts) {
  Problem problem = Changed([](AcceleratorProfile&) {});
  problem.cluster.pools[0].network.bytes_per_second = 0.5e9;
  EXPECT_THAT(Sentences(problem, OneStage(problem, 1)), ElementsAre(HasSubstr("at 4 Gb/s")));
}

TEST(BottlenecksTest, TheFabricInsideNodes) {
  const Problem problem = Changed([](AcceleratorProfile& p) {
    p.scale_up_bytes_per_second = p.scale_up_pair_bytes_per_second = 1e9;
  });
  EXPECT_THAT(Sentences(problem, OneStage(problem, 8)), ElementsAre(HasSubstr("inside nodes")));
}

TEST(BottlenecksTest, TheHost) {
  const Problem problem = Changed([](AcceleratorProfile& p) { p.launch_seconds = 1e-3; });
  EXPECT_THAT(Sentences(problem, OneStage(problem, 1)), ElementsAre(HasSubstr("CUDA graphs")));
}

TEST(BottlenecksTest, ListedLinksBetweenPools) {
  Problem problem = Changed([](AcceleratorProfile&) {});
  problem.cluster.pools.push_back(hapmoe::testing::SmallPool("b", 4, 8));
  problem.profiles.push_back(problem.profiles[0]);
  problem.cluster.links = {{.first_pool = 0, .second_pool = 1, .network = {}}};
  problem.cluster.links[0].network.bytes_per_second = 1e7;
  plan::Plan plan = OneStage(problem, 1);
  plan.meshes.push_back(plan.meshes[0]);
  plan.meshes[1].pool = 1;
  plan.meshes[0].stages[0].chunks = {hapmoe::testing::Layers(0, 4)};
  plan.meshes[0].stages[0].chunks[0].embedding = true;
  plan.meshes[1].stages[0].chunks = {hapmoe::testing::Layers(4, 4)};
  plan.meshes[1].stages[0].chunks[0].loss = true;
  EXPECT_THAT(Sentences(problem, plan),
              ElementsAre(HasSubstr("The link between pools holds the plan up at 0.08 Gb/s")));
}

}  // namespace
}  // namespace hapmoe::cost
