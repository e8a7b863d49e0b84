// How long a collective takes on the ranks it really spans.
#ifndef HAPMOE_CORE_COST_COMMUNICATION_TIME_H_
#define HAPMOE_CORE_COST_COMMUNICATION_TIME_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/cluster/cluster.h"
#include "core/model/operations.h"
#include "core/plan/plan.h"
#include "core/profile/accelerator_profile.h"

namespace hapmoe::cost {

// Links as one accelerator of a pool sees them, efficiencies taken off. Holds on to the profile
// that it was made from, which must outlive it.
struct Fabric {
  double domain_bytes_per_second = 0;  // All links inside a scale-up domain together.
  double pair_bytes_per_second = 0;    // One pair inside a domain.
  double domain_latency_seconds = 0;
  double network_bytes_per_second = 0;
  double network_latency_seconds = 0;
  int64_t domain = 1;  // Accelerators in a domain, at least one node's.
  std::optional<profile::Bridge>
      bridge;  // Between islands of a domain; absent where there are none.
  // Measured times inside a domain, or null. They take precedence over the rates above.
  const profile::CollectiveCurves* curves = nullptr;
  // Time in training, beside compute and other collectives, over time alone; corrections included.
  double domain_contention = 1;
  double network_contention = 1;
  // By measured iterations, for transfers between two.
  double domain_correction = 1;
  double network_correction = 1;
};

// The fabric of a pool: the profile's, with the pool's own network where it gives one.
Fabric FabricOf(const cluster::Pool& pool, const profile::AcceleratorProfile& profile);

// Ranks of a group: `size` ranks, `stride` apart, the first at a domain's start.
struct GroupPlacement {
  int64_t size = 1;
  int64_t stride = 1;

  // Members that share a domain.
  int64_t local(int64_t domain) const;
};

// Where the groups of a stage lie under the engine's rank order: tp fastest, then cp, then dp; for
// experts etp, then ep, then expert dp.
GroupPlacement PlacementOf(model::Group group, const plan::Degrees& degrees);
// dp x cp, over which dense parameters are synchronised.
GroupPlacement DenseSyncPlacement(const plan::Degrees& degrees);
// expert dp, over which expert parameters are synchronised.
GroupPlacement ExpertSyncPlacement(const plan::Degrees& degrees);

// Seconds of one collective. `bytes` as in model::Operation. The parts inside and between domains
// run at the same time, as the libraries' rings over all rails do; the slower one counts. Volumes
// for B bytes over n = l x d ranks, l in each of d domains:
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
double CollectiveSeconds(model::Collective collective, const GroupPlacement& group,
                         const Fabric& fabric, double bytes);

// Seconds of the collective of an operation on the group that it names. A dispatch (DeepEP,
// HybridEP) sends each of B bytes of tokens once over the network to every other domain that holds
// an expert of it, and there once to every rank that does:
//   max( B n P(n) (l-1)/l / domain rate, B (d-1) P(d) / network rate ) + latencies
double OperationSeconds(const model::Operation& op, const plan::Degrees& degrees,
                        const Fabric& fabric);

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

// How far apart accelerators of one pool are. A domain without a bridge is one island.
enum class Reach { kIsland, kDomain, kNetwork };
inline constexpr size_t kReaches = 3;

// Of accelerators [first, last) of a pool, in whose numbers islands and domains begin at multiples
// of their sizes.
Reach ReachOf(const Fabric& fabric, int64_t first, int64_t last);

// The route between neighbouring stages of one pool. Ranks of a stage that send over the bridge
// between islands share it.
Route RouteWithin(const Fabric& fabric, int64_t stage_ranks, Reach reach);

}  // namespace hapmoe::cost

#endif  // HAPMOE_CORE_COST_COMMUNICATION_TIME_H_
