#include "core/search/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/concurrency/thread_pool.h"
#include "tests/core/testing/fixtures.h"

namespace hapmoe::search {
namespace {

using hapmoe::testing::ScaledProfile;
using hapmoe::testing::SmallModel;
using hapmoe::testing::SmallPool;
using hapmoe::testing::SmallTraining;
using ::testing::HasSubstr;

// Two fast nodes of four and two slow ones, a mixture of experts of 12 layers.
SearchRequest MixedRequest() {
  SearchRequest request;
  request.problem.model = SmallModel(12, 512, 8);
  request.problem.training = SmallTraining(64);
  request.problem.cluster.pools = {SmallPool("fast", 2, 4), SmallPool("slow", 2, 4)};
  request.problem.profiles = {ScaledProfile("fast", 3, 20e9), ScaledProfile("slow", 1, 20e9)};
  return request;
}

absl::StatusOr<Outcome> Solve(const SearchRequest& request) {
  InlineExecutor executor;
  Interrupter interrupter;
  return Search(request, executor, interrupter, [](const Progress&) {});
}

double Seconds(const SearchRequest& request) {
  const auto outcome = Solve(request);
  return outcome.ok() && outcome->best.has_value() ? outcome->best->prediction.iteration_seconds
                                                   : std::numeric_limits<double>::infinity();
}

TEST(SearchTest, FasterAcceleratorsHoldMoreLayers) {
  const auto outcome = Solve(MixedRequest());
  ASSERT_TRUE(outcome.ok());
  ASSERT_TRUE(outcome->best.has_value());
  double layers[2] = {0, 0};
  double stages[2] = {0, 0};
  for (const plan::Mesh& mesh : outcome->best->plan.meshes) {
    for (const plan::Stage& stage : mesh.stages) {
      layers[mesh.pool] += static_cast<double>(stage.layers());
      stages[mesh.pool] += 1;
    }
  }
  EXPECT_EQ(layers[0] + layers[1], 12);
  EXPECT_GT(layers[0] / stages[0], layers[1] / stages[1]);
  ASSERT_TRUE(outcome->uniform.has_value());
  EXPECT_LE(outcome->best->prediction.iteration_seconds,
            outcome->uniform->prediction.iteration_seconds);
}

// What a search says of itself on the way is what it answers when it is stopped there.
TEST(SearchTest, SaysOnTheWayWhatItWouldAnswerNow) {
  const SearchRequest request = MixedRequest();
  InlineExecutor executor;
  Interrupter interrupter;
  std::vector<Outcome> told;
  double best = std::numeric_limits<double>::infinity();
  const auto outcome = Search(request, executor, interrupter, [&](const Progress& progress) {
    if (progress.improved != nullptr) best = progress.improved->prediction.iteration_seconds;
    Outcome so_far = progress.so_far();
    EXPECT_EQ(so_far.best.has_value(), best < std::numeric_limits<double>::infinity());
    if (so_far.best.has_value()) {
      EXPECT_EQ(so_far.best->prediction.iteration_seconds, best);
      EXPECT_LE(so_far.termination.lower_bound_seconds, best);
    }
    EXPECT_EQ(so_far.termination.limit, Limit::kTime);
    told.push_back(std::move(so_far));
  });
  ASSERT_TRUE(outcome.ok() && outcome->best.has_value());
  ASSERT_GE(told.size(), 2u);
  for (size_t stop = 0; stop < told.size(); ++stop) {
    Interrupter tripped;
    size_t seen = 0;
    const auto cut = Search(request, executor, tripped, [&](const Progress&) {
      if (seen++ == stop) tripped.Trip(Interrupter::Cause::kTime);
    });
    ASSERT_TRUE(cut.ok());
    const Outcome& so_far = told[stop];
    ASSERT_EQ(cut->best.has_value(), so_far.best.has_value());
    EXPECT_EQ(cut->best->prediction.iteration_seconds, so_far.best->prediction.iteration_seconds);
    EXPECT_EQ(cut->uniform.has_value(), so_far.uniform.has_value());
    EXPECT_EQ(cut->alternatives.size(), so_far.alternatives.size());
    EXPECT_EQ(cut->notes, so_far.notes);
    EXPECT_EQ(cut->termination.restrictions, so_far.termination.restrictions);
    EXPECT_EQ(cut->termination.lower_bound_seconds, so_far.termination.lower_bound_seconds);
    EXPECT_EQ(cut->termination.statistics.candidates, so_far.termination.statistics.candidates);
    EXPECT_EQ(cut->termination.reason, so_far.termination.reason);
  }
}

TEST(SearchTest, AnswerDoesNotDependOnThreads) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 20; ++trial) {
    SCOPED_TRACE(trial);
    SearchRequest request = MixedRequest();
    request.problem.model = SmallModel(4 + static_cast<int64_t>(random() % 12), 512, 8);
    request.constraints.allow_idle_accelerators = trial % 2 == 0;
    const auto alone = Solve(request);
    server::ThreadPool pool(/*threads=*/4, /*queue_capacity=*/16);
    Interrupter interrupter;
    const auto together = Search(request, pool, interrupter, [](const Progress&) {});
    ASSERT_EQ(alone->best.has_value(), together->best.has_value());
    ASSERT_TRUE(alone->best.has_value());
    EXPECT_EQ(alone->best->prediction.iteration_seconds,
              together->best->prediction.iteration_seconds);
    EXPECT_EQ(alone->termination.lower_bound_seconds, together->termination.lower_bound_seconds);
    EXPECT_EQ(alone->termination.statistics.candidates_opened,
              together->termination.statistics.candidates_opened);
    EXPECT_EQ(alone->best->plan.meshes.size(), together->best->plan.meshes.size());
  }
}

TEST(SearchTest, MoreOfAnythingNeverSlowsTheBestPlan) {
  std::mt19937 random(6);
  for (int trial = 0; trial < 40; ++trial) {
    SCOPED_TRACE(trial);
    SearchRequest request = MixedRequest();
    request.constraints.allow_idle_accelerators = true;
    request.problem.model = SmallModel(4 + static_cast<int64_t>(random() % 6), 256, 8);
    const double memory = 0.6e9 + static_cast<double>(random() % 10) * 0.05e9;
    request.problem.profiles = {ScaledProfile("fast", 3, memory), ScaledProfile("slow", 1, memory)};
    const auto before = Solve(request);
    ASSERT_TRUE(before.ok());
    const double seconds = before->best.has_value() ? before->best->prediction.iteration_seconds
                                                    : std::numeric_limits<double>::infinity();
    // The answer may lie above the optimum by its gap, so a better problem is held to the bound.
    const double slack = 1 + 0.02;
    SearchRequest roomier = request;
    roomier.problem.profiles = {ScaledProfile("fast", 3, 2 * memory),
                                ScaledProfile("slow", 1, 2 * memory)};
    EXPECT_LE(Seconds(roomier), seconds * slack);
    SearchRequest larger = request;
    larger.problem.cluster.pools[0].nodes += 1;
    EXPECT_LE(Seconds(larger), seconds * slack);
    SearchRequest linked = request;
    linked.problem.cluster.links = {{.first_pool = 0, .second_pool = 1, .network = {100e9, 1e-7}}};
    EXPECT_LE(Seconds(linked), seconds * slack);
  }
}

TEST(SearchTest, OrderOfPoolsDoesNotMatter) {
  SearchRequest request = MixedRequest();
  const double seconds = Seconds(request);
  std::swap(request.problem.cluster.pools[0], request.problem.cluster.pools[1]);
  std::swap(request.problem.profiles[0], request.problem.profiles[1]);
  EXPECT_DOUBLE_EQ(Seconds(request), seconds);
}

TEST(SearchTest, FixedDegreesAreKept) {
  SearchRequest request = MixedRequest();
  request.constraints.tp = {2};
  request.constraints.ep = {2};
  const auto outcome = Solve(request);
  ASSERT_TRUE(outcome->best.has_value());
  EXPECT_EQ(outcome->best->plan.meshes.front().degrees.tp, 2);
  EXPECT_EQ(outcome->best->plan.meshes.front().degrees.ep, 2);
  EXPECT_TRUE(outcome->best->plan.sequence_parallel);
}

TEST(SearchTest, ContextIsWholeWhereAttentionIsNotFused) {
  SearchRequest request = MixedRequest();
  request.constraints.cp = {2};
  ASSERT_TRUE(Solve(request)->best.has_value());
  auto unfused = std::make_shared<profile::AcceleratorProfile>(*request.problem.profiles.back());
  unfused->fused_attention = false;
  request.problem.profiles.back() = unfused;
  const auto outcome = Solve(request);
  EXPECT_FALSE(outcome->best.has_value());
  ASSERT_TRUE(outcome->infeasibility.has_value());
  EXPECT_EQ(outcome->infeasibility->binding_rule, "context_parallelism_fuses_attention");
}

TEST(SearchTest, SlowPoolIdlesWhereThatIsFaster) {
  SearchRequest request = MixedRequest();
  request.problem.profiles[1] = ScaledProfile("slow", 0.01, 20e9);
  const double all = Seconds(request);
  request.constraints.allow_idle_accelerators = true;
  const auto outcome = Solve(request);
  ASSERT_TRUE(outcome->best.has_value());
  EXPECT_LT(outcome->best->prediction.iteration_seconds, all);
  for (const plan::Mesh& mesh : outcome->best->plan.meshes) EXPECT_EQ(mesh.pool, 0);
  EXPECT_THAT(outcome->notes, ::testing::Contains(HasSubstr("8 accelerators idle")));
}

// The numbers that a note gives the layers of a pool: "fast 4", "fast 4 to 6".
std::string LayersNoted(const plan::Plan& plan, int64_t pool, const std::string& accelerator) {
  int64_t least = std::numeric_limits<int64_t>::max();
  int64_t most = 0;
  for (const plan::Mesh& mesh : plan.meshes) {
    if (mesh.pool != pool) continue;
    for (const plan::Stage& stage : mesh.stages) {
      least = std::min(least, stage.layers());
      most = std::max(most, stage.layers());
    }
  }
  std::string text = accelerator + " " + std::to_string(least);
  if (least != most) text += " to " + std::to_string(most);
  return text + " (";
}

TEST(SearchTest, NotesTellWhatStagesHold) {
  for (const bool by_stage : {false, true}) {
    SCOPED_TRACE(by_stage);
    SearchRequest request = MixedRequest();
    // Twelve layers in two chunks on each rank, or degrees of its own for every stage.
    if (by_stage) {
      request.constraints.engine = plan::kFlagScale;
    } else {
      request.constraints.virtual_stages = {2};
    }
    request.facts.grouped_query_attention = false;
    const auto outcome = Solve(request);
    ASSERT_TRUE(outcome.ok() && outcome->best.has_value());
    const plan::Plan& plan = outcome->best->plan;
    ASSERT_EQ(plan.virtual_stages(), by_stage ? 1 : 2);
    const std::string first = request.problem.cluster.pools[0].accelerator;
    const std::string second = request.problem.cluster.pools[1].accelerator;
    EXPECT_THAT(outcome->notes,
                ::testing::Contains(::testing::AllOf(HasSubstr(LayersNoted(plan, 0, first)),
                                                     HasSubstr(LayersNoted(plan, 1, second)))));
  }
}

TEST(SearchTest, NotesTellWhenAStageIsNearlyFull) {
  SearchRequest request = MixedRequest();
  const auto roomy = Solve(request);
  ASSERT_TRUE(roomy.ok() && roomy->best.has_value());
  EXPECT_THAT(roomy->notes, ::testing::Not(::testing::Contains(HasSubstr("is the fullest"))));
  // Every accelerator has what the fullest stage takes, and a hundredth.
  const double most = 1.01 * roomy->best->prediction.device_memory_bytes() /
                      (1 - request.problem.memory_headroom_ratio);
  for (auto& profile : request.problem.profiles) {
    profile::AcceleratorProfile tight = *profile;
    tight.memory_bytes = most;
    profile = std::make_shared<const profile::AcceleratorProfile>(tight);
  }
  const auto outcome = Solve(request);
  ASSERT_TRUE(outcome.ok() && outcome->best.has_value());
  EXPECT_THAT(outcome->notes, ::testing::Contains(HasSubstr("is the fullest")));
}

TEST(SearchTest, RecomputesNoMoreThanItMust) {
  SearchRequest request = MixedRequest();
  const auto roomy = Solve(request);
  ASSERT_TRUE(roomy->best.has_value());
  for (const plan::Mesh& mesh : roomy->best->plan.meshes) {
    for (const plan::Stage& stage : mesh.stages) {
      EXPECT_EQ(stage.recompute.granularity, model::Recompute::Granularity::kNone);
    }
  }
}

TEST(SearchTest, SaysWhatBindsAndWhatWouldFit) {
  SearchRequest request = MixedRequest();
  // 2.4e9 expert parameters of 18 bytes over 16 accelerators of 2 GB.
  request.problem.profiles = {ScaledProfile("fast", 3, 2e9), ScaledProfile("slow", 1, 2e9)};
  request.problem.model = SmallModel(12, 2048, 8);
  const auto outcome = Solve(request);
  ASSERT_TRUE(outcome.ok());
  ASSERT_FALSE(outcome->best.has_value());
  ASSERT_TRUE(outcome->infeasibility.has_value());
  const Infeasibility& why = *outcome->infeasibility;
  EXPECT_EQ(why.binding_rule, "memory");
  EXPECT_GT(why.bytes_short, 0);
  EXPECT_THAT(why.summary, HasSubstr("lacks"));
  EXPECT_FALSE(why.suggestion.empty());
}

TEST(SearchTest, SaysThatTheHostBindsWhereItDoes) {
  SearchRequest request = MixedRequest();
  request.problem.training.optimizer.offload_ratio = 1;
  for (cluster::Pool& pool : request.problem.cluster.pools) pool.host_memory_bytes = 1e6;
  const auto outcome = Solve(request);
  ASSERT_TRUE(outcome.ok());
  ASSERT_TRUE(outcome->infeasibility.has_value());
  EXPECT_EQ(outcome->infeasibility->binding_rule, "host_memory");
  EXPECT_THAT(outcome->infeasibility->summary, HasSubstr("of host memory"));
  for (cluster::Pool& pool : request.problem.cluster.pools) pool.host_memory_bytes = 1e13;
  EXPECT_TRUE(Solve(request)->best.has_value());
}

TEST(SearchTest, SuggestedNodesSufficeAndOneLessDoesNot) {
  SearchRequest request;
  request.problem.model = SmallModel(8, 1024);
  request.problem.training = SmallTraining(256);
  request.problem.training.optimizer.offload_ratio = 1;  // Nothing left to offload.
  request.problem.cluster.pools = {SmallPool("only", 1, 1)};
  request.problem.profiles = {ScaledProfile("only", 1, 0.45e9)};
  request.constraints.allow_idle_accelerators = true;
  const auto outcome = Solve(request);
  ASSERT_TRUE(outcome->infeasibility.has_value());
  int nodes = 0;
  ASSERT_EQ(std::sscanf(outcome->infeasibility->suggestion.c_str(), "Add %d", &nodes), 1)
      << outcome->infeasibility->suggestion;
  request.problem.cluster.pools[0].nodes = 1 + nodes;
  EXPECT_TRUE(Solve(request)->best.has_value());
  if (nodes > 1) {
    request.problem.cluster.pools[0].nodes = nodes;
    EXPECT_FALSE(Solve(request)->best.has_value());
  }
}

TEST(SearchTest, StopsSoonWhenInterruptedAndKeepsWhatSomebodyWants) {
  const SearchRequest request = MixedRequest();
  for (const Interrupter::Cause cause :
       {Interrupter::Cause::kTime, Interrupter::Cause::kMemory, Interrupter::Cause::kCancelled}) {
    InlineExecutor executor;
    Interrupter interrupter;
    int calls = 0;
    const auto outcome = Search(request, executor, interrupter, [&](const Progress&) {
      ++calls;
      interrupter.Trip(cause);
    });
    ASSERT_TRUE(outcome.ok());
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(outcome->termination.limit, LimitOf(cause));
    EXPECT_EQ(outcome->best.has_value(), cause != Interrupter::Cause::kCancelled);
    if (!outcome->best.has_value()) continue;
    EXPECT_LE(outcome->termination.lower_bound_seconds,
              outcome->best->prediction.iteration_seconds);
  }
}

// Trips an interrupter when it has been asked for so many pieces of work.
class TrippingExecutor : public Executor {
 public:
  TrippingExecutor(Interrupter& interrupter, int64_t after, int64_t microseconds)
      : interrupter_(interrupter), left_(after), microseconds_(microseconds) {}
  void ParallelFor(int64_t count, absl::FunctionRef<void(int64_t)> work) override {
    for (int64_t i = 0; i < count; ++i) {
      std::thread trips;
      // Beside the piece of work, not before it: what it has begun must not be taken for done.
      if (left_-- == 0) {
        trips = std::thread([this] {
          std::this_thread::sleep_for(std::chrono::microseconds(microseconds_));
          interrupter_.Trip(Interrupter::Cause::kTime);
        });
      }
      work(i);
      if (trips.joinable()) trips.join();
    }
  }

 private:
  Interrupter& interrupter_;
  int64_t left_;
  const int64_t microseconds_;
};

TEST(SearchTest, BoundsHoldWhenItIsInterruptedAnywhere) {
  // Long enough to be stopped in the midst of a candidate, with a first plan that is not the best.
  SearchRequest request;
  request.problem.model = SmallModel(56, 512);
  request.problem.training = SmallTraining(16);
  for (const auto& [name, speed] : {std::pair{"a", 1.5}, {"b", 0.8}, {"c", 1.1}}) {
    request.problem.cluster.pools.push_back(SmallPool(name, 1, 6));
    request.problem.profiles.push_back(ScaledProfile(name, speed, 20e9));
  }
  request.constraints.virtual_stages = {1, 2, 3};
  request.constraints.tp = {1};
  request.constraints.dp = {1};
  const auto exact = Solve(request);
  ASSERT_TRUE(exact.ok() && exact->best.has_value());
  ASSERT_EQ(exact->termination.reason, Reason::kOptimal);
  const double least = exact->best->prediction.iteration_seconds;
  for (int64_t trial = 0; trial < 100; ++trial) {
    SCOPED_TRACE(trial);
    Interrupter interrupter;
    TrippingExecutor executor(interrupter, /*after=*/trial % 10,
                              /*microseconds=*/trial * 97 % 5000);
    const auto outcome = Search(request, executor, interrupter, [](const Progress&) {});
    ASSERT_TRUE(outcome.ok());
    if (!outcome->best.has_value()) continue;
    EXPECT_LE(outcome->termination.lower_bound_seconds, least * (1 + 1e-9));
    if (outcome->termination.reason == Reason::kOptimal) {
      EXPECT_NEAR(outcome->best->prediction.iteration_seconds, least, least * 1e-9);
    }
  }
}

TEST(SearchTest, InterruptedBeforeItBeganFindsNothing) {
  InlineExecutor executor;
  Interrupter interrupter;
  interrupter.Trip(Interrupter::Cause::kTime);
  const auto outcome = Search(MixedRequest(), executor, interrupter, [](const Progress&) {});
  ASSERT_TRUE(outcome.ok());
  EXPECT_FALSE(outcome->best.has_value());
  EXPECT_FALSE(outcome->infeasibility.has_value());
}

TEST(SearchTest, ManyPoolsGetAQuickPlanAndTheAnswerSaysSo) {
  // Fourteen pools of eight: 2^14 placements and more, of which the exact search keeps none.
  SearchRequest request;
  request.problem.model = SmallModel(64, 256);
  request.problem.training = SmallTraining(256);
  for (int i = 0; i < 14; ++i) {
    const std::string name(1, static_cast<char>('a' + i));
    request.problem.cluster.pools.push_back(SmallPool(name, 1, 8));
    request.problem.profiles.push_back(ScaledProfile(name, 1 + i % 3, 20e9));
  }
  request.constraints.dp = {1};
  request.constraints.tp = {2};
  request.constraints.cp = {1};
  const auto outcome = Solve(request);
  ASSERT_TRUE(outcome.ok());
  ASSERT_TRUE(outcome->best.has_value());
  EXPECT_TRUE(outcome->best->prediction.fits());
  EXPECT_LE(outcome->termination.lower_bound_seconds, outcome->best->prediction.iteration_seconds);
  EXPECT_THAT(outcome->termination.restrictions, ::testing::Contains(HasSubstr("quick plan")));
}

TEST(SearchTest, EveryImprovementIsReported) {
  InlineExecutor executor;
  Interrupter interrupter;
  double last = std::numeric_limits<double>::infinity();
  int64_t done = 0;
  const auto outcome = Search(MixedRequest(), executor, interrupter, [&](const Progress& progress) {
    EXPECT_GE(progress.candidates_done, done);
    done = progress.candidates_done;
    if (progress.improved == nullptr) return;
    EXPECT_LT(progress.improved->prediction.iteration_seconds, last);
    last = progress.improved->prediction.iteration_seconds;
  });
  EXPECT_EQ(outcome->best->prediction.iteration_seconds, last);
}

TEST(SearchTest, PruningsKeepWhatTheySayAndAreNeverFaster) {
  SearchRequest request = MixedRequest();
  const auto exact = Solve(request);
  ASSERT_TRUE(exact.ok() && exact->best.has_value());
  const double least = exact->best->prediction.iteration_seconds;
  request.constraints.prunings.load_balance_ratio = 0.2;
  const auto balanced = Solve(request);
  ASSERT_TRUE(balanced.ok() && balanced->best.has_value());
  EXPECT_GE(balanced->best->prediction.iteration_seconds, least * (1 - 1e-9));
  EXPECT_LE(balanced->termination.lower_bound_seconds, least * (1 + 1e-9));
  EXPECT_THAT(balanced->termination.restrictions, ::testing::Contains(HasSubstr("share")));
  // Half of the stages are three times as fast, so they hold three quarters of the layers.
  const double stages = static_cast<double>(balanced->best->plan.pipeline_stages()) / 2;
  for (const plan::Mesh& mesh : balanced->best->plan.meshes) {
    const double share = 12 * (mesh.pool == 0 ? 0.75 : 0.25) / stages;
    for (const plan::Stage& stage : mesh.stages) {
      EXPECT_GE(static_cast<double>(stage.layers()), std::floor(share * 0.8));
      EXPECT_LE(static_cast<double>(stage.layers()), std::ceil(share * 1.2));
    }
  }
  // No transfer is quick enough, so no plan on both pools is left.
  request.constraints.prunings = {};
  request.constraints.prunings.cross_type_ratio = 1e-9;
  const auto apart = Solve(request);
  ASSERT_TRUE(apart.ok());
  EXPECT_FALSE(apart->best.has_value());
  ASSERT_TRUE(apart->infeasibility.has_value());
  EXPECT_EQ(apart->infeasibility->binding_rule, "prunings");
  request.constraints.allow_idle_accelerators = true;
  const auto one_pool = Solve(request);
  ASSERT_TRUE(one_pool.ok() && one_pool->best.has_value());
  EXPECT_EQ(one_pool->best->plan.meshes.size(), 1u);
}

TEST(SearchTest, UnsupportedPrecisionIsAnError) {
  SearchRequest request = MixedRequest();
  request.problem.training.precision = model::Precision::kFp32;
  EXPECT_EQ(Solve(request).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace hapmoe::search
