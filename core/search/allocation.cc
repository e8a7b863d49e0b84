#include "core/search/allocation.h"

#include <algorithm>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace hapmoe::search {
namespace {

constexpr int64_t kMostSpacing = 1 << 16;  // No pool has more nodes.

// 1 and what `next` makes of it, below the pool's nodes; all of them; and none beside other pools.
AllocationSizes SpacedSizes(const cluster::Cluster& cluster,
                            absl::FunctionRef<int64_t(int64_t)> next) {
  AllocationSizes sizes;
  for (const cluster::Pool& pool : cluster.pools) {
    std::vector<int64_t>& of_pool = sizes.emplace_back();
    if (cluster.pools.size() > 1) of_pool.push_back(0);
    for (int64_t nodes = 1; nodes < pool.nodes; nodes = next(nodes)) of_pool.push_back(nodes);
    of_pool.push_back(pool.nodes);
  }
  return sizes;
}

}  // namespace

bool Allocation::Within(const Allocation& other) const {
  for (size_t pool = 0; pool < nodes.size(); ++pool) {
    if (nodes[pool] > other.nodes[pool]) return false;
  }
  return true;
}

AllocationSizes DoubledSizes(const cluster::Cluster& cluster) {
  return SpacedSizes(cluster, [](int64_t nodes) { return 2 * nodes; });
}

AllocationSizes FinestSizes(const cluster::Cluster& cluster, int64_t most) {
  const bool few = std::all_of(cluster.pools.begin(), cluster.pools.end(),
                               [most](const cluster::Pool& pool) { return pool.nodes <= most; });
  if (few) {
    AllocationSizes every = SpacedSizes(cluster, [](int64_t nodes) { return nodes + 1; });
    if (CountAllocations(every) <= most) return every;
  }
  for (int64_t ratio = 2; ratio <= kMostSpacing; ratio *= 2) {
    AllocationSizes sizes = SpacedSizes(cluster, [=](int64_t nodes) { return ratio * nodes; });
    if (CountAllocations(sizes) <= most) return sizes;
  }
  AllocationSizes whole;
  for (const cluster::Pool& pool : cluster.pools) whole.push_back({0, pool.nodes});
  return whole;
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
  const auto rename = [&](plan::Plan& plan) {
    for (plan::Mesh& mesh : plan.meshes) mesh.pool = pools[static_cast<size_t>(mesh.pool)];
  };
  if (outcome.best.has_value()) rename(outcome.best->plan);
  if (outcome.uniform.has_value()) rename(outcome.uniform->plan);
  for (Costed& alternative : outcome.alternatives) rename(alternative.plan);
  return outcome;
}

}  // namespace hapmoe::search
