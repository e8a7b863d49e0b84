// The fastest plan under Sailor's formulas, by the dynamic program over suffixes of a pipeline.
#ifndef HAPMOE_TESTS_BENCH_SAILOR_PLAN_SEARCH_H_
#define HAPMOE_TESTS_BENCH_SAILOR_PLAN_SEARCH_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "tests/bench/sailor/cost.h"
#include "tests/bench/sailor/profile.h"

namespace hapmoe::bench::sailor {

struct Task {
  const Profile* profile = nullptr;
  int64_t global_batch = 0;
  std::vector<int64_t> accelerators;  // Of each type of the profile; multiples of four, or fewer.
};

struct Answer {
  std::optional<SailorPlan> plan;
  double seconds = 0;
  int64_t candidates = 0;  // Pairs of replicas and micro-batch.
  int64_t searched = 0;    // Of them exactly; the others cannot be faster.
  int64_t labels = 0;
};

// The least IterationSeconds of all plans that fit: any number of stages in any order of types,
// each with its own degree and number of layers, one number of replicas, any micro-batch of the
// profile; accelerators may idle. Exact.
Answer FindPlan(const Task& task);

}  // namespace hapmoe::bench::sailor

#endif  // HAPMOE_TESTS_BENCH_SAILOR_PLAN_SEARCH_H_
