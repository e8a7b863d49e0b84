#include "core/cost/communication_time.h"

#include <algorithm>

namespace hapmoe::cost {

using model::Collective;
using model::Group;

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
  fabric.domain = std::max(pool.accelerators_per_node, profile.scale_up_domain);
  return fabric;
}

int64_t GroupPlacement::local(int64_t domain) const {
  return std::clamp<int64_t>(domain / std::max<int64_t>(1, stride), 1, size);
}

GroupPlacement PlacementOf(Group group, const plan::Degrees& degrees) {
  switch (group) {
    case Group::kTensor:
      return {degrees.tp, 1};
    case Group::kContext:
      return {degrees.cp, degrees.tp};
    case Group::kExpertTensor:
      return {degrees.etp, 1};
    case Group::kExpert:
      return {degrees.ep, degrees.etp};
    case Group::kDispatch:
      return {degrees.ep * degrees.etp, 1};
    case Group::kNone:
      return {1, 1};
  }
  return {1, 1};
}

GroupPlacement DenseSyncPlacement(const plan::Degrees& degrees) {
  return {degrees.dp * degrees.cp, degrees.tp};
}

GroupPlacement ExpertSyncPlacement(const plan::Degrees& degrees) {
  return {degrees.expert_dp(), degrees.etp * degrees.ep};
}

double CollectiveSeconds(Collective collective, const GroupPlacement& group, const Fabric& fabric,
                         double bytes) {
  if (group.size <= 1 || bytes <= 0 || collective == Collective::kNone) return 0;
  const int64_t local = group.local(fabric.domain);
  const int64_t domains = (group.size + local - 1) / local;
  const double n = static_cast<double>(group.size);
  const double l = static_cast<double>(local);
  const double d = static_cast<double>(domains);
  // A few members cannot use more links than they have between them.
  const double inside =
      std::min(fabric.domain_bytes_per_second, fabric.pair_bytes_per_second * (l - 1));
  const double latency =
      (l - 1) * fabric.domain_latency_seconds + (d - 1) * fabric.network_latency_seconds;
  const auto slower = [&](double inside_bytes, double network_bytes) {
    double seconds = 0;
    if (local > 1) seconds = inside_bytes / inside;
    if (domains > 1) {
      seconds = std::max(seconds, network_bytes / fabric.network_bytes_per_second);
    }
    return seconds;
  };
  const double ring = slower(bytes * (n - 1) / n, bytes / l * (d - 1) / d);
  switch (collective) {
    case Collective::kAllGather:
    case Collective::kReduceScatter:
      return ring + latency;
    case Collective::kAllReduce:
      return 2 * (ring + latency);
    case Collective::kAllToAll:
      return slower(bytes * (l - 1) / n, bytes * (n - l) / n) + latency;
    case Collective::kRing:
      // Every step waits for the slowest link.
      return (n - 1) *
                 (domains > 1 ? fabric.network_latency_seconds : fabric.domain_latency_seconds) +
             bytes / (domains > 1 ? fabric.network_bytes_per_second : fabric.pair_bytes_per_second);
    case Collective::kNone:
      return 0;
  }
  return 0;
}

Route RouteBetween(const cluster::Cluster& cluster, int64_t first_pool, int64_t second_pool,
                   const Fabric& first, const Fabric& second, bool* assumed) {
  Route route;
  route.bytes_per_second =
      std::min(first.network_bytes_per_second, second.network_bytes_per_second);
  route.latency_seconds = std::max(first.network_latency_seconds, second.network_latency_seconds);
  if (first_pool == second_pool) return route;
  bool listed = false;
  for (const cluster::Link& link : cluster.links) {
    const bool same = (link.first_pool == first_pool && link.second_pool == second_pool) ||
                      (link.first_pool == second_pool && link.second_pool == first_pool);
    if (!same) continue;
    listed = link.network.bytes_per_second.has_value();
    route.bytes_per_second = link.network.bytes_per_second.value_or(route.bytes_per_second);
    route.latency_seconds = link.network.latency_seconds.value_or(route.latency_seconds);
  }
  if (assumed != nullptr) *assumed = !listed;
  return route;
}

Route RouteWithin(const Fabric& fabric, int64_t stage_ranks) {
  if (2 * stage_ranks <= fabric.domain) {
    return {fabric.pair_bytes_per_second, fabric.domain_latency_seconds};
  }
  return {fabric.network_bytes_per_second, fabric.network_latency_seconds};
}

}  // namespace hapmoe::cost
