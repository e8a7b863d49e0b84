// The search against every plan of small random instances, all costed by the same simulation.

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "core/cost/evaluate.h"
#include "core/plan/flagscale_rules.h"
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

constexpr uint32_t kInstances = hapmoe::testing::Instances(500, 50);
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Enumerates all placements, all layer splits and all recomputations, without any pruning.
class Enumerator {
 public:
  Enumerator(const SearchRequest& request, const Candidate& candidate, CandidateCosts& costs,
             const RecomputeOptions& options)
      : request_(request), candidate_(candidate), costs_(costs), options_(options) {}

  double Best() {
    used_.assign(candidate_.pool_units.size(), 0);
    Place(request_.problem.model.layers);
    return best_;
  }

 private:
  // A pipeline rank: how it runs, and its layers on all virtual stages but the last, and on that.
  struct Rank {
    const StageKind* kind = nullptr;
    int64_t chunk_layers = 0;
    int64_t last_chunk_layers = 0;
  };

  // Adds ranks behind the ones placed; `left` layers are without one.
  void Place(int64_t left) {
    if (left == 0) {
      if (IsPlan()) Recompute();
      return;
    }
    for (const StageKind& kind : candidate_.kinds) {
      const size_t pool = static_cast<size_t>(kind.pool);
      if (used_[pool] + kind.units > candidate_.pool_units[pool]) continue;
      used_[pool] += kind.units;
      for (int64_t chunk = 1; chunk <= left; ++chunk) {
        for (int64_t last = 1; last <= chunk; ++last) {
          const int64_t layers = chunk * (candidate_.virtual_stages - 1) + last;
          // Only the last virtual stage of the pipeline may hold fewer layers.
          if (layers > left || (last < chunk && layers < left)) continue;
          if (candidate_.virtual_stages == 1 && last < chunk) continue;
          ranks_.push_back({&kind, chunk, last});
          Place(left - layers);
          ranks_.pop_back();
        }
      }
      used_[pool] -= kind.units;
    }
  }

  bool IsPlan() const {
    const int64_t count = static_cast<int64_t>(ranks_.size());
    if (candidate_.stages > 0 && count != candidate_.stages) return false;
    if (!request_.constraints.allow_idle_accelerators && used_ != candidate_.pool_units) {
      return false;
    }
    for (size_t i = 0; i < ranks_.size(); ++i) {
      const bool first = i == 0;
      const bool last = i + 1 == ranks_.size();
      if ((first && !ranks_[i].kind->first) || (last && !ranks_[i].kind->last)) return false;
      if (!first && !last && !ranks_[i].kind->inner) return false;
    }
    return NodesFilled();
  }

  // The stages behind, which the search adds first, must have filled nodes where the pool changes.
  bool NodesFilled() const {
    std::vector<int64_t> behind(used_.size(), 0);
    for (size_t i = ranks_.size(); i-- > 0;) {
      if (i + 1 < ranks_.size() && ranks_[i + 1].kind->pool != ranks_[i].kind->pool) {
        const size_t next = static_cast<size_t>(ranks_[i + 1].kind->pool);
        const int64_t accelerators = behind[next] * candidate_.unit_ranks;
        if (accelerators % request_.problem.cluster.pools[next].accelerators_per_node != 0) {
          return false;
        }
      }
      behind[static_cast<size_t>(ranks_[i].kind->pool)] += ranks_[i].kind->units;
    }
    return true;
  }

  void Recompute() {
    std::vector<plan::Stage> stages(ranks_.size());
    int64_t first = 0;
    for (int64_t chunk = 0; chunk < candidate_.virtual_stages; ++chunk) {
      for (size_t i = 0; i < ranks_.size(); ++i) {
        const bool last = chunk + 1 == candidate_.virtual_stages;
        const int64_t layers = last ? ranks_[i].last_chunk_layers : ranks_[i].chunk_layers;
        stages[i].chunks.push_back(ChunkOf(request_.problem.model, first, first + layers));
        first += layers;
      }
    }
    plan::Plan plan = EmptyPlan(request_.constraints, candidate_);
    for (size_t i = 0; i < ranks_.size(); ++i) {
      AddStage(plan, *ranks_[i].kind, std::move(stages[i]));
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
    for (int64_t i = 1; i <= one.chunks.front().layers && !options_.only_options; ++i) {
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
  std::vector<Rank> ranks_;
  PoolUnits used_;
  double best_ = kInfinity;
};

SearchRequest RandomRequest(std::mt19937& random) {
  SearchRequest request;
  cost::Problem& problem = request.problem;
  const bool moe = random() % 2 == 0;
  const size_t pools = 1 + random() % 4;
  // Plans grow with the power of both.
  const int64_t most_layers = pools == 1 ? 5 : pools == 3 ? 3 : 4;
  problem.model = SmallModel(
      std::max<int64_t>(static_cast<int64_t>(pools),
                        most_layers - static_cast<int64_t>(random() % (pools == 1 ? 3 : 2))),
      256, moe ? 4 : 0);
  if (random() % 4 == 0) {
    request.constraints.engine = plan::kFlagScale;
    problem.model.tied_embeddings = random() % 2 == 0;
  } else if (moe && random() % 2 == 0) {
    problem.model.layer_kinds[0] = model::LayerKind::kDense;
  }
  problem.training = SmallTraining((pools == 1 && random() % 2 == 0 ? 6 : 8) << (random() % 3));
  problem.training.overlap.pipeline = random() % 2 == 0;
  problem.training.overlap.gradient_reduce = random() % 2 == 0;
  problem.training.overlap.parameter_gather = problem.training.overlap.gradient_reduce;
  problem.memory_headroom_ratio = 0;
  if (moe && pools < 3 && random() % 2 == 0) {
    request.constraints.dispatchers = {model::Dispatcher::kAllGather, model::Dispatcher::kAllToAll};
  }
  // Memory from comfortable to hopeless, so that recomputation matters.
  std::uniform_real_distribution<double> memory(20e6, 120e6);
  std::uniform_real_distribution<double> speed(0.5, 4);
  std::uniform_real_distribution<double> latency(0, 1e-4);
  for (size_t i = 0; i < pools; ++i) {
    const std::string name(1, static_cast<char>('a' + i));
    const int64_t per_node =
        pools == 4 ? 2 : 1 + static_cast<int64_t>(random() % (pools == 1 ? 4 : 2));
    const int64_t nodes = 1 + static_cast<int64_t>(random() % 2);
    problem.cluster.pools.push_back(SmallPool(name, nodes, per_node));
    // Communicators take hundreds of megabytes; leave room for them.
    const double memory_bytes = memory(random) + 0.5e9;
    auto profile = std::make_shared<profile::AcceleratorProfile>(
        *ScaledProfile(name, speed(random), memory_bytes));
    if (per_node % 2 == 0 && random() % 4 == 0) {
      profile->bridge = profile::Bridge{.island = 2 + static_cast<int64_t>(random() % 2),
                                        .bytes_per_second = 5e8};
    }
    problem.profiles.push_back(std::move(profile));
    for (size_t other = 0; other < i; ++other) {
      cluster::Link link;
      link.first_pool = static_cast<int64_t>(other);
      link.second_pool = static_cast<int64_t>(i);
      link.network.bytes_per_second = 1e9 * speed(random);
      link.network.latency_seconds = latency(random);
      problem.cluster.links.push_back(link);
    }
  }
  request.constraints.allow_idle_accelerators = pools < 3 && random() % 2 == 0;
  request.facts.grouped_query_attention = false;
  request.facts.router_pre_softmax = true;
  return request;
}

// Whether some stage is on two nodes that one could hold.
bool StandsAcrossNodes(const plan::Plan& plan, const cluster::Cluster& cluster) {
  const std::vector<cost::StagePlace> places = cost::PlacesOf(plan, cluster);
  size_t stage = 0;
  for (const plan::Mesh& mesh : plan.meshes) {
    const int64_t node = cluster.pools[static_cast<size_t>(mesh.pool)].accelerators_per_node;
    const int64_t ranks = mesh.degrees.stage_ranks();
    for (size_t i = 0; i < mesh.stages.size(); ++i, ++stage) {
      if (ranks <= node && places[stage].behind % node + ranks > node) return true;
    }
  }
  return false;
}

TEST(BruteForceTest, NoPlanBeatsTheBoundAndTheAnswerIsWithinItsGap) {
  int feasible = 0;
  int optimal = 0;
  int interleaved = 0;
  int mixed_degrees = 0;
  int redispatched = 0;
  int across_nodes = 0;
  int islands = 0;
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
    EXPECT_EQ(outcome->termination.reason, Reason::kOptimal);
    const plan::Plan& plan = outcome->best->plan;
    if (plan.virtual_stages() > 1) ++interleaved;
    if (StandsAcrossNodes(plan, request.problem.cluster)) ++across_nodes;
    for (const auto& profile : request.problem.profiles) islands += profile->bridge.has_value();
    if (plan.dispatcher.value_or(request.problem.training.dispatcher) !=
        request.problem.training.dispatcher) {
      ++redispatched;
    }
    if (plan.engine == plan::kFlagScale) {
      EXPECT_TRUE(
          plan::CheckFlagScalePlan(request.problem.model, request.problem.training, plan).empty());
      for (const plan::Mesh& mesh : plan.meshes) {
        if (!(mesh.degrees == plan.meshes.front().degrees)) {
          ++mixed_degrees;
          break;
        }
      }
    }
  }
  EXPECT_GT(feasible, static_cast<int>(kInstances) / 3);
  RecordProperty("feasible", feasible);
  RecordProperty("optimal", optimal);
  RecordProperty("interleaved", interleaved);
  RecordProperty("mixed_degrees", mixed_degrees);
  RecordProperty("redispatched", redispatched);
  RecordProperty("across_nodes", across_nodes);
  RecordProperty("islands", islands);
  if (kInstances >= 500) {  // The others are too few to be sure of.
    EXPECT_GT(interleaved, 0);
    EXPECT_GT(mixed_degrees, 0);
    EXPECT_GT(redispatched, 0);
    EXPECT_GT(across_nodes, 0);
  }
  EXPECT_EQ(optimal, feasible);
}

}  // namespace
}  // namespace hapmoe::search
