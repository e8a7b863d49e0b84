// What the HAPMoE paper (arXiv 2609.39350v1, section 5) was measured on, and what it reports.
#ifndef HAPMOE_TESTS_BENCH_PAPER_SETUPS_H_
#define HAPMOE_TESTS_BENCH_PAPER_SETUPS_H_

#include <optional>
#include <string>
#include <vector>

#include "tests/bench/jobs.h"

namespace hapmoe::bench {

struct NamedCluster {
  std::string name;  // As the paper calls it.
  std::vector<PoolSize> pools;
  // Iteration time with non-uniform PP and DP switched off over HAPMoE's, table 3.
  std::optional<double> printed_uniform_latency;

  bool mixed() const { return pools.size() > 1; }
};

// The 12 of the experts' study, one type first, and the one that only the dense study uses.
std::vector<NamedCluster> MoeClusters();
std::vector<NamedCluster> DenseClusters();

// Geometric mean of throughput over Megatron-Infinigence's, tuned by hand; table 2.
struct PrintedThroughput {
  std::string method;  // Name of the baseline that stands for it, or "ours".
  double over_hand_tuned = 0;
};

struct Model {
  std::string name;
  std::vector<std::string> megatron_args;
  std::vector<NamedCluster> clusters;
  std::vector<PrintedThroughput> printed;
  // Every method may keep the optimizer's states in host memory where that is quicker.
  bool may_offload = false;
  // Least that ours must gain over the uniform plan, as ThroughputTable has it: some way below what
  // it does gain, so that profiles may change.
  double floor_over_uniform = 1;
};

// Mixtral-S and Mixtral-L as the paper states them, and LLaMA-2 7B and 13B, whose global batch it
// does not state: 256 here. Micro-batch 1, bf16, ZeRO-1. Mixtral-L may offload: the paper has it so
// on its smallest clusters.
std::vector<Model> Models();

// The same job with the optimizer's states in host memory.
std::vector<std::string> Offloaded(std::vector<std::string> megatron_args);

}  // namespace hapmoe::bench

#endif  // HAPMOE_TESTS_BENCH_PAPER_SETUPS_H_
