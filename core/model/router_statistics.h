// How a router spread its tokens over experts, and what the busiest expert rank bears of it.
#ifndef HAPMOE_CORE_MODEL_ROUTER_STATISTICS_H_
#define HAPMOE_CORE_MODEL_ROUTER_STATISTICS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/violation.h"

namespace hapmoe::model {

// Tokens that each expert received, counted over any number of steps: one list for each
// mixture-of-experts layer in order, with one count for each of its experts.
struct RouterStatistics {
  std::vector<std::vector<int64_t>> layers;
};

// Tokens of the busiest expert rank over the mean of the ranks. All are at least 1.
struct Imbalance {
  // Mean over layers: all ranks pass the layers one after the other, and wait in each for its
  // busiest.
  double time = 1;
  // What a rank must have room for in one layer. Of statistics: the most of any layer.
  double memory = 1;
  // The same of what it saves in several layers and micro-batches, at most `memory`.
  double saved = 1;
};

// Every fault, named under `field`, of statistics of a model of so many layers and experts. No
// faults: ImbalanceOf may be asked for any ep that divides `experts`.
std::vector<Violation> Validate(const RouterStatistics& statistics, int64_t moe_layers,
                                int64_t experts, const std::string& field);

// Experts lie contiguously over the `ep` ranks (Megatron-LM, core/transformer/moe/moe_layer.py,
// local_expert_indices). A rank bears at most `most` times the mean, at least 1: capacity drops
// the rest. Assumes validated statistics and that ep divides the experts.
Imbalance ImbalanceOf(const RouterStatistics& statistics, int64_t ep, double most);

}  // namespace hapmoe::model

#endif  // HAPMOE_CORE_MODEL_ROUTER_STATISTICS_H_
