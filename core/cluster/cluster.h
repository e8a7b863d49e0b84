// What a job runs on: pools of nodes, and the links between pools.
#ifndef HAPMOE_CORE_CLUSTER_CLUSTER_H_
#define HAPMOE_CORE_CLUSTER_CLUSTER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/violation.h"

namespace hapmoe::cluster {

// One way across a network, as one accelerator sees it. An absent figure is the profile's.
struct Network {
  std::optional<double> bytes_per_second;  // One direction.
  std::optional<double> latency_seconds;
};

// Nodes that hold the same number of accelerators of one type.
struct Pool {
  std::string name;
  std::string accelerator;  // Name or alias of a profile.
  int64_t nodes = 0;
  std::vector<std::string> hosts;  // Empty, or one for each node.
  int64_t accelerators_per_node = 8;
  // Indices of its accelerators on every host; empty for 0, 1, ... A host may stand in several
  // pools that all say theirs.
  std::vector<int64_t> devices = {};
  Network network;
  std::optional<double> host_memory_bytes;  // Of one node, for training. Absent: not checked.
  std::optional<double> price_per_accelerator_hour;  // In whatever currency all pools use.

  int64_t accelerators() const { return nodes * accelerators_per_node; }
};

// The link between two pools, as one accelerator of either side sees it.
struct Link {
  int64_t first_pool = 0;
  int64_t second_pool = 0;
  Network network;
};

struct Cluster {
  std::vector<Pool> pools;
  std::vector<Link> links;

  int64_t accelerators() const {
    int64_t sum = 0;
    for (const Pool& pool : pools) sum += pool.accelerators();
    return sum;
  }
};

// Every fault of a cluster: no pools, names that are empty or used twice, sizes out of range, links
// that name one pool twice or are listed twice, hosts used twice without devices, devices that do
// not match. Fields are paths as in
// "cluster.pools[1].nodes".
Violations Validate(const Cluster& cluster);

}  // namespace hapmoe::cluster

#endif  // HAPMOE_CORE_CLUSTER_CLUSTER_H_
