// The dynamic program: the pipelines of one candidate with the least bound, over all ways to split
// layers, to place stages on pools and to recompute.
#ifndef HAPMOE_CORE_SEARCH_PIPELINE_DP_H_
#define HAPMOE_CORE_SEARCH_PIPELINE_DP_H_

#include <cstdint>
#include <vector>

#include "core/base/interrupter.h"
#include "core/cost/mesh_cost.h"
#include "core/cost/problem.h"
#include "core/plan/plan.h"
#include "core/search/search.h"
#include "core/search/space.h"
#include "core/search/stage_choice.h"

namespace hapmoe::search {

// What the program works on. Nothing is owned.
struct PipelineProblem {
  const cost::Problem* problem = nullptr;
  const Candidate* candidate = nullptr;
  const Constraints* constraints = nullptr;
  // One for each pool.
  const std::vector<const cost::MeshCost*>* costs = nullptr;
  const std::vector<StageChoices*>* choices = nullptr;
  // Seconds that a stage of pool a needs to send one micro-batch to a stage of pool b: [a][b].
  const std::vector<std::vector<double>>* send_seconds = nullptr;
  // Forward and backward of one layer at least, by pool: bounds what is still to be placed.
  const std::vector<double>* layer_seconds = nullptr;
};

// A complete pipeline and the least time that it can take.
struct BoundedPlan {
  double lower_bound_seconds = 0;
  plan::Plan plan;
};

struct PipelineResult {
  // Best first: the plans whose bound is below the limit, at most max_finalists of them. No plan of
  // the candidate that fits has a bound below the first one's.
  std::vector<BoundedPlan> plans;
  int64_t labels = 0;
  bool interrupted = false;
  bool too_large = false;  // Not searched: see kMaxCells.
};

// Placements times layers that the dynamic program keeps in memory at most; candidates on many
// pools of many small stages have more, and are left to GreedyPlan.
inline constexpr int64_t kMaxCells = 20'000'000;

// Builds pipelines from the last stage backwards. A stage at distance e from the end holds
// min(e + 1, micro-batches) in flight whatever the pipeline's length, so its recomputation and its
// own time depend on nothing that is added later (see bound.h). State: stages used of each pool,
// layers covered from the end, pool of the front stage; labels: the bounds of bound.h, of which
// none is worse in everything. Only pipelines whose bound is below `limit_seconds` are kept.
PipelineResult SolvePipelines(const PipelineProblem& problem, double limit_seconds,
                              const Interrupter& interrupter);

// The least number of bytes by which the fullest stage of any pipeline of the candidate exceeds its
// budget, and that stage; 0 where something fits. Infinite where no pipeline is possible at all,
// and where there are too many to try (kMaxCells).
struct Shortage {
  double bytes = 0;
  int64_t stage = 0;
  int64_t stages = 0;
  int64_t pool = 0;
  model::Recompute recompute;
  bool host_binds = false;  // The host lacks them, not the accelerator.
};
Shortage LeastShortage(const PipelineProblem& problem);

}  // namespace hapmoe::search

#endif  // HAPMOE_CORE_SEARCH_PIPELINE_DP_H_
