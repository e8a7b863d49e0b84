#include "core/search/allocation.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace hapmoe::search {

bool Allocation::Within(const Allocation& other) const {
  for (size_t pool = 0; pool < nodes.size(); ++pool) {
    if (nodes[pool] > other.nodes[pool]) return false;
  }
  return true;
}

AllocationSizes DoubledSizes(const cluster::Cluster& cluster) {
  AllocationSizes sizes;
  for (const cluster::Pool& pool : cluster.pools) {
    std::vector<int64_t>& of_pool = sizes.emplace_back();
    if (cluster.pools.size() > 1) of_pool.push_back(0);
    for (int64_t nodes = 1; nodes < pool.nodes; nodes *= 2) of_pool.push_back(nodes);
    of_pool.push_back(pool.nodes);
  }
  return sizes;
}

AllocationSizes FinestSizes(const cluster::Cluster& cluster, int64_t most) {
  int64_t count = 1;
  for (const cluster::Pool& pool : cluster.pools) {
    if (pool.nodes >= most || count > most + 1) return DoubledSizes(cluster);
    count *= pool.nodes + 1;
  }
  if (count - 1 > most) return DoubledSizes(cluster);
  AllocationSizes sizes;
  for (const cluster::Pool& pool : cluster.pools) {
    std::vector<int64_t>& of_pool = sizes.emplace_back();
    for (int64_t nodes = cluster.pools.size() > 1 ? 0 : 1; nodes <= pool.nodes; ++nodes) {
      of_pool.push_back(nodes);
    }
  }
  return sizes;
}

int64_t CountAllocations(const AllocationSizes& sizes) {
  int64_t count = 1;
  bool empty = true;  // Whether the empty allocation is among them.
  for (const std::vector<int64_t>& of_pool : sizes) {
    empty = empty && std::find(of_pool.begin(), of_pool.end(), 0) != of_pool.end();
    const auto size = static_cast<int64_t>(of_pool.size());
    count *= std::min(size, kMaxAllocations + 2);
    count = std::min(count, kMaxAllocations + 2);
  }
  return count - (empty ? 1 : 0);
}

std::vector<Allocation> AllocationsOf(const AllocationSizes& sizes) {
  std::vector<Allocation> allocations = {{}};
  for (const std::vector<int64_t>& of_pool : sizes) {
    std::vector<Allocation> longer;
    longer.reserve(allocations.size() * of_pool.size());
    for (const Allocation& allocation : allocations) {
      for (const int64_t nodes : of_pool) {
        longer.push_back(allocation);
        longer.back().nodes.push_back(nodes);
      }
    }
    allocations = std::move(longer);
  }
  std::erase_if(allocations, [](const Allocation& allocation) {
    return std::all_of(allocation.nodes.begin(), allocation.nodes.end(),
                       [](int64_t nodes) { return nodes == 0; });
  });
  return allocations;
}

int64_t AcceleratorsOf(const cluster::Cluster& cluster, const Allocation& allocation) {
  int64_t sum = 0;
  for (size_t pool = 0; pool < cluster.pools.size(); ++pool) {
    sum += allocation.nodes[pool] * cluster.pools[pool].accelerators_per_node;
  }
  return sum;
}

std::string AllocationText(const cluster::Cluster& cluster, const Allocation& allocation) {
  std::vector<std::string> parts;
  for (size_t pool = 0; pool < cluster.pools.size(); ++pool) {
    const int64_t nodes = allocation.nodes[pool];
    if (nodes == 0) continue;
    parts.push_back(
        absl::StrCat(cluster.pools[pool].name, " ", nodes, nodes == 1 ? " node" : " nodes"));
  }
  return absl::StrJoin(parts, ", ");
}

SearchRequest Cut(const SearchRequest& request, const Allocation& allocation) {
  SearchRequest cut = request;
  const cluster::Cluster& whole = request.problem.cluster;
  cut.problem.cluster = {};
  cut.problem.profiles.clear();
  std::vector<int64_t> place(whole.pools.size(), -1);  // Of a pool among those that are left.
  for (size_t pool = 0; pool < whole.pools.size(); ++pool) {
    const int64_t nodes = allocation.nodes[pool];
    if (nodes == 0) continue;
    place[pool] = static_cast<int64_t>(cut.problem.cluster.pools.size());
    cluster::Pool& kept = cut.problem.cluster.pools.emplace_back(whole.pools[pool]);
    kept.nodes = nodes;
    if (!kept.hosts.empty()) kept.hosts.resize(static_cast<size_t>(nodes));
    cut.problem.profiles.push_back(request.problem.profiles[pool]);
  }
  for (cluster::Link link : whole.links) {
    link.first_pool = place[static_cast<size_t>(link.first_pool)];
    link.second_pool = place[static_cast<size_t>(link.second_pool)];
    if (link.first_pool >= 0 && link.second_pool >= 0) cut.problem.cluster.links.push_back(link);
  }
  return cut;
}

Outcome OnWholeCluster(const Allocation& allocation, Outcome outcome) {
  std::vector<int64_t> pools;  // Of the whole cluster, by their place in the cut one.
  for (size_t pool = 0; pool < allocation.nodes.size(); ++pool) {
    if (allocation.nodes[pool] > 0) pools.push_back(static_cast<int64_t>(pool));
  }
  for (std::optional<Costed>* costed : {&outcome.best, &outcome.uniform}) {
    if (!costed->has_value()) continue;
    for (plan::Mesh& mesh : (*costed)->plan.meshes) {
      mesh.pool = pools[static_cast<size_t>(mesh.pool)];
    }
  }
  return outcome;
}

}  // namespace hapmoe::search
