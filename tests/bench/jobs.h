// Jobs and clusters that the benchmarks plan.
#ifndef HAPMOE_TESTS_BENCH_JOBS_H_
#define HAPMOE_TESTS_BENCH_JOBS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "hapmoe/v1/planner.pb.h"

namespace hapmoe::bench {

// Mixtral 8x7B as deploy/examples/mixtral-8x7b.sh trains it.
std::vector<std::string> Mixtral8x7B();

// DeepSeek-V3 (arXiv 2412.19437) with a global batch of 8192, and the layout of 16 stages of two
// virtual stages for 1,024 accelerators that Megatron-LM's documentation gives.
std::vector<std::string> DeepSeekV3();
std::vector<std::string> DeepSeekV3Layout();

struct PoolSize {
  std::string accelerator;
  uint32_t nodes = 1;
};

// Pools of nodes of eight.
v1::Cluster ClusterOf(const std::vector<PoolSize>& pools);

}  // namespace hapmoe::bench

#endif  // HAPMOE_TESTS_BENCH_JOBS_H_
