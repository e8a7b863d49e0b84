#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "core/search/space.h"
#include "server/wire/from_wire.h"

namespace hapmoe::server {
namespace {

bool IsPrintable(absl::string_view text) {
  return absl::c_all_of(text,
                        [](char c) { return absl::ascii_isprint(static_cast<unsigned char>(c)); });
}

// 0 on the wire says that the profile's figure holds; what is wrong otherwise is for Validate.
std::optional<double> FigureFromWire(double value) {
  return value == 0 ? std::nullopt : std::optional<double>(value);
}

cluster::Pool PoolFromWire(const v1::Pool& wire) {
  cluster::Pool pool;
  pool.name = wire.name();
  pool.accelerator = wire.accelerator();
  pool.hosts.assign(wire.hosts().begin(), wire.hosts().end());
  pool.nodes = wire.nodes() == 0 ? static_cast<int64_t>(pool.hosts.size()) : int64_t{wire.nodes()};
  pool.devices.assign(wire.devices().begin(), wire.devices().end());
  const int64_t accelerators = pool.devices.empty() ? kDefaultAcceleratorsPerNode
                                                    : static_cast<int64_t>(pool.devices.size());
  pool.accelerators_per_node =
      wire.accelerators_per_node() == 0 ? accelerators : int64_t{wire.accelerators_per_node()};
  pool.network.bytes_per_second = FigureFromWire(wire.network().bytes_per_second());
  pool.network.latency_seconds = FigureFromWire(wire.network().latency_seconds());
  pool.host_memory_bytes = FigureFromWire(wire.host_memory_bytes());
  if (wire.has_price_per_accelerator_hour()) {
    pool.price_per_accelerator_hour = wire.price_per_accelerator_hour();
  }
  return pool;
}

// Index of a pool, or -1.
int64_t FindPool(const std::map<std::string, int64_t>& pools, const std::string& name) {
  const auto found = pools.find(name);
  return found == pools.end() ? -1 : found->second;
}

cluster::Link LinkFromWire(const v1::Link& wire, const std::map<std::string, int64_t>& pools,
                           const std::string& field, Violations& violations) {
  cluster::Link link;
  link.network.bytes_per_second = FigureFromWire(wire.bytes_per_second());
  link.network.latency_seconds = FigureFromWire(wire.latency_seconds());
  link.first_pool = link.second_pool = -1;
  if (wire.between_size() != 2) {
    violations.push_back({"link_pools_known", field + ".between",
                          absl::StrCat("A link joins 2 pools, not ", wire.between_size(), ".")});
    return link;
  }
  link.first_pool = FindPool(pools, wire.between(0));
  link.second_pool = FindPool(pools, wire.between(1));
  for (int side = 0; side < 2; ++side) {
    if (FindPool(pools, wire.between(side)) >= 0) continue;
    violations.push_back({"link_pools_known", absl::StrCat(field, ".between[", side, "]"),
                          absl::StrCat("No pool is named \"", wire.between(side), "\".")});
  }
  return link;
}

std::vector<int64_t> DegreesFromWire(const google::protobuf::RepeatedField<int32_t>& wire,
                                     absl::string_view name, Violations& violations) {
  const std::string field = absl::StrCat("constraints.", name);
  if (wire.size() > kMaxDegreeChoices) {
    violations.push_back(
        {"degree_choices_in_range", field,
         absl::StrCat("At most ", kMaxDegreeChoices, " values, not ", wire.size(), ".")});
    return {};
  }
  for (int i = 0; i < wire.size(); ++i) {
    if (wire[i] >= 1 && wire[i] <= kMaxDegree) continue;
    violations.push_back(
        {"degree_in_range", absl::StrCat(field, "[", i, "]"),
         absl::StrCat("Must be at least 1 and at most ", kMaxDegree, ", not ", wire[i], ".")});
  }
  return {wire.begin(), wire.end()};
}

std::vector<int64_t> VirtualStagesFromWire(const v1::Constraints& wire, Violations& violations) {
  std::vector<int64_t> allowed =
      DegreesFromWire(wire.virtual_stages(), "virtual_stages", violations);
  for (size_t i = 0; i < allowed.size(); ++i) {
    if (allowed[i] <= search::kMaxVirtualStages) continue;
    violations.push_back(
        {"virtual_stages_in_range", absl::StrCat("constraints.virtual_stages[", i, "]"),
         absl::StrCat("Must be at most ", search::kMaxVirtualStages, ", not ", allowed[i], ".")});
  }
  return allowed;
}

std::vector<model::Dispatcher> DispatchersFromWire(const v1::Constraints& wire,
                                                   Violations& violations) {
  std::vector<model::Dispatcher> dispatchers;
  for (int i = 0; i < wire.token_dispatcher_size(); ++i) {
    const std::optional<model::Dispatcher> dispatcher =
        model::DispatcherNamed(wire.token_dispatcher(i));
    if (!dispatcher.has_value()) {
      violations.push_back(
          {"token_dispatcher_known", absl::StrCat("constraints.token_dispatcher[", i, "]"),
           absl::StrCat("Must be allgather, alltoall or flex, not \"",
                        absl::CHexEscape(wire.token_dispatcher(i).substr(0, 32)), "\".")});
    } else if (std::find(dispatchers.begin(), dispatchers.end(), *dispatcher) ==
               dispatchers.end()) {
      dispatchers.push_back(*dispatcher);
    }
  }
  return dispatchers;
}

search::Prunings PruningsFromWire(const v1::Prunings& wire, Violations& violations) {
  search::Prunings prunings;
  if (wire.has_load_balance_ratio()) {
    const double ratio = wire.load_balance_ratio();
    if (ratio >= 0 && ratio <= kMaxLoadBalanceRatio) {
      prunings.load_balance_ratio = ratio;
    } else {
      violations.push_back(
          {"load_balance_ratio_in_range", "constraints.prunings.load_balance_ratio",
           absl::StrCat("Must be from 0 to ", kMaxLoadBalanceRatio, ", not ", ratio, ".")});
    }
  }
  if (wire.has_cross_type_ratio()) {
    const double ratio = wire.cross_type_ratio();
    if (ratio > 0 && std::isfinite(ratio)) {
      prunings.cross_type_ratio = ratio;
    } else {
      violations.push_back({"cross_type_ratio_positive", "constraints.prunings.cross_type_ratio",
                            absl::StrCat("Must be above 0 and finite, not ", ratio, ".")});
    }
  }
  return prunings;
}

std::optional<std::chrono::nanoseconds> TimeBudgetFromWire(const v1::Constraints& wire,
                                                           Violations& violations) {
  if (!wire.has_time_budget()) return std::nullopt;
  // Well above any server's cap, which takes precedence; below what overflows a clock.
  constexpr int64_t kMaxSeconds = int64_t{365} * 86400;
  const int64_t seconds = wire.time_budget().seconds();
  const int32_t nanos = wire.time_budget().nanos();
  const bool positive = seconds >= 0 && nanos >= 0 && nanos < 1'000'000'000 && seconds + nanos > 0;
  if (seconds < 0 || seconds > kMaxSeconds || !positive) {
    violations.push_back({"time_budget_positive", "constraints.time_budget",
                          absl::StrCat("Must be above 0 s and at most ", kMaxSeconds, " s, not ",
                                       seconds, " s and ", nanos, " ns.")});
    return std::nullopt;
  }
  return std::chrono::seconds(seconds) + std::chrono::nanoseconds(nanos);
}

}  // namespace

bool IsRequestId(absl::string_view request_id) {
  return request_id.size() <= kMaxRequestIdBytes && IsPrintable(request_id);
}

void CheckRequestId(absl::string_view request_id, Violations& violations) {
  if (IsRequestId(request_id)) return;
  violations.push_back(
      {"request_id_valid", "request_id",
       absl::StrCat("A request id has at most ", kMaxRequestIdBytes,
                    " printable ASCII characters; this one has ", request_id.size(), " bytes.")});
}

cluster::Cluster ClusterFromWire(const v1::Cluster& wire, Violations& violations) {
  cluster::Cluster cluster;
  if (wire.links_size() > kMaxLinks) {
    violations.push_back({"cluster_links_in_range", "cluster.links",
                          absl::StrCat("A cluster has at most ", kMaxLinks, " links, not ",
                                       wire.links_size(), ".")});
    return cluster;
  }
  std::map<std::string, int64_t> pools;
  for (const v1::Pool& pool : wire.pools()) {
    pools.emplace(pool.name(), static_cast<int64_t>(cluster.pools.size()));
    cluster.pools.push_back(PoolFromWire(pool));
  }
  for (int i = 0; i < wire.links_size(); ++i) {
    cluster.links.push_back(
        LinkFromWire(wire.links(i), pools, absl::StrCat("cluster.links[", i, "]"), violations));
  }
  for (Violation& violation : cluster::Validate(cluster)) {
    // Told above already, by name.
    if (violation.rule != "link_pools_known") violations.push_back(std::move(violation));
  }
  return cluster;
}

double HeadroomFromWire(std::optional<double> ratio, absl::string_view field,
                        Violations& violations) {
  if (!ratio.has_value()) return kDefaultMemoryHeadroomRatio;
  if (std::isfinite(*ratio) && *ratio >= 0 && *ratio < 1) return *ratio;
  violations.push_back({"memory_headroom_in_range", std::string(field),
                        absl::StrCat("Must be at least 0 and below 1, not ", *ratio, ".")});
  return kDefaultMemoryHeadroomRatio;
}

PlanLimits ConstraintsFromWire(const v1::Constraints& wire, Violations& violations) {
  PlanLimits limits;
  limits.engine = wire.engine().empty() ? kDefaultEngine : wire.engine();
  search::Constraints& constraints = limits.constraints;
  constraints.tp = DegreesFromWire(wire.tp(), "tp", violations);
  constraints.cp = DegreesFromWire(wire.cp(), "cp", violations);
  constraints.ep = DegreesFromWire(wire.ep(), "ep", violations);
  constraints.etp = DegreesFromWire(wire.etp(), "etp", violations);
  constraints.dp = DegreesFromWire(wire.dp(), "dp", violations);
  constraints.pp = DegreesFromWire(wire.pp(), "pp", violations);
  constraints.micro_batch =
      DegreesFromWire(wire.micro_batch_size(), "micro_batch_size", violations);
  constraints.virtual_stages = VirtualStagesFromWire(wire, violations);
  constraints.dispatchers = DispatchersFromWire(wire, violations);
  // Lists of what is allowed are sets: no answer depends on the order in which they were written.
  for (std::vector<int64_t>* allowed :
       {&constraints.tp, &constraints.cp, &constraints.ep, &constraints.etp, &constraints.dp,
        &constraints.pp, &constraints.micro_batch, &constraints.virtual_stages}) {
    std::sort(allowed->begin(), allowed->end());
    allowed->erase(std::unique(allowed->begin(), allowed->end()), allowed->end());
  }
  std::sort(constraints.dispatchers.begin(), constraints.dispatchers.end());
  constraints.prunings = PruningsFromWire(wire.prunings(), violations);
  constraints.allow_idle_accelerators = wire.allow_idle_accelerators();
  constraints.keep_recompute = wire.keep_recompute();
  limits.memory_headroom_ratio = HeadroomFromWire(
      wire.has_memory_headroom_ratio() ? std::optional<double>(wire.memory_headroom_ratio())
                                       : std::nullopt,
      "constraints.memory_headroom_ratio", violations);
  limits.time_budget = TimeBudgetFromWire(wire, violations);
  return limits;
}

}  // namespace hapmoe::server
