#include "core/plan/node_assignment.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace hapmoe::plan {
namespace {

// Consecutive stages on one pool.
struct Run {
  int64_t pool = 0;
  int64_t ranks = 0;
};

absl::StatusOr<std::vector<Run>> RunsOnPools(const Plan& plan, const cluster::Cluster& cluster) {
  std::vector<Run> runs;
  for (size_t i = 0; i < plan.meshes.size(); ++i) {
    const Mesh& mesh = plan.meshes[i];
    if (mesh.pool < 0 || mesh.pool >= static_cast<int64_t>(cluster.pools.size())) {
      return absl::InvalidArgumentError(absl::StrCat("Mesh ", i, " is on pool ", mesh.pool,
                                                     ", but the cluster has ", cluster.pools.size(),
                                                     " pools."));
    }
    if (cluster.pools[mesh.pool].accelerators_per_node < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("Nodes of pool ", mesh.pool, " hold no accelerators."));
    }
    const Degrees& degrees = mesh.degrees;
    if (mesh.stages.empty() || std::min({degrees.tp, degrees.cp, degrees.dp}) < 1) {
      return absl::InvalidArgumentError(absl::StrCat("Mesh ", i, " has no ranks."));
    }
    if (runs.empty() || runs.back().pool != mesh.pool) runs.push_back({mesh.pool, 0});
    // Degrees may be anything: their product is taken only where the pool has as many.
    const int64_t accelerators = cluster.pools[mesh.pool].accelerators();
    const std::optional<int64_t> ranks = mesh.ranks_within(accelerators - runs.back().ranks);
    if (!ranks.has_value()) {
      return absl::FailedPreconditionError(absl::StrCat("The plan needs more than the ",
                                                        accelerators, " accelerators of pool \"",
                                                        cluster.pools[mesh.pool].name, "\"."));
    }
    runs.back().ranks += *ranks;
  }
  if (runs.empty()) return absl::InvalidArgumentError("The plan has no meshes.");
  if (plan.rank_order == RankOrder::kDataOutermost && runs.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "With --use-tp-pp-dp-mapping every node hosts all stages in turn, so the stages cannot be "
        "placed on ",
        runs.size(), " pools."));
  }
  return runs;
}

// A name for a node that the cluster counts and does not name. Characters that no host name holds
// become '-'.
std::string DerivedHost(const cluster::Pool& pool, int64_t index) {
  std::string host = absl::StrCat(pool.name, "-", index);
  for (char& c : host) {
    if (!absl::ascii_isalnum(c) && c != '.' && c != '_') c = '-';
  }
  return host;
}

void PlaceStages(const Plan& plan, NodeAssignment& assignment) {
  const std::vector<AssignedNode>& nodes = assignment.nodes;
  if (plan.rank_order == RankOrder::kDataOutermost) {
    const Degrees& degrees = plan.meshes.front().degrees;
    const int64_t block = degrees.tp * degrees.cp;
    const int64_t stages = plan.pipeline_stages();
    for (int64_t stage = 0; stage < stages; ++stage) {
      StagePlacement placement{stage * block, degrees.stage_ranks(), degrees.dp == 1, {}};
      for (const AssignedNode& node : nodes) {
        for (int64_t i = 0; i < node.processes; ++i) {
          if (StageOfRank(plan, node.first_rank + i) != stage) continue;
          placement.node_ranks.push_back(node.node_rank);
          break;
        }
      }
      assignment.stages.push_back(std::move(placement));
    }
    return;
  }
  int64_t first_rank = 0;
  size_t node = 0;
  for (const Mesh& mesh : plan.meshes) {
    for (size_t i = 0; i < mesh.stages.size(); ++i) {
      StagePlacement placement{first_rank, mesh.degrees.stage_ranks(), true, {}};
      first_rank += placement.ranks;
      while (nodes[node].first_rank + nodes[node].processes <= placement.first_rank) ++node;
      for (size_t k = node; k < nodes.size() && nodes[k].first_rank < first_rank; ++k) {
        placement.node_ranks.push_back(nodes[k].node_rank);
      }
      assignment.stages.push_back(std::move(placement));
    }
  }
}

}  // namespace

absl::StatusOr<NodeAssignment> AssignNodes(const Plan& plan, const cluster::Cluster& cluster) {
  HAPMOE_ASSIGN_OR_RETURN(const std::vector<Run> runs, RunsOnPools(plan, cluster));
  // Nodes that each pool has to give, before any are made: a plan may ask for far too many.
  std::vector<int64_t> wanted(cluster.pools.size(), 0);
  for (const Run& run : runs) {
    const int64_t per_node = cluster.pools[run.pool].accelerators_per_node;
    wanted[run.pool] += (run.ranks - 1) / per_node + 1;
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    const cluster::Pool& pool = cluster.pools[i];
    if (wanted[i] > pool.nodes) {
      return absl::FailedPreconditionError(absl::StrCat(
          "The plan needs ", wanted[i], " nodes of pool \"", pool.name, "\" with ",
          pool.accelerators_per_node, " accelerators each, and it has ", pool.nodes, "."));
    }
    if (!pool.hosts.empty() && static_cast<int64_t>(pool.hosts.size()) < wanted[i]) {
      return absl::FailedPreconditionError(
          absl::StrCat("The plan needs ", wanted[i], " nodes of pool \"", pool.name,
                       "\", and it names ", pool.hosts.size(), " hosts."));
    }
  }

  NodeAssignment assignment;
  assignment.hosts_named = true;
  std::vector<int64_t> used(cluster.pools.size(), 0);
  int64_t rank = 0;
  for (const Run& run : runs) {
    const cluster::Pool& pool = cluster.pools[run.pool];
    const int64_t first = (run.ranks - 1) % pool.accelerators_per_node + 1;
    for (int64_t left = run.ranks; left > 0;) {
      AssignedNode node;
      node.node_rank = static_cast<int64_t>(assignment.nodes.size());
      node.pool = run.pool;
      node.index_in_pool = used[run.pool]++;
      node.host = pool.hosts.empty() ? DerivedHost(pool, node.index_in_pool)
                                     : pool.hosts[node.index_in_pool];
      node.first_rank = rank;
      node.processes = left == run.ranks ? first : pool.accelerators_per_node;
      assignment.hosts_named &= !pool.hosts.empty();
      rank += node.processes;
      left -= node.processes;
      assignment.nodes.push_back(std::move(node));
    }
  }
  PlaceStages(plan, assignment);
  return assignment;
}

int64_t StageOfRank(const Plan& plan, int64_t rank) {
  if (plan.rank_order == RankOrder::kDataOutermost) {
    const Degrees& degrees = plan.meshes.front().degrees;
    return rank / (degrees.tp * degrees.cp) % plan.pipeline_stages();
  }
  int64_t stage = 0;
  int64_t first_rank = 0;
  for (const Mesh& mesh : plan.meshes) {
    const int64_t stages = static_cast<int64_t>(mesh.stages.size());
    const int64_t ranks = mesh.degrees.stage_ranks() * stages;
    if (rank < first_rank + ranks) return stage + (rank - first_rank) / mesh.degrees.stage_ranks();
    stage += stages;
    first_rank += ranks;
  }
  return stage;
}

}  // namespace hapmoe::plan
