// How long a collective takes on the ranks it really spans.
#ifndef HAPMOE_CORE_COST_COMMUNICATION_TIME_H_
#define HAPMOE_CORE_COST_COMMUNICATION_TIME_H_

#include <cstdint>

#include "core/cluster/cluster.h"
#include "core/cost/fabric.h"
#include "core/cost/stage_links.h"
#include "core/model/operations.h"

namespace hapmoe::cost {

// Seconds of one collective. `bytes` as in model::Operation. The parts inside and between domains
// run at the same time, as the libraries' rings over all rails do; the slower one counts. Volumes
// for B bytes over n ranks in d domains, l in each (where they differ: the most inside, the fewest
// between domains):
//   all-gather, reduce-scatter: one ring through all ranks (NCCL, RCCL and HCCL have no other
//     algorithm for large tensors), so B (n-1)/n pass every rank and B/l (n-1)/n every rail.
//   all-reduce: the faster of two such rings and a double binary tree between domains, which passes
//     a rail B/l each way between two domains, and 2 B/l where there are more.
//   all-to-all of S bytes sent by each rank: S (l-1)/n inside and S (n-l)/n between domains.
//   ring: n-1 transfers between neighbours, each as fast as the slowest link.
// Where a domain is made of islands, all groups of a stage communicate at once and share the
// bridge: each ring passes it once, and an all-to-all sends over it what is for other islands. Rank
// counts, volumes and steps: Thakur et al., IJHPCA 19(1), 2005; trees: Sanders et al., Parallel
// Computing 35(12), 2009. Never decreases in `bytes`. About 50 ns. Not for a dispatch.
double CollectiveSeconds(model::Collective collective, const GroupSplit& split,
                         const Fabric& fabric, double bytes);

// Seconds of the collective of an operation on the group that it names. A dispatch (DeepEP,
// HybridEP) sends each of B bytes of tokens once over the network to every other domain that holds
// an expert of it, and there once to every rank that does:
//   max( B n P(n) (l-1)/l / domain rate, B (d-1) P(d) / network rate ) + latencies
double OperationSeconds(const model::Operation& op, const StageLinks& links);

// P(parts): the share of tokens that have an expert in one of `parts` equal parts of the experts,
// when routing is uniform. Exact without groups and where a part holds one group or less; where it
// holds several, chosen groups count as spread evenly over the parts that they touch.
double TargetShare(const model::Routing& routing, double parts);

// One way from a pool to another, or between stages of one pool.
struct Route {
  double bytes_per_second = 0;
  double latency_seconds = 0;

  double Seconds(double bytes) const { return latency_seconds + bytes / bytes_per_second; }
};

// The route between the accelerators of two pools: the cluster's link where it is listed, else the
// slower side's network. `assumed` is set where nothing was listed. Both pools alike: the network
// of the pool.
Route RouteBetween(const cluster::Cluster& cluster, int64_t first_pool, int64_t second_pool,
                   const Fabric& first, const Fabric& second, bool* assumed);

// The route between neighbouring stages of one pool. Ranks of a stage that send over the bridge
// between islands share it.
Route RouteWithin(const Fabric& fabric, int64_t stage_ranks, Reach reach);

}  // namespace hapmoe::cost

#endif  // HAPMOE_CORE_COST_COMMUNICATION_TIME_H_
