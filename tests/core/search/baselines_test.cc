// Baselines: their plans are valid and truly costed, none beats the optimum, and each fixes what
// its header says.
#include "core/search/baselines/baselines.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/cost/evaluate.h"
#include "core/search/baselines/ablations.h"
#include "core/search/baselines/alpa.h"
#include "core/search/baselines/deepspeed_moe.h"
#include "core/search/baselines/heter_moe.h"
#include "core/search/baselines/homogeneous_view.h"
#include "core/search/baselines/metis.h"
#include "core/search/baselines/restricted_search.h"
#include "core/search/baselines/tutel.h"
#include "core/search/baselines/uniform_megatron.h"
#include "core/search/certificate.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/search/random_request.h"
#include "tests/core/testing/fixtures.h"

namespace hapmoe::search {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint32_t kInstances = hapmoe::testing::Instances(100, 10);

std::optional<Costed> PlanOf(const Baseline& baseline, const SearchRequest& request) {
  InlineExecutor executor;
  Interrupter interrupter;
  return baseline.Plan(request, executor, interrupter).value();
}

Outcome Ours(const SearchRequest& request) {
  InlineExecutor executor;
  Interrupter interrupter;
  return Search(request, executor, interrupter, [](const Progress&) {}).value();
}

// Experts on four accelerators of each of two types, the second three times as fast and with room
// to spare.
SearchRequest TwoTypes() {
  SearchRequest request;
  request.problem.model = hapmoe::testing::SmallModel(8, 256, /*experts=*/4);
  request.problem.training = hapmoe::testing::SmallTraining(/*global_batch=*/32);
  request.problem.cluster.pools = {hapmoe::testing::SmallPool("slow", 1, 4),
                                   hapmoe::testing::SmallPool("fast", 1, 4)};
  request.problem.profiles = {hapmoe::testing::ScaledProfile("slow", 1, 1e9),
                              hapmoe::testing::ScaledProfile("fast", 3, 2e9)};
  return request;
}

SearchRequest OneType() {
  SearchRequest request = TwoTypes();
  request.problem.cluster.pools.erase(request.problem.cluster.pools.begin());
  request.problem.profiles.erase(request.problem.profiles.begin());
  return request;
}

const plan::Degrees& DegreesOf(const Costed& costed) { return costed.plan.meshes.front().degrees; }

std::vector<int64_t> LayersOf(const Costed& costed) {
  std::vector<int64_t> layers;
  for (const plan::Mesh& mesh : costed.plan.meshes) {
    for (const plan::Stage& stage : mesh.stages) layers.push_back(stage.layers());
  }
  return layers;
}

// Runs every baseline on random requests and holds its plans against the certificate and the
// optimum. Returns how many plans each found.
std::map<std::string, int> NoneBeatsOurs(const Baselines& baselines, int64_t pools) {
  std::map<std::string, int> plans;
  for (uint32_t seed = 0; seed < kInstances; ++seed) {
    SearchRequest request = RandomRequest(seed, pools);
    if (seed % 4 == 0) request.constraints.allow_idle_accelerators = true;
    if (seed % 5 == 0) request.constraints.tp = {1, 2};
    const Outcome ours = Ours(request);
    for (const auto& baseline : baselines) {
      SCOPED_TRACE(::testing::Message() << "seed " << seed << ", " << baseline->name());
      const std::optional<Costed> theirs = PlanOf(*baseline, request);
      if (!theirs.has_value()) continue;
      ++plans[std::string(baseline->name())];
      EXPECT_EQ(CheckPlan(request, *theirs), absl::OkStatus());
      EXPECT_TRUE(ours.best.has_value());
      if (!ours.best.has_value()) continue;
      const double seconds = theirs->prediction.iteration_seconds;
      EXPECT_GE(seconds, ours.termination.lower_bound_seconds * (1 - 1e-9));
      if (ours.termination.reason != Reason::kOptimal) continue;
      EXPECT_GE(seconds, ours.best->prediction.iteration_seconds * (1 - 1e-9));
    }
  }
  return plans;
}

TEST(BaselinesTest, NoneBeatsOursOnTwoTypes) {
  const auto plans = NoneBeatsOurs(MixedBaselines(), 2);
  for (const char* name : {"uniform", "alpa", "metis"}) {
    EXPECT_GT(plans.at(name), static_cast<int>(kInstances) / 2) << name;
  }
  EXPECT_GT(plans.at("hetermoe"), static_cast<int>(kInstances) / 5);  // With experts only.
}

TEST(BaselinesTest, NoneBeatsOursOnOneType) {
  const auto plans = NoneBeatsOurs(OneTypeBaselines(), 1);
  EXPECT_GT(plans.at("uniform"), static_cast<int>(kInstances) / 2);
  EXPECT_GT(plans.at("deepspeed-moe"), static_cast<int>(kInstances) / 4);  // Without a pipeline.
  EXPECT_GT(plans.at("tutel"), static_cast<int>(kInstances) / 8);
}

TEST(BaselinesTest, NoAblationBeatsOurs) {
  const auto plans = NoneBeatsOurs(Ablations(), 2);
  for (const char* name : {"layers-uniform", "recompute-uniform"}) {
    EXPECT_GT(plans.at(name), static_cast<int>(kInstances) / 2) << name;
  }
  EXPECT_GT(plans.at("layers-even"), static_cast<int>(kInstances) / 3);  // May not fit.
}

TEST(BaselinesTest, KeepTheConstraintsOfTheRequest) {
  for (uint32_t seed = 0; seed < kInstances / 2; ++seed) {
    const SearchRequest request = RandomConstrainedRequest(seed);
    for (const Baselines& baselines : {MixedBaselines(), OneTypeBaselines(), Ablations()}) {
      for (const auto& baseline : baselines) {
        SCOPED_TRACE(::testing::Message() << "seed " << seed << ", " << baseline->name());
        const std::optional<Costed> plan = PlanOf(*baseline, request);
        if (!plan.has_value()) continue;
        EXPECT_EQ(CheckPlan(request, *plan), absl::OkStatus());
      }
    }
  }
}

TEST(BaselinesTest, NothingIsFoundWhereNothingFits) {
  SearchRequest request = TwoTypes();
  for (auto& profile : request.problem.profiles) {
    profile = hapmoe::testing::ScaledProfile("tiny", 1, 1e6);
  }
  for (const Baselines& baselines : {MixedBaselines(), OneTypeBaselines(), Ablations()}) {
    for (const auto& baseline : baselines) {
      EXPECT_FALSE(PlanOf(*baseline, request).has_value()) << baseline->name();
    }
  }
}

TEST(BaselinesTest, AnInterrupterStopsThem) {
  InlineExecutor executor;
  Interrupter interrupter;
  interrupter.Trip(Interrupter::Cause::kCancelled);
  for (const auto& baseline : MixedBaselines()) {
    const auto plan = baseline->Plan(TwoTypes(), executor, interrupter);
    EXPECT_TRUE(plan.ok()) << baseline->name();
  }
}

TEST(HomogeneousViewTest, TakesEveryPoolForTheSlowest) {
  SearchRequest request = TwoTypes();
  request.problem.cluster.pools[0].network.bytes_per_second = 5e9;
  request.problem.cluster.links = {{0, 1, {.bytes_per_second = 1e9, .latency_seconds = {}}}};
  const SearchRequest view = HomogeneousView(request, ViewedMemory::kLeast);
  ASSERT_EQ(view.problem.profiles.size(), 2u);
  for (size_t pool : {0, 1}) {
    EXPECT_EQ(view.problem.profiles[pool]->name, "slow");
    EXPECT_EQ(view.problem.profiles[pool]->memory_bytes, 1e9);
    EXPECT_EQ(view.problem.cluster.pools[pool].network.bytes_per_second, 5e9);
  }
  EXPECT_THAT(view.problem.cluster.links, IsEmpty());
  EXPECT_EQ(HomogeneousView(request, ViewedMemory::kOwn).problem.profiles[1]->memory_bytes, 2e9);
}

TEST(AlpaStyleTest, DoesNotGiveTheFasterTypeMoreLayersAndPaysForIt) {
  SearchRequest request = TwoTypes();
  request.constraints.pp = {2};
  const Costed alpa = PlanOf(AlpaStyle(), request).value();
  const Outcome ours = Ours(request);
  EXPECT_THAT(LayersOf(alpa), ElementsAre(4, 4));
  EXPECT_GT(LayersOf(*ours.best)[ours.best->plan.meshes[0].pool == 1 ? 0 : 1], 4);
  EXPECT_GT(alpa.prediction.iteration_seconds, 1.3 * ours.best->prediction.iteration_seconds);
}

TEST(AlpaStyleTest, IsOursOnOneType) {
  const Costed alpa = PlanOf(AlpaStyle(), OneType()).value();
  EXPECT_DOUBLE_EQ(alpa.prediction.iteration_seconds,
                   Ours(OneType()).best->prediction.iteration_seconds);
}

TEST(AlpaStyleTest, RecomputesMoreWhereThePlanDoesNotFitInTruth) {
  SearchRequest request = TwoTypes();
  request.constraints.tp = {1};
  request.constraints.pp = {2};
  InlineExecutor executor;
  Interrupter interrupter;
  const Costed viewed = PlanForView(request, executor, interrupter).value().value();
  // What the view does not see: the fast type holds so much before the first tensor that its stage
  // lacks one megabyte.
  const cost::Prediction truth = cost::Evaluate(request.problem, viewed.plan).value();
  const size_t fast_stage = viewed.plan.meshes[0].pool == 1 ? 0 : 1;
  const cost::MemoryBreakdown& memory = truth.stages[fast_stage].memory;
  profile::AcceleratorProfile fast = *request.problem.profiles[1];
  fast.context_bytes = memory.budget_bytes - memory.peak_bytes() + 1e6;
  request.problem.profiles[1] = std::make_shared<const profile::AcceleratorProfile>(fast);
  ASSERT_FALSE(cost::Evaluate(request.problem, viewed.plan)->fits());

  const std::optional<Costed> alpa = PlanOf(AlpaStyle(), request);
  ASSERT_TRUE(alpa.has_value());
  EXPECT_EQ(CheckPlan(request, *alpa), absl::OkStatus());
  EXPECT_EQ(LayersOf(*alpa), LayersOf(viewed));
  plan::Plan less = alpa->plan;
  model::Recompute& recompute = less.meshes[fast_stage].stages.front().recompute;
  ASSERT_EQ(recompute.granularity, model::Recompute::Granularity::kFull);
  ASSERT_GE(recompute.num_layers, 1);
  if (--recompute.num_layers == 0) recompute = {};
  EXPECT_FALSE(cost::Evaluate(request.problem, less)->fits());  // The fewest that help.
}

TEST(MetisStyleTest, TakesTheExpertsFromTheViewAndTheRestFromTheCluster) {
  const SearchRequest request = TwoTypes();
  InlineExecutor executor;
  Interrupter interrupter;
  const auto viewed = PlanForView(request, executor, interrupter).value();
  const Costed metis = PlanOf(MetisStyle(), request).value();
  EXPECT_EQ(DegreesOf(metis).ep, DegreesOf(*viewed).ep);
  EXPECT_EQ(DegreesOf(metis).etp, DegreesOf(*viewed).etp);
  SearchRequest fixed = request;
  fixed.constraints.ep = {DegreesOf(*viewed).ep};
  fixed.constraints.etp = {DegreesOf(*viewed).etp};
  EXPECT_DOUBLE_EQ(metis.prediction.iteration_seconds,
                   Ours(fixed).best->prediction.iteration_seconds);
}

TEST(HeterMoeStyleTest, SpreadsExpertsAsWidelyAsItCan) {
  const Costed plan = PlanOf(HeterMoeStyle(), TwoTypes()).value();
  EXPECT_EQ(DegreesOf(plan).tp, 1);
  EXPECT_EQ(DegreesOf(plan).cp, 1);
  EXPECT_EQ(DegreesOf(plan).ep, 4);
  EXPECT_EQ(DegreesOf(plan).etp, 1);
  SearchRequest dense = TwoTypes();
  dense.problem.model = hapmoe::testing::SmallModel(8, 256);
  EXPECT_FALSE(PlanOf(HeterMoeStyle(), dense).has_value());
}

TEST(DeepSpeedMoeStyleTest, HasNoPipelineAndTheLeastTensorParallelism) {
  const Costed plan = PlanOf(DeepSpeedMoeStyle(), OneType()).value();
  EXPECT_EQ(plan.plan.pipeline_stages(), 1);
  EXPECT_EQ(DegreesOf(plan).tp, 1);
  EXPECT_EQ(DegreesOf(plan).dp, 4);
  EXPECT_EQ(DegreesOf(plan).etp, 1);
  // Two pools are two stages: there is no plan without a pipeline.
  EXPECT_FALSE(PlanOf(DeepSpeedMoeStyle(), TwoTypes()).has_value());
}

TEST(TutelStyleTest, NoOtherExpertLayoutIsQuickerForALayer) {
  const SearchRequest request = OneType();
  const Costed tutel = PlanOf(TutelStyle(), request).value();
  const Costed around = PlanOf(DeepSpeedMoeStyle(), request).value();
  EXPECT_EQ(DegreesOf(tutel).tp, DegreesOf(around).tp);
  EXPECT_EQ(DegreesOf(tutel).dp, DegreesOf(around).dp);
  const auto layer_seconds = [&](const plan::Degrees& degrees) {
    const cost::MeshCost costs(request.problem, 0, degrees, tutel.plan.micro_batch,
                               tutel.plan.sequence_parallel, {});
    const cost::LayerCost passes = costs.Chunk(hapmoe::testing::Layers(1, 1), {}).passes;
    return passes.forward.total() + passes.backward_seconds();
  };
  plan::Degrees other = DegreesOf(tutel);
  for (const auto& [ep, etp] : {std::pair{1, 1}, {1, 2}, {1, 4}, {2, 1}, {2, 2}, {4, 1}}) {
    other.ep = ep;
    other.etp = etp;
    EXPECT_GE(layer_seconds(other), layer_seconds(DegreesOf(tutel))) << ep << " x " << etp;
  }
}

TEST(AblationsTest, LayersUniformSplitsEvenlyAndIsNoWorseThanUniform) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const SearchRequest request = RandomRequest(seed, 2);
    const std::optional<Costed> layers = PlanOf(LayersUniform(), request);
    const std::optional<Costed> uniform = PlanOf(UniformMegatron(), request);
    ASSERT_EQ(layers.has_value(), uniform.has_value());
    if (!layers.has_value()) continue;
    const std::vector<int64_t> held = LayersOf(*layers);
    EXPECT_LE(*std::max_element(held.begin(), held.end()),
              *std::min_element(held.begin(), held.end()) + 1);
    EXPECT_LE(layers->prediction.iteration_seconds,
              uniform->prediction.iteration_seconds * (1 + 1e-9));
  }
}

TEST(AblationsTest, LayersEvenKeepsOurDegrees) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const SearchRequest request = RandomRequest(seed, 2);
    const std::optional<Costed> even = PlanOf(LayersEven(), request);
    if (!even.has_value()) continue;
    EXPECT_EQ(DegreesOf(*even), DegreesOf(*Ours(request).best));
    EXPECT_GE(even->prediction.iteration_seconds,
              PlanOf(LayersUniform(), request)->prediction.iteration_seconds * (1 - 1e-9));
  }
}

TEST(AblationsTest, RecomputeUniformIsTheSameOnAllStages) {
  int unequal_layers = 0;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const std::optional<Costed> plan = PlanOf(RecomputeUniform(), RandomRequest(seed, 2));
    if (!plan.has_value()) continue;
    for (const plan::Mesh& mesh : plan->plan.meshes) {
      for (const plan::Stage& stage : mesh.stages) {
        EXPECT_EQ(stage.recompute, plan->plan.meshes.front().stages.front().recompute);
      }
    }
    const std::vector<int64_t> held = LayersOf(*plan);
    if (*std::max_element(held.begin(), held.end()) >
        *std::min_element(held.begin(), held.end()) + 1) {
      ++unequal_layers;
    }
  }
  EXPECT_GT(unequal_layers, 0);  // Layers are still free.
}

TEST(RestrictedSearchTest, RestrictKeepsWhatBothAllow) {
  struct Case {
    std::vector<int64_t> list, values, result;
    bool possible;
  };
  const Case cases[] = {
      {{}, {1, 2}, {1, 2}, true},
      {{2, 4}, {1, 2}, {2}, true},
      {{4}, {1, 2}, {4}, false},
  };
  for (const Case& one : cases) {
    std::vector<int64_t> list = one.list;
    EXPECT_EQ(Restrict(list, one.values), one.possible);
    EXPECT_EQ(list, one.result);
  }
}

TEST(RestrictedSearchTest, ChangesAreNotSoughtWhereNothingFits) {
  SearchRequest request = OneType();
  request.problem.profiles = {hapmoe::testing::ScaledProfile("tiny", 1, 1e6)};
  InlineExecutor executor;
  Interrupter interrupter;
  const Outcome plain = Search(request, executor, interrupter, [](const Progress&) {}).value();
  ASSERT_TRUE(plain.infeasibility.has_value());
  const Outcome outcome = SearchPlans(request, executor, interrupter).value();
  EXPECT_FALSE(outcome.best.has_value());
  ASSERT_TRUE(outcome.infeasibility.has_value());
  EXPECT_EQ(outcome.infeasibility->summary, plain.infeasibility->summary);
  EXPECT_TRUE(outcome.infeasibility->suggestions.empty());
  EXPECT_TRUE(outcome.infeasibility->together.empty());
}

}  // namespace
}  // namespace hapmoe::search
