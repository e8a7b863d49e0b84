#include "core/cost/fabric.h"

#include <algorithm>

namespace hapmoe::cost {

Fabric FabricOf(const cluster::Pool& pool, const profile::AcceleratorProfile& profile) {
  Fabric fabric;
  fabric.domain_bytes_per_second = profile.scale_up_bytes_per_second * profile.scale_up_ratio;
  fabric.pair_bytes_per_second = profile.scale_up_pair_bytes_per_second * profile.scale_up_ratio;
  fabric.domain_latency_seconds = profile.scale_up_latency_seconds;
  fabric.network_bytes_per_second =
      pool.network.bytes_per_second.value_or(profile.network_bytes_per_second) *
      profile.network_ratio;
  fabric.network_latency_seconds =
      pool.network.latency_seconds.value_or(profile.network_latency_seconds);
  fabric.domain = profile.scale_up_crosses_nodes
                      ? std::max(pool.accelerators_per_node, profile.scale_up_domain)
                      : pool.accelerators_per_node;
  fabric.crosses_nodes = fabric.domain > pool.accelerators_per_node;
  if (profile.bridge.has_value() && profile.bridge->island < fabric.domain) {
    fabric.bridge = profile.bridge;
  }
  fabric.curves = &profile.collectives;
  fabric.domain_correction = profile.corrections.of(profile::Term::kScaleUp);
  fabric.network_correction = profile.corrections.of(profile::Term::kNetwork);
  fabric.domain_contention = profile.scale_up_contention * fabric.domain_correction;
  fabric.network_contention = profile.network_contention * fabric.network_correction;
  return fabric;
}

Reach ReachOf(const Fabric& fabric, int64_t first, int64_t last) {
  if (fabric.DomainOf(first) != fabric.DomainOf(last - 1)) return Reach::kNetwork;
  return fabric.IslandInDomain(first) == fabric.IslandInDomain(last - 1) ? Reach::kIsland
                                                                         : Reach::kDomain;
}

}  // namespace hapmoe::cost
