// Fitting against every pipeline of small random instances.
#include "core/search/fitting.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/search/stage_choice.h"
#include "tests/core/testing/fixtures.h"

namespace hapmoe::search {
namespace {

using hapmoe::testing::ScaledProfile;
using hapmoe::testing::SmallModel;
using hapmoe::testing::SmallPool;
using hapmoe::testing::SmallTraining;

constexpr uint32_t kInstances = hapmoe::testing::Instances(300, 30);
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The least shortage of all pipelines of a candidate, each stage with every recomputation.
class Enumerator {
 public:
  Enumerator(const SearchRequest& request, const Candidate& candidate)
      : request_(request), candidate_(candidate), options_(RecomputeOptionsOf(request)) {
    for (size_t pool = 0; pool < candidate.pool_units.size(); ++pool) {
      costs_.push_back(std::make_unique<cost::MeshCost>(
          request.problem, static_cast<int64_t>(pool), candidate.kinds[pool].degrees,
          candidate.kinds[pool].micro_batch, candidate.kinds[pool].degrees.tp > 1,
          options_.modules));
    }
    used_.assign(costs_.size(), 0);
  }

  double Least() {
    Place(request_.problem.model.layers, 0, 0, 0);
    return least_;
  }

 private:
  // Adds stages in front of `behind` stages, the first of them in `next`.
  void Place(int64_t last, int64_t behind, size_t next, double worst) {
    if (last == 0) {
      const bool all = behind == candidate_.max_stages();
      if ((all || request_.constraints.allow_idle_accelerators) &&
          StagesAllowed(request_.constraints, behind)) {
        least_ = std::min(least_, worst);
      }
      return;
    }
    for (size_t pool = 0; pool < used_.size(); ++pool) {
      if (used_[pool] == candidate_.pool_units[pool]) continue;
      if (behind > 0 && pool != next &&
          used_[next] * candidate_.unit_ranks %
                  request_.problem.cluster.pools[next].accelerators_per_node !=
              0) {
        continue;
      }
      ++used_[pool];
      for (int64_t first = 0; first < last; ++first) {
        Place(first, behind + 1, pool,
              std::max(worst,
                       Short(pool, first, last, std::min(behind + 1, candidate_.micro_batches))));
      }
      --used_[pool];
    }
  }

  double Short(size_t pool, int64_t first, int64_t last, int64_t in_flight) const {
    std::vector<model::Recompute> choices = options_.options;
    for (int64_t layers = 1; layers <= last - first && !options_.only_options; ++layers) {
      model::Recompute block;
      block.granularity = model::Recompute::Granularity::kFull;
      block.num_layers = layers;
      choices.push_back(block);
    }
    const cost::MeshCost& cost = *costs_[pool];
    double least = kInfinity;
    for (const model::Recompute& choice : choices) {
      const auto stage = cost.Chunk(ChunkOf(request_.problem.model, first, last), choice);
      const auto groups = cost.process_groups(last - first < request_.problem.model.layers);
      least =
          std::min(least, cost.Memory(stage, static_cast<double>(in_flight), groups).short_bytes());
    }
    return least;
  }

  const SearchRequest& request_;
  const Candidate& candidate_;
  const RecomputeOptions options_;
  std::vector<std::unique_ptr<cost::MeshCost>> costs_;
  std::vector<int64_t> used_;
  double least_ = kInfinity;
};

SearchRequest RandomRequest(std::mt19937& random) {
  SearchRequest request;
  cost::Problem& problem = request.problem;
  const bool moe = random() % 2 == 0;
  problem.model = SmallModel(2 + static_cast<int64_t>(random() % 4), 256, moe ? 4 : 0);
  if (moe && random() % 2 == 0) problem.model.layer_kinds[0] = model::LayerKind::kDense;
  problem.model.seq_length = 1024;
  // In some the ends of the pipeline hold more than its middle.
  const bool heavy_ends = random() % 2 == 0;
  if (heavy_ends) problem.model.vocab = 32768;
  problem.training = SmallTraining(4 << (random() % 3));
  problem.training.optimizer.distributed = random() % 2 == 0;
  problem.training.optimizer.offload_ratio = random() % 4 == 0 ? 0.5 : 0;
  problem.memory_headroom_ratio = 0;
  std::uniform_real_distribution<double> memory(0.45e9, heavy_ends ? 1.2e9 : 0.6e9);
  const size_t pools = 1 + random() % 3;
  for (size_t i = 0; i < pools; ++i) {
    const std::string name(1, static_cast<char>('a' + i));
    problem.cluster.pools.push_back(SmallPool(name, 1 + static_cast<int64_t>(random() % 2),
                                              1 + static_cast<int64_t>(random() % 2)));
    problem.profiles.push_back(ScaledProfile(name, 1, memory(random)));
    if (random() % 4 == 0) problem.cluster.pools.back().host_memory_bytes = 20e6;
  }
  request.constraints.allow_idle_accelerators = random() % 2 == 0;
  request.constraints.keep_recompute = random() % 4 == 0;
  if (random() % 3 == 0) request.constraints.pp = {1, 3};
  request.constraints.virtual_stages = {1};
  request.facts.grouped_query_attention = false;
  request.facts.router_pre_softmax = true;
  return request;
}

TEST(FittingTest, LacksWhatTheBestOfAllPipelinesLacks) {
  int fit = 0;
  int lack = 0;
  for (uint32_t seed = 0; seed < kInstances; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const SearchRequest request = RandomRequest(random);
    Interrupter interrupter;
    const Space space = EnumerateSpace(request, interrupter);
    Fitting fitting(request);
    for (const Candidate& candidate : space.candidates) {
      const double least = Enumerator(request, candidate).Least();
      const auto tight = fitting.Tightest(candidate, request.constraints, kInfinity);
      EXPECT_EQ(fitting.Within(candidate, request.constraints, 0), least == 0);
      ASSERT_EQ(tight.has_value(), least < kInfinity);
      if (!tight.has_value()) continue;
      ++(least == 0 ? fit : lack);
      EXPECT_NEAR(tight->short_bytes, least, 1 + 2e-6 * least);
      EXPECT_LT(tight->stage, tight->stages);
      EXPECT_GT(candidate.pool_units[static_cast<size_t>(tight->pool)], 0);
      // No more was asked for than that.
      EXPECT_TRUE(fitting.Within(candidate, request.constraints, least));
      if (least > 10) {
        EXPECT_FALSE(fitting.Tightest(candidate, request.constraints, least * 0.999).has_value());
      }
    }
  }
  EXPECT_GT(fit, 20);
  EXPECT_GT(lack, 20);
  RecordProperty("fit", fit);
  RecordProperty("lack", lack);
}

// The embedding and the output layer, 33.6e6 parameters each, fit on "wide" alone, so that "narrow"
// must come between its two stages: which it cannot where both are in one node.
TEST(FittingTest, PipelineDoesNotLeaveANodeHalfUsed) {
  for (const bool one_node : {false, true}) {
    SearchRequest request;
    request.problem.model = SmallModel(3, 256);
    request.problem.model.vocab = 131072;
    request.problem.training = SmallTraining(8);
    request.problem.cluster.pools = {one_node ? SmallPool("wide", 1, 2) : SmallPool("wide", 2, 1),
                                     SmallPool("narrow", 1, 1)};
    request.problem.profiles = {ScaledProfile("wide", 1, 10e9), ScaledProfile("narrow", 1, 0.9e9)};
    request.constraints.tp = {1};
    request.constraints.cp = {1};
    request.constraints.dp = {1};
    Interrupter interrupter;
    const Space space = EnumerateSpace(request, interrupter);
    ASSERT_EQ(space.candidates.size(), 1u);
    Fitting fitting(request);
    EXPECT_EQ(fitting.Within(space.candidates[0], request.constraints, 0), !one_node);
  }
}

TEST(FittingTest, AsksAboutAnotherOptimizerAndBackAgain) {
  SearchRequest request;
  request.problem.model = SmallModel(4, 1024);
  request.problem.training = SmallTraining(8);
  request.problem.cluster.pools = {SmallPool("a", 1, 1)};
  request.problem.profiles = {ScaledProfile("a", 1, 0.8e9)};
  Interrupter interrupter;
  const Space space = EnumerateSpace(request, interrupter);
  ASSERT_EQ(space.candidates.size(), 1u);
  const auto lacks = [&](Fitting& fitting) {
    return fitting.Tightest(space.candidates[0], request.constraints, kInfinity)->short_bytes;
  };
  Fitting fitting(request);
  const double before = lacks(fitting);
  ASSERT_GT(before, 0);
  SearchRequest offloaded = request;
  offloaded.problem.training.optimizer.offload_ratio = 1;
  fitting.SetOptimizer(offloaded.problem.training.optimizer);
  Fitting anew(offloaded);
  EXPECT_LT(lacks(fitting), before);
  EXPECT_EQ(lacks(fitting), lacks(anew));
  fitting.SetOptimizer(request.problem.training.optimizer);
  EXPECT_EQ(lacks(fitting), before);
}

}  // namespace
}  // namespace hapmoe::search
