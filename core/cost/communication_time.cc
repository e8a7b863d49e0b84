#include "core/cost/communication_time.h"

#include <algorithm>
#include <bit>
#include <optional>

namespace hapmoe::cost {

using model::Collective;
using profile::CollectivePrimitive;

namespace {

// Bytes that the links of one rank carry for a collective among `ranks` of a domain.
double LinkBytes(CollectivePrimitive primitive, double ranks, double bytes) {
  switch (primitive) {
    case CollectivePrimitive::kAllGather:
    case CollectivePrimitive::kReduceScatter:
    case CollectivePrimitive::kAllToAll:
      return bytes * (ranks - 1) / ranks;
    case CollectivePrimitive::kAllReduce:
      return 2 * bytes * (ranks - 1) / ranks;
    case CollectivePrimitive::kSendReceive:
      return bytes;
  }
  return bytes;
}

// Seconds by the rates of the links alone.
double LinkSeconds(CollectivePrimitive primitive, int64_t ranks, const Fabric& fabric,
                   double bytes) {
  const double n = static_cast<double>(ranks);
  // A few members cannot use more links than they have between them.
  const double rate =
      primitive == CollectivePrimitive::kSendReceive
          ? fabric.pair_bytes_per_second
          : std::min(fabric.domain_bytes_per_second, fabric.pair_bytes_per_second * (n - 1));
  return LinkBytes(primitive, n, bytes) / rate;
}

double LatencySeconds(CollectivePrimitive primitive, int64_t ranks, const Fabric& fabric) {
  const double steps =
      static_cast<double>(ranks - 1) * (primitive == CollectivePrimitive::kAllReduce ? 2 : 1);
  return steps * fabric.domain_latency_seconds;
}

// Measured, or taken from primitives that move the same bytes in the same steps.
std::optional<double> Measured(CollectivePrimitive primitive, int64_t ranks, const Fabric& fabric,
                               double bytes) {
  if (fabric.curves == nullptr || fabric.curves->empty()) return std::nullopt;
  const auto look_up = [&](CollectivePrimitive which) -> std::optional<double> {
    const auto reading = fabric.curves->Read(which, ranks, bytes);
    if (!reading.has_value()) return std::nullopt;
    // Sends of an all-to-all leave together: more ranks add no steps.
    if (reading->ranks >= ranks || which == CollectivePrimitive::kAllToAll) return reading->seconds;
    return reading->seconds + LatencySeconds(which, ranks, fabric) -
           LatencySeconds(which, reading->ranks, fabric);
  };
  std::optional<double> seconds = look_up(primitive);
  if (!seconds.has_value() && primitive == CollectivePrimitive::kAllGather) {
    seconds = look_up(CollectivePrimitive::kReduceScatter);
  } else if (!seconds.has_value() && primitive == CollectivePrimitive::kReduceScatter) {
    seconds = look_up(CollectivePrimitive::kAllGather);
  } else if (!seconds.has_value() && primitive == CollectivePrimitive::kAllReduce) {
    const auto scatter = look_up(CollectivePrimitive::kReduceScatter);
    const auto gather = look_up(CollectivePrimitive::kAllGather);
    if (scatter.has_value() && gather.has_value()) seconds = *scatter + *gather;
  }
  // Fewer ranks than were measured may have fewer links: all of a switch, but one of a full mesh.
  const bool mesh = fabric.pair_bytes_per_second * static_cast<double>(ranks - 1) <
                    fabric.domain_bytes_per_second;
  if (seconds.has_value() && mesh) {
    seconds = std::max(*seconds, LinkSeconds(primitive, ranks, fabric, bytes));
  }
  return seconds;
}

// Seconds among `ranks` of one domain, alone.
double InsideSeconds(CollectivePrimitive primitive, int64_t ranks, const Fabric& fabric,
                     double bytes) {
  if (ranks <= 1 || bytes <= 0) return 0;
  const std::optional<double> measured = Measured(primitive, ranks, fabric, bytes);
  if (measured.has_value()) return *measured;
  return LinkSeconds(primitive, ranks, fabric, bytes) + LatencySeconds(primitive, ranks, fabric);
}

// Seconds that the bridge between islands needs for what all groups of a domain send over it at the
// same time. `bytes`: as among the most members in a domain.
double BridgeSeconds(CollectivePrimitive primitive, const GroupSplit& split, const Fabric& fabric,
                     double bytes) {
  if (!fabric.bridge.has_value() || split.crossing == 0) return 0;
  const double local = static_cast<double>(split.most);
  // A ring leaves an island over one of its links.
  const double sent = primitive == CollectivePrimitive::kAllToAll
                          ? static_cast<double>(split.crossing_pairs) * bytes / local
                          : LinkBytes(primitive, local, bytes);
  return static_cast<double>(split.crossing) * sent / fabric.bridge->bytes_per_second;
}

// `inside_bytes` is the tensor among the most members in a domain, `rail_bytes` what the network
// carries for one rank, `hops` the transfers between domains that follow each other.
double AcrossSeconds(CollectivePrimitive primitive, const GroupSplit& split, const Fabric& fabric,
                     double inside_bytes, double rail_bytes, double hops) {
  const double inside = std::max(InsideSeconds(primitive, split.most, fabric, inside_bytes),
                                 BridgeSeconds(primitive, split, fabric, inside_bytes)) *
                        fabric.domain_contention;
  if (split.domains == 1) return inside;
  const double latency = split.most > 1 ? LatencySeconds(primitive, split.most, fabric) : 0;
  const double network =
      rail_bytes / fabric.network_bytes_per_second * fabric.network_contention + latency;
  return std::max(inside, network) + hops * fabric.network_latency_seconds;
}

}  // namespace

double CollectiveSeconds(Collective collective, const GroupSplit& split, const Fabric& fabric,
                         double bytes) {
  if (split.ranks <= 1 || bytes <= 0 || collective == Collective::kNone) return 0;
  const double n = static_cast<double>(split.ranks);
  const double l = static_cast<double>(split.most);
  const double rails = static_cast<double>(split.fewest);
  const double d = static_cast<double>(split.domains);
  // The tensor over l ranks alone that passes each of them the bytes of the ring through all n.
  const double inside_bytes = l > 1 ? bytes * (n - 1) / n * l / (l - 1) : 0;
  const double rail_bytes = bytes / rails * (n - 1) / n;
  switch (collective) {
    case Collective::kAllGather:
      return AcrossSeconds(CollectivePrimitive::kAllGather, split, fabric, inside_bytes, rail_bytes,
                           d - 1);
    case Collective::kReduceScatter:
      return AcrossSeconds(CollectivePrimitive::kReduceScatter, split, fabric, inside_bytes,
                           rail_bytes, d - 1);
    case Collective::kAllReduce: {
      const double ring = AcrossSeconds(CollectivePrimitive::kAllReduce, split, fabric,
                                        inside_bytes, 2 * rail_bytes, 2 * (d - 1));
      if (split.domains == 1) return ring;
      const double depth =
          static_cast<double>(std::bit_width(static_cast<uint64_t>(split.domains - 1)));
      const double tree =
          AcrossSeconds(CollectivePrimitive::kAllReduce, split, fabric, inside_bytes,
                        bytes / rails * (split.domains == 2 ? 1 : 2), 2 * depth);
      return std::min(ring, tree);
    }
    case Collective::kAllToAll:
      return AcrossSeconds(CollectivePrimitive::kAllToAll, split, fabric, bytes * l / n,
                           bytes * (n - rails) / n, d - 1);
    case Collective::kRing: {
      const Route route = split.domains > 1
                              ? Route{fabric.network_bytes_per_second / fabric.network_contention,
                                      fabric.network_latency_seconds}
                              : Route{};
      const double step = bytes / (n - 1);
      const double inside =
          std::max(InsideSeconds(CollectivePrimitive::kSendReceive, 2, fabric, step),
                   BridgeSeconds(CollectivePrimitive::kSendReceive, split, fabric, step));
      return (n - 1) *
             (split.domains > 1 ? route.Seconds(step) : fabric.domain_contention * inside);
    }
    case Collective::kDispatch:  // Depends on the routing: see OperationSeconds.
    case Collective::kNone:
      return 0;
  }
  return 0;
}

double TargetShare(const model::Routing& routing, double parts) {
  const double experts = static_cast<double>(routing.experts);
  const double groups = static_cast<double>(std::max<int64_t>(1, routing.groups));
  // Without a limit the top k come from all experts.
  const double allowed = routing.groups > 1 && routing.group_topk > 0
                             ? static_cast<double>(std::min(routing.group_topk, routing.groups))
                             : groups;
  // A part is missed when none of its groups is chosen, or when none of its experts is, of those
  // that the chosen groups hold.
  const double pool = experts * allowed / groups;
  const auto missed = [&](double inside) {  // By topk draws of a pool, without replacement.
    double share = 1;
    for (int64_t i = 0; i < routing.topk; ++i) {
      const double drawn = static_cast<double>(i);
      if (pool - drawn <= 0) return 0.0;
      share *= std::max(0.0, pool - drawn - inside) / (pool - drawn);
    }
    return share;
  };
  if (parts >= groups) return allowed / groups * (1 - missed(experts / parts));
  // A part holds several groups; on average allowed / parts of those chosen.
  double untouched = 1;
  for (double i = 0; i < allowed; ++i) {
    untouched *= std::max(0.0, groups - groups / parts - i) / (groups - i);
  }
  if (untouched >= 1) return 0;
  return (1 - untouched) * (1 - missed(pool / parts / (1 - untouched)));
}

double OperationSeconds(const model::Operation& op, const StageLinks& links) {
  const Fabric& fabric = links.fabric();
  const GroupSplit& split = links.Of(op.group);
  if (op.collective != Collective::kDispatch) {
    return CollectiveSeconds(op.collective, split, fabric, op.bytes);
  }
  if (split.ranks <= 1 || op.bytes <= 0) return 0;
  const double n = static_cast<double>(split.ranks);
  const double l = static_cast<double>(split.most);
  const double d = static_cast<double>(split.domains);
  const double copies = op.bytes * n * TargetShare(op.routing, n);
  const double inside_bytes = copies * (l - 1) / l;
  const double rail_bytes = op.bytes * (d - 1) * TargetShare(op.routing, d);
  // Its own kernels, not the library's collectives: the links' rates hold, not their curves.
  double seconds = 0;
  if (split.most > 1) {
    const double alone = inside_bytes / std::min(fabric.domain_bytes_per_second,
                                                 fabric.pair_bytes_per_second * (l - 1));
    seconds =
        std::max(alone, BridgeSeconds(CollectivePrimitive::kAllToAll, split, fabric, copies)) *
        fabric.domain_contention;
  }
  if (split.domains == 1) return seconds + fabric.domain_latency_seconds;
  return std::max(seconds,
                  rail_bytes / fabric.network_bytes_per_second * fabric.network_contention) +
         fabric.domain_latency_seconds + fabric.network_latency_seconds;
}

Route RouteBetween(const cluster::Cluster& cluster, int64_t first_pool, int64_t second_pool,
                   const Fabric& first, const Fabric& second, bool* assumed) {
  Route route;
  route.bytes_per_second = std::min(first.network_bytes_per_second / first.network_correction,
                                    second.network_bytes_per_second / second.network_correction);
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

Route RouteWithin(const Fabric& fabric, int64_t stage_ranks, Reach reach) {
  if (reach == Reach::kNetwork) {
    return {fabric.network_bytes_per_second / fabric.network_correction,
            fabric.network_latency_seconds};
  }
  double rate = fabric.pair_bytes_per_second;
  if (reach == Reach::kDomain && fabric.bridge.has_value()) {
    const double senders = static_cast<double>(std::min(stage_ranks, fabric.bridge->island));
    rate = std::min(rate, fabric.bridge->bytes_per_second / senders);
  }
  return {rate / fabric.domain_correction, fabric.domain_latency_seconds};
}

}  // namespace hapmoe::cost
