// Parts of a cluster that a job may be given: the first nodes of each pool.
#ifndef HAPMOE_CORE_SEARCH_ALLOCATION_H_
#define HAPMOE_CORE_SEARCH_ALLOCATION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/cluster/cluster.h"
#include "core/search/search.h"

namespace hapmoe::search {

// Nodes taken of each pool, in the order of the cluster's pools; 0 leaves a pool out.
struct Allocation {
  std::vector<int64_t> nodes;

  // Whether `other` has at least as many nodes of every pool.
  bool Within(const Allocation& other) const;
  friend bool operator==(const Allocation&, const Allocation&) = default;
};

// Numbers of nodes to try, for each pool; ascending, without repetition.
using AllocationSizes = std::vector<std::vector<int64_t>>;

// More allocations than this are refused: each costs a search.
inline constexpr int64_t kMaxAllocations = 256;

// 1, 2, 4 ... nodes and all nodes of each pool; and none, where there are several pools.
AllocationSizes DoubledSizes(const cluster::Cluster& cluster);

// Every number of nodes where that makes no more than `most` allocations, at most kMaxAllocations;
// else 1, r, r^2 ... and all, and none where there are several pools, for the least r of 2, 4, 8
// ... that makes no more. Where even that makes more, all nodes of a pool or none.
AllocationSizes FinestSizes(const cluster::Cluster& cluster, int64_t most);

// Number of allocations of these sizes, the empty one not counted; at most kMaxAllocations + 1.
int64_t CountAllocations(const AllocationSizes& sizes);

// All of them, the sizes of the last pool changing fastest. There are kMaxAllocations at most.
std::vector<Allocation> AllocationsOf(const AllocationSizes& sizes);

int64_t AcceleratorsOf(const cluster::Cluster& cluster, const Allocation& allocation);

// "h800 4 nodes, a100 1 node".
std::string AllocationText(const cluster::Cluster& cluster, const Allocation& allocation);

// The same question on the allocation alone: pools without nodes are gone, and so are their links;
// of named hosts the first are kept. The allocation must not be empty.
SearchRequest Cut(const SearchRequest& request, const Allocation& allocation);

// An outcome of the cut request in terms of the whole cluster, whose other nodes idle.
Outcome OnWholeCluster(const Allocation& allocation, Outcome outcome);

}  // namespace hapmoe::search

#endif  // HAPMOE_CORE_SEARCH_ALLOCATION_H_
