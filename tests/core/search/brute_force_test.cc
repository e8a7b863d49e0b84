// The search against every plan of small random instances, all costed by the same simulation.

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "core/cost/evaluate.h"
#include "core/search/candidate_costs.h"
#include "core/search/search.h"
#include "core/search/space.h"
#include "tests/core/testing/fixtures.h"

namespace hapmoe::search {
namespace {

using hapmoe::testing::ScaledProfile;
using hapmoe::testing::SmallModel;
using hapmoe::testing::SmallPool;
using hapmoe::testing::SmallTraining;

// Unoptimised builds, the sanitizers among them, would take minutes for all of them.
#ifdef NDEBUG
constexpr uint32_t kInstances = 500;
#else
constexpr uint32_t kInstances = 50;
#endif
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Enumerates all placements, all layer splits and all recomputations, without any pruning.
class Enumerator {
 public:
  Enumerator(const SearchRequest& request, const Candidate& candidate, CandidateCosts& costs,
             const RecomputeOptions& options)
      : request_(request), candidate_(candidate), costs_(costs), options_(options) {}

  double Best() {
    used_.assign(candidate_.pool_stages.size(), 0);
    Place({}, 0);
    return best_;
  }

 private:
  bool FillsNodes(size_t pool) const {
    return used_[pool] * candidate_.degrees.stage_ranks() %
               request_.problem.cluster.pools[pool].accelerators_per_node ==
           0;
  }

  // Adds stages behind the ones placed; `first` is the first layer that is left.
  void Place(std::vector<std::pair<size_t, plan::Chunk>> stages, int64_t first) {
    const int64_t layers = request_.problem.model.layers;
    if (first == layers) {
      const int64_t count = static_cast<int64_t>(stages.size());
      const bool all = count == candidate_.max_stages();
      if (all || request_.constraints.allow_idle_accelerators) Recompute(stages);
      return;
    }
    for (size_t pool = 0; pool < used_.size(); ++pool) {
      if (used_[pool] == candidate_.pool_stages[pool]) continue;
      // The stages behind, which the search adds first, must have filled nodes where the pool
      // changes; seen from the front that is what is left of the pool.
      for (int64_t last = first + 1; last <= layers; ++last) {
        auto longer = stages;
        longer.push_back({pool, ChunkOf(request_.problem.model, first, last)});
        ++used_[pool];
        Place(std::move(longer), last);
        --used_[pool];
      }
    }
  }

  bool NodesFilled(const std::vector<std::pair<size_t, plan::Chunk>>& stages) const {
    std::vector<int64_t> behind(used_.size(), 0);
    for (size_t i = stages.size(); i-- > 0;) {
      const size_t pool = stages[i].first;
      if (i + 1 < stages.size() && stages[i + 1].first != pool) {
        const size_t next = stages[i + 1].first;
        const int64_t ranks = behind[next] * candidate_.degrees.stage_ranks();
        if (ranks % request_.problem.cluster.pools[next].accelerators_per_node != 0) return false;
      }
      ++behind[pool];
    }
    return true;
  }

  void Recompute(const std::vector<std::pair<size_t, plan::Chunk>>& stages) {
    if (!NodesFilled(stages)) return;
    plan::Plan plan;
    plan.micro_batch = candidate_.micro_batch;
    plan.micro_batches = candidate_.micro_batches;
    plan.global_batch = candidate_.micro_batch * candidate_.micro_batches * candidate_.degrees.dp;
    plan.sequence_parallel = candidate_.degrees.tp > 1;
    for (const auto& [pool, chunk] : stages) {
      if (plan.meshes.empty() || plan.meshes.back().pool != static_cast<int64_t>(pool)) {
        plan.meshes.push_back(
            {.pool = static_cast<int64_t>(pool), .degrees = candidate_.degrees, .stages = {}});
      }
      plan.meshes.back().stages.push_back({.chunks = {chunk}, .recompute = {}});
    }
    Choose(plan, 0, 0);
  }

  // Tries every recomputation of stage (mesh, stage) and of all that follow.
  void Choose(plan::Plan& plan, size_t mesh, size_t stage) {
    if (mesh == plan.meshes.size()) {
      const cost::Prediction prediction =
          cost::Predict(request_.problem, plan, costs_.CostsOf(plan));
      if (prediction.fits()) best_ = std::min(best_, prediction.iteration_seconds);
      return;
    }
    if (stage == plan.meshes[mesh].stages.size()) return Choose(plan, mesh + 1, 0);
    plan::Stage& one = plan.meshes[mesh].stages[stage];
    std::vector<model::Recompute> choices = options_.options;
    for (int64_t i = 1; i <= one.layers(); ++i) {
      model::Recompute block;
      block.granularity = model::Recompute::Granularity::kFull;
      block.num_layers = i;
      choices.push_back(block);
    }
    for (const model::Recompute& choice : choices) {
      one.recompute = choice;
      Choose(plan, mesh, stage + 1);
    }
  }

  const SearchRequest& request_;
  const Candidate& candidate_;
  CandidateCosts& costs_;
  const RecomputeOptions& options_;
  std::vector<int64_t> used_;
  double best_ = kInfinity;
};

SearchRequest RandomRequest(std::mt19937& random) {
  SearchRequest request;
  cost::Problem& problem = request.problem;
  const bool moe = random() % 2 == 0;
  problem.model = SmallModel(3 + static_cast<int64_t>(random() % 3), 256, moe ? 4 : 0);
  if (moe && random() % 2 == 0) problem.model.layer_kinds[0] = model::LayerKind::kDense;
  problem.training = SmallTraining(8 << (random() % 3));
  problem.memory_headroom_ratio = 0;
  const size_t pools = 1 + random() % 2;
  // Memory from comfortable to hopeless, so that recomputation matters.
  std::uniform_real_distribution<double> memory(20e6, 120e6);
  std::uniform_real_distribution<double> speed(0.5, 4);
  for (size_t i = 0; i < pools; ++i) {
    const std::string name(1, static_cast<char>('a' + i));
    problem.cluster.pools.push_back(SmallPool(name, 1 + static_cast<int64_t>(random() % 2),
                                              1 + static_cast<int64_t>(random() % 2)));
    // Communicators take hundreds of megabytes; leave room for them.
    problem.profiles.push_back(ScaledProfile(name, speed(random), memory(random) + 0.5e9));
  }
  request.constraints.allow_idle_accelerators = random() % 2 == 0;
  request.facts.grouped_query_attention = false;
  request.facts.router_pre_softmax = true;
  return request;
}

TEST(BruteForceTest, NoPlanBeatsTheBoundAndTheAnswerIsWithinItsGap) {
  int feasible = 0;
  int optimal = 0;
  for (uint32_t seed = 0; seed < kInstances; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const SearchRequest request = RandomRequest(random);
    InlineExecutor executor;
    Interrupter interrupter;
    const auto outcome = Search(request, executor, interrupter, [](const Progress&) {});
    ASSERT_TRUE(outcome.ok()) << outcome.status();

    const Space space = EnumerateSpace(request, interrupter);
    const RangeClasses classes(request.problem.model);
    const RecomputeOptions options = RecomputeOptionsOf(request);
    double best = kInfinity;
    for (const Candidate& candidate : space.candidates) {
      CandidateCosts costs(request, candidate, classes, options);
      best = std::min(best, Enumerator(request, candidate, costs, options).Best());
    }
    ASSERT_EQ(outcome->best.has_value(), best < kInfinity);
    if (!outcome->best.has_value()) {
      EXPECT_TRUE(outcome->infeasibility.has_value());
      continue;
    }
    ++feasible;
    const double found = outcome->best->prediction.iteration_seconds;
    EXPECT_GE(found, best * (1 - 1e-9));
    EXPECT_LE(outcome->termination.lower_bound_seconds, best * (1 + 1e-9));
    if (found <= best * (1 + 1e-9)) ++optimal;
    if (outcome->termination.reason == Reason::kOptimal) {
      EXPECT_NEAR(found, best, best * 1e-9);
    }
  }
  EXPECT_GT(feasible, static_cast<int>(kInstances) / 2);
  RecordProperty("feasible", feasible);
  RecordProperty("optimal", optimal);
  // Where the bound leaves a gap the answer may miss the optimum of the simulation by it.
  EXPECT_GE(optimal * 100, feasible * 97) << optimal << " of " << feasible;
}

}  // namespace
}  // namespace hapmoe::search
