#include "core/engine/schedulers/node_groups.h"

namespace hapmoe::engine {

std::vector<NodeGroup> NodeGroups(const plan::NodeAssignment& nodes) {
  std::vector<NodeGroup> groups;
  for (const plan::AssignedNode& node : nodes.nodes) {
    if (groups.empty() || groups.back().pool != node.pool) {
      groups.push_back({node.pool, node.node_rank, {}});
    }
    groups.back().hosts.push_back(node.host);
  }
  return groups;
}

}  // namespace hapmoe::engine
