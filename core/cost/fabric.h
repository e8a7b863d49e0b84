// The links of a pool's accelerators, and how far they reach.
#ifndef HAPMOE_CORE_COST_FABRIC_H_
#define HAPMOE_CORE_COST_FABRIC_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/cluster/cluster.h"
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
  // Where domains hold several nodes: the cluster does not say which.
  bool crosses_nodes = false;
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

  // Of an accelerator of the pool, by its number.
  int64_t DomainOf(int64_t number) const { return number / domain; }
  int64_t IslandInDomain(int64_t number) const {
    return bridge.has_value() ? number % domain / bridge->island : 0;
  }
};

// The fabric of a pool: the profile's, with the pool's own network where it gives one.
Fabric FabricOf(const cluster::Pool& pool, const profile::AcceleratorProfile& profile);

// How far apart accelerators of one pool are. A domain without a bridge is one island.
enum class Reach { kIsland, kDomain, kNetwork };
inline constexpr size_t kReaches = 3;

// Of accelerators [first, last) of a pool, in whose numbers domains begin at multiples of their
// size, and islands at multiples of theirs in each domain.
Reach ReachOf(const Fabric& fabric, int64_t first, int64_t last);

}  // namespace hapmoe::cost

#endif  // HAPMOE_CORE_COST_FABRIC_H_
