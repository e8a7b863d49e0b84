// Which nodes run a plan: node ranks, the ranks that each node starts, and the nodes of each stage.
#ifndef HAPMOE_CORE_PLAN_NODE_ASSIGNMENT_H_
#define HAPMOE_CORE_PLAN_NODE_ASSIGNMENT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/cluster/cluster.h"
#include "core/plan/plan.h"

namespace hapmoe::plan {

// One node that runs processes of the plan, one process for each accelerator that it uses.
struct AssignedNode {
  int64_t node_rank = 0;
  std::string host;           // As the pool names it, or "<pool>-<index>" where it names none.
  int64_t pool = 0;           // Index into the cluster's pools.
  int64_t index_in_pool = 0;  // 0 is the pool's first node.
  int64_t first_rank = 0;     // Ranks of a node are consecutive.
  int64_t processes = 0;      // At most the pool's accelerators_per_node; the others idle.

  friend bool operator==(const AssignedNode&, const AssignedNode&) = default;
};

// Where one pipeline stage runs.
struct StagePlacement {
  int64_t first_rank = 0;
  int64_t ranks = 0;
  bool consecutive = true;          // False: other stages' ranks lie between these.
  std::vector<int64_t> node_ranks;  // Ascending.

  friend bool operator==(const StagePlacement&, const StagePlacement&) = default;
};

struct NodeAssignment {
  std::vector<AssignedNode> nodes;     // In order of node rank.
  std::vector<StagePlacement> stages;  // In pipeline order.
  bool hosts_named = false;            // Every node's host comes from the cluster.
};

// Hands out nodes in pipeline order. Consecutive meshes on one pool share nodes; where a run of
// stages on one pool does not fill its nodes, the rest of its first one idles: which nodes a stage
// is on then follows from the stages behind it alone, as cost::BorderReaches and the search have
// it. A pool that returns later in the pipeline goes on with its next node.
//
// Assumes a plan whose meshes have stages and positive degrees. Fails with InvalidArgument if a
// mesh names no pool of the cluster, or if stages that are not runs of ranks
// (RankOrder::kDataOutermost) are spread over several pools; with FailedPrecondition, naming pool
// and numbers, if a pool has too few nodes. O(nodes + stages * nodes of a stage).
absl::StatusOr<NodeAssignment> AssignNodes(const Plan& plan, const cluster::Cluster& cluster);

// The pipeline stage of a rank (Megatron-LM, megatron/core/parallel_state.py, RankGenerator).
int64_t StageOfRank(const Plan& plan, int64_t rank);

}  // namespace hapmoe::plan

#endif  // HAPMOE_CORE_PLAN_NODE_ASSIGNMENT_H_
