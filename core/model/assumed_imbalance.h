// How unevenly a router that nobody has watched loads the ranks of its experts.
#ifndef HAPMOE_CORE_MODEL_ASSUMED_IMBALANCE_H_
#define HAPMOE_CORE_MODEL_ASSUMED_IMBALANCE_H_

#include <cstdint>

#include "core/model/router_statistics.h"

namespace hapmoe::model {

// What evens out the load of experts. kForced: tokens are dealt out, for benchmarks.
enum class Balancing { kForced, kExpertBias, kSinkhorn, kAuxiliaryLoss, kNone };

// Spread of the load of single experts over their mean, one standard deviation, over many tokens
// and for few experts a token. arXiv 2408.15664, table 2: after training, the busiest of 64
// experts, 6 a token, has 1.72 and 1.52 times the mean under an auxiliary loss, and 1.04 times
// under biases; the most of 64 normal variables lies 2.34 deviations above their mean. Half of the
// auxiliary loss's is taken, 0.14: published iteration times of runs that do not force balancing
// fit that best (tests/bench/fidelity; none of it and all of it are worse), but those routers are
// young. Sinkhorn's assignments, evened out batch by batch, are taken as even as those of biases;
// without balancing a router is taken to be no worse than with an auxiliary loss, the least that
// can be said of it.
double ExpertSpread(Balancing balancing);

// Loads of ranks are taken as normal variables around the mean `rank_tokens`. Experts differ by
// ExpertSpread, and experts / ep of them share a rank; and every token draws its experts by chance,
// as balls are drawn without being put back. `time` is the expected load of the busiest of `ep`
// ranks; `memory` what the busiest does not exceed in a share `quantile` of all passes, at least
// `time`; `saved` that of four passes together, whose loads are independent, at least `time` too.
// Neither exceeds `most` times the mean, nor all tokens on one rank. Exactly 1 with one rank and
// where balancing is forced. Assumes quantile in [0, 1) and rank_tokens > 0.
Imbalance AssumedImbalance(Balancing balancing, int64_t experts, int64_t topk, int64_t ep,
                           double rank_tokens, double quantile, double most);

// The value that a standard normal variable stays below with probability p in (0, 1), to 1e-8.
// Acklam's rational approximation.
double NormalQuantile(double p);

}  // namespace hapmoe::model

#endif  // HAPMOE_CORE_MODEL_ASSUMED_IMBALANCE_H_
