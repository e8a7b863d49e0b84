// Iteration time and memory of a plan by the formulas of Sailor's simulator
// (eth-easl/sailor at cf2c8e3, sailor/Planner/simulations/runtime_simulator.py), restated for plans
// whose stages hold one type of accelerator and one tensor-parallel degree each, and one number of
// replicas for all. fp32, no overlap, no ZeRO, no recomputation.
#ifndef HAPMOE_TESTS_BENCH_SAILOR_COST_H_
#define HAPMOE_TESTS_BENCH_SAILOR_COST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tests/bench/sailor/profile.h"

namespace hapmoe::bench::sailor {

struct Stage {
  int type = 0;
  int tp = 1;
  int first = 0;  // Layers [first, last).
  int last = 0;

  friend bool operator==(const Stage&, const Stage&) = default;
};

struct SailorPlan {
  int64_t replicas = 1;  // dp, of every stage.
  int64_t micro_batch = 1;
  std::vector<Stage> stages;
};

// Seconds of one iteration. With m micro-batches, the time of stage i
//   t_i = passes of its layers
//       + first of n stages: the activation sent on, twice where n > 3
//         last: the gradient sent back, twice
//         between: both
// it is (m - 1) max t + sum t + the longest update of a stage's first layer + the longest
// all-reduce of a stage's gradients. The gradient that a stage sends back has the size of its own
// first layer's output. micro_batch x replicas must divide the global batch and every stage be
// listed in the profile.
double IterationSeconds(const Profile& profile, int64_t global_batch, const SailorPlan& plan);

// Whether every stage fits: stage i of n keeps n - i micro-batches.
bool Fits(const Profile& profile, const SailorPlan& plan);

// "A100-40 tp4 x 8 layers, ..." for people.
std::string Describe(const Profile& profile, const SailorPlan& plan);

}  // namespace hapmoe::bench::sailor

#endif  // HAPMOE_TESTS_BENCH_SAILOR_COST_H_
