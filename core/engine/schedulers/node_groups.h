// Nodes of a plan as schedulers ask for them: runs of nodes of one pool.
#ifndef HAPMOE_CORE_ENGINE_SCHEDULERS_NODE_GROUPS_H_
#define HAPMOE_CORE_ENGINE_SCHEDULERS_NODE_GROUPS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/plan/node_assignment.h"

namespace hapmoe::engine {

// Consecutive node ranks on one pool. A pool to which the pipeline returns has several.
struct NodeGroup {
  int64_t pool = 0;  // Index into the cluster's pools.
  int64_t first_node_rank = 0;
  std::vector<std::string> hosts;  // One for each node, in order of node rank.

  int64_t nodes() const { return static_cast<int64_t>(hosts.size()); }
};

// In order of node rank; every node of the plan is in one.
std::vector<NodeGroup> NodeGroups(const plan::NodeAssignment& nodes);

}  // namespace hapmoe::engine

#endif  // HAPMOE_CORE_ENGINE_SCHEDULERS_NODE_GROUPS_H_
