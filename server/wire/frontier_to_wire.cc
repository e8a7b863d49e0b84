#include <algorithm>
#include <cmath>

#include "server/wire/to_wire.h"

namespace hapmoe::server {

google::protobuf::RepeatedPtrField<v1::PoolNodes> AllocationToWire(
    const cluster::Cluster& cluster, const search::Allocation& allocation) {
  google::protobuf::RepeatedPtrField<v1::PoolNodes> wire;
  for (size_t pool = 0; pool < cluster.pools.size(); ++pool) {
    if (allocation.nodes[pool] == 0) continue;
    v1::PoolNodes* to = wire.Add();
    to->set_pool(cluster.pools[pool].name);
    to->set_nodes(static_cast<uint32_t>(allocation.nodes[pool]));
  }
  return wire;
}

v1::FrontierPoint FrontierPointToWire(const cluster::Cluster& cluster,
                                      const search::FrontierPoint& point) {
  v1::FrontierPoint wire;
  *wire.mutable_allocation() = AllocationToWire(cluster, point.allocation);
  wire.set_accelerators(static_cast<int32_t>(point.accelerators));
  wire.set_memory_headroom_ratio(point.memory_headroom_ratio);
  wire.set_why(point.why);
  wire.set_settled(point.settled);
  wire.set_on_pareto_front(point.on_pareto_front);
  const bool priced = std::all_of(
      cluster.pools.begin(), cluster.pools.end(),
      [](const cluster::Pool& pool) { return pool.price_per_accelerator_hour.has_value(); });
  if (priced) wire.set_price_per_hour(search::PricePerHour(cluster, point.allocation));
  if (!point.planned()) return wire;
  const search::Costed& best = point.best();
  const double seconds = best.prediction.iteration_seconds;
  wire.set_accelerators_used(static_cast<int32_t>(best.plan.world_size()));
  wire.set_iteration_seconds(seconds);
  wire.set_tokens_per_second(best.prediction.tokens_per_second);
  wire.set_device_memory_bytes(std::llround(best.prediction.device_memory_bytes()));
  wire.set_gap_ratio(point.outcome->termination.gap_ratio(seconds));
  if (priced) {
    wire.set_tokens_per_price(
        search::TokensPerPrice(cluster, point.allocation, best.prediction.tokens_per_second));
  }
  return wire;
}

v1::Objective::Kind ObjectiveKindToWire(search::Objective::Kind kind) {
  switch (kind) {
    case search::Objective::Kind::kTime:
      return v1::Objective::KIND_TIME;
    case search::Objective::Kind::kPrice:
      return v1::Objective::KIND_PRICE;
    case search::Objective::Kind::kFewest:
      return v1::Objective::KIND_FEWEST;
  }
  return v1::Objective::KIND_UNSPECIFIED;
}

}  // namespace hapmoe::server
