#include "server/planning/layout.h"

#include <cstdint>

#include "absl/strings/str_cat.h"

namespace hapmoe::server {
namespace {

// The pool that holds an accelerator, counted over all pools in order.
int64_t PoolOf(const cluster::Cluster& cluster, int64_t accelerator) {
  int64_t pool = 0;
  while (accelerator >= cluster.pools[pool].accelerators()) {
    accelerator -= cluster.pools[pool].accelerators();
    ++pool;
  }
  return pool;
}

}  // namespace

plan::Plan SplitByPool(const plan::Plan& plan, const cluster::Cluster& cluster,
                       Violations& violations) {
  const plan::Mesh& whole = plan.meshes.front();
  const auto stages = static_cast<int64_t>(whole.stages.size());
  const int64_t ranks = whole.degrees.stage_ranks();
  const bool consecutive = plan.rank_order == plan::RankOrder::kPipelineOutermost;
  plan::Plan split = plan;
  split.meshes.clear();
  for (int64_t stage = 0; stage < stages; ++stage) {
    // With data parallelism outermost a stage has ranks from the first run of ranks to the last.
    const int64_t first_rank = consecutive ? stage * ranks : 0;
    const int64_t last_rank = consecutive ? first_rank + ranks - 1 : stages * ranks - 1;
    const int64_t pool = PoolOf(cluster, first_rank);
    const int64_t last_pool = PoolOf(cluster, last_rank);
    if (pool != last_pool) {
      violations.push_back(
          {"stage_within_pool", "--pipeline-model-parallel-size",
           absl::StrCat("Pipeline stage ", stage, " has ranks ", first_rank, " to ", last_rank,
                        ", which lie on the pools \"", cluster.pools[pool].name, "\" to \"",
                        cluster.pools[last_pool].name, "\"; a stage must lie on one.")});
      if (!consecutive) return plan;  // It is the same for every stage.
    }
    if (split.meshes.empty() || split.meshes.back().pool != pool) {
      plan::Mesh& mesh = split.meshes.emplace_back();
      mesh.pool = pool;
      mesh.degrees = whole.degrees;
    }
    split.meshes.back().stages.push_back(whole.stages[stage]);
  }
  return split;
}

}  // namespace hapmoe::server
