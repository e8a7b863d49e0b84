#include "tests/core/search/random_request.h"

#include <random>
#include <string>

#include "tests/core/testing/fixtures.h"

namespace hapmoe::search {
namespace {

using hapmoe::testing::ScaledProfile;
using hapmoe::testing::SmallModel;
using hapmoe::testing::SmallPool;
using hapmoe::testing::SmallTraining;

SearchRequest Random(std::mt19937& random, int64_t pools) {
  SearchRequest request;
  cost::Problem& problem = request.problem;
  const bool moe = random() % 2 == 0;
  problem.model = SmallModel(3 + static_cast<int64_t>(random() % 6), 256, moe ? 4 : 0);
  if (moe && random() % 2 == 0) problem.model.layer_kinds[0] = model::LayerKind::kDense;
  problem.training = SmallTraining(8 << (random() % 3));
  problem.memory_headroom_ratio = 0.05 * static_cast<double>(random() % 3);
  std::uniform_real_distribution<double> memory(20e6, 160e6);
  std::uniform_real_distribution<double> speed(0.5, 4);
  for (int64_t i = 0; i < pools; ++i) {
    const std::string name(1, static_cast<char>('a' + i));
    const int64_t per_node = 1 + static_cast<int64_t>(random() % 2);
    const int64_t nodes = 1 + static_cast<int64_t>(random() % 2);
    problem.cluster.pools.push_back(SmallPool(name, nodes, per_node));
    // Communicators take hundreds of megabytes; leave room for them.
    const double memory_bytes = (memory(random) + 0.5e9) / (1 - problem.memory_headroom_ratio);
    problem.profiles.push_back(ScaledProfile(name, speed(random), memory_bytes));
  }
  return request;
}

}  // namespace

SearchRequest RandomRequest(uint32_t seed, int64_t pools) {
  std::mt19937 random(seed);
  return Random(random, pools);
}

SearchRequest RandomConstrainedRequest(uint32_t seed) {
  std::mt19937 random(seed);
  SearchRequest request = Random(random, 1 + static_cast<int64_t>(random() % 3));
  Constraints& constraints = request.constraints;
  constraints.allow_idle_accelerators = random() % 2 == 0;
  if (random() % 4 == 0) constraints.tp = {1, 2};
  if (random() % 4 == 0) constraints.cp = {1};
  if (random() % 4 == 0) constraints.micro_batch = {1, 2};
  if (random() % 8 == 0) constraints.pp = {1, 2, 3, 4};
  if (random() % 4 == 0 && request.problem.model.moe.has_value()) constraints.etp = {1};
  if (random() % 4 == 0) {
    constraints.keep_recompute = true;
    model::Recompute& recompute = request.problem.training.recompute;
    if (random() % 2 == 0) {
      recompute.granularity = model::Recompute::Granularity::kFull;
      recompute.num_layers = 1;
    }
  }
  return request;
}

}  // namespace hapmoe::search
