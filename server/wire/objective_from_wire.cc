#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/wire/from_wire.h"

namespace hapmoe::server {
namespace {

using Kind = search::Objective::Kind;

std::optional<double> LimitFromWire(std::optional<double> value, absl::string_view name,
                                    Violations& violations) {
  if (!value.has_value() || (std::isfinite(*value) && *value > 0)) return value;
  violations.push_back({"objective_limit_in_range", absl::StrCat("objective.", name),
                        absl::StrCat("Must be above 0, not ", *value, ".")});
  return std::nullopt;
}

Kind KindFromWire(v1::Objective::Kind wire, Violations& violations) {
  switch (wire) {
    case v1::Objective::KIND_UNSPECIFIED:
    case v1::Objective::KIND_TIME:
      return Kind::kTime;
    case v1::Objective::KIND_PRICE:
      return Kind::kPrice;
    case v1::Objective::KIND_FEWEST:
      return Kind::kFewest;
    default:
      violations.push_back({"objective_kind_known", "objective.kind",
                            absl::StrCat("Kind ", static_cast<int>(wire), " is not known.")});
      return Kind::kTime;
  }
}

// The numbers that one entry lists, sorted; a fault for each that the pool does not have.
std::vector<int64_t> NodesFromWire(const v1::PoolSizes& wire, const cluster::Pool& pool,
                                   const std::string& field, Violations& violations) {
  std::vector<int64_t> nodes;
  if (wire.nodes().empty() || wire.nodes_size() > search::kMaxAllocations) {
    violations.push_back({"frontier_sizes_in_range", field,
                          absl::StrCat("A pool has 1 to ", search::kMaxAllocations,
                                       " sizes to try, not ", wire.nodes_size(), ".")});
    return nodes;
  }
  for (int i = 0; i < wire.nodes_size(); ++i) {
    if (wire.nodes(i) > pool.nodes) {
      violations.push_back({"frontier_nodes_in_pool", absl::StrCat(field, "[", i, "]"),
                            absl::StrCat("Pool \"", pool.name, "\" has ", pool.nodes,
                                         " nodes, not ", wire.nodes(i), ".")});
      continue;
    }
    nodes.push_back(wire.nodes(i));
  }
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  return nodes;
}

}  // namespace

search::Objective ObjectiveFromWire(const v1::Objective& wire, Violations& violations) {
  search::Objective objective;
  objective.kind = KindFromWire(wire.kind(), violations);
  if (wire.has_deadline_seconds()) {
    objective.deadline_seconds =
        LimitFromWire(wire.deadline_seconds(), "deadline_seconds", violations);
  }
  if (wire.has_tokens_per_second()) {
    objective.tokens_per_second =
        LimitFromWire(wire.tokens_per_second(), "tokens_per_second", violations);
  }
  const bool limits = wire.has_deadline_seconds() || wire.has_tokens_per_second();
  if (objective.kind == Kind::kTime && limits) {
    violations.push_back(
        {"objective_takes_limits", "objective.kind",
         "The fastest plan takes no limits; the fewest accelerators and the lowest "
         "price do."});
  }
  if (objective.kind == Kind::kFewest && !limits) {
    violations.push_back(
        {"objective_limit_given", "objective",
         "The fewest accelerators for what? It needs a longest iteration or a least throughput."});
  }
  return objective;
}

search::AllocationSizes SizesFromWire(const google::protobuf::RepeatedPtrField<v1::PoolSizes>& wire,
                                      const cluster::Cluster& cluster, Violations& violations) {
  search::AllocationSizes sizes = search::DoubledSizes(cluster);
  std::vector<bool> listed(sizes.size(), false);
  const size_t faults = violations.size();
  if (wire.size() > search::kMaxAllocations) {
    violations.push_back({"frontier_pools_in_range", "sizes",
                          absl::StrCat("Sizes are listed for at most ", search::kMaxAllocations,
                                       " pools, not ", wire.size(), ".")});
    return sizes;
  }
  for (int i = 0; i < wire.size(); ++i) {
    const std::string field = absl::StrCat("sizes[", i, "]");
    const auto pool =
        std::find_if(cluster.pools.begin(), cluster.pools.end(),
                     [&](const cluster::Pool& one) { return one.name == wire[i].pool(); });
    if (pool == cluster.pools.end()) {
      violations.push_back({"frontier_pool_known", absl::StrCat(field, ".pool"),
                            absl::StrCat("No pool is named \"", wire[i].pool(), "\".")});
      continue;
    }
    const auto index = static_cast<size_t>(pool - cluster.pools.begin());
    if (listed[index]) {
      violations.push_back({"frontier_pool_unique", absl::StrCat(field, ".pool"),
                            absl::StrCat("Pool \"", pool->name, "\" is listed twice.")});
      continue;
    }
    listed[index] = true;
    sizes[index] = NodesFromWire(wire[i], *pool, absl::StrCat(field, ".nodes"), violations);
  }
  if (violations.size() > faults) return sizes;
  const int64_t count = search::CountAllocations(sizes);
  if (count < 1 || count > search::kMaxAllocations) {
    violations.push_back(
        {"frontier_allocations_in_range", "sizes",
         count < 1 ? "No allocation has a node."
                   : absl::StrCat("The sizes of all pools make more than ", search::kMaxAllocations,
                                  " allocations together; list fewer of them.")});
  }
  return sizes;
}

}  // namespace hapmoe::server
