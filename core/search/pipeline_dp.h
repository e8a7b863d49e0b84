// The dynamic program: the pipelines of one candidate with the least bound, over all ways to split
// layers, to place stages on pools and to recompute.
#ifndef HAPMOE_CORE_SEARCH_PIPELINE_DP_H_
#define HAPMOE_CORE_SEARCH_PIPELINE_DP_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/interrupter.h"
#include "core/cost/mesh_cost.h"
#include "core/cost/problem.h"
#include "core/plan/plan.h"
#include "core/search/by_place.h"
#include "core/search/port_sends.h"
#include "core/search/search.h"
#include "core/search/space.h"
#include "core/search/stage_choice.h"
#include "core/search/used_units.h"

namespace hapmoe::search {

// What the program works on. Nothing is owned.
struct PipelineProblem {
  const cost::Problem* problem = nullptr;
  const Candidate* candidate = nullptr;
  const Constraints* constraints = nullptr;
  const std::vector<Port>* ports = nullptr;
  // Of each kind of stage.
  const std::vector<ByPlace<std::unique_ptr<StageChoices>>>* choices = nullptr;
  const PortSends* sends = nullptr;
  // Forward and backward of one layer at least, by kind: bounds what is still to be placed.
  const std::vector<double>* layer_seconds = nullptr;
  MemoryMeter* memory = nullptr;  // As in SearchRequest.
};

// Seconds of the fastest layer on a port.
double FastestLayer(const PipelineProblem& problem, const Port& port);

// A complete pipeline and the least time that it can take.
struct BoundedPlan {
  double lower_bound_seconds = 0;
  plan::Plan plan;
};

enum class Sweep {
  kBest,  // Keeps what no other run of stages beats in everything.
  kAll,   // Keeps every run whose bound is below the limit.
};

struct PipelineResult {
  // Best first. kBest: at most max_finalists plans whose bound is below the limit, and no plan of
  // the candidate that fits has a bound below the first one's. kAll: all of them.
  std::vector<BoundedPlan> plans;
  int64_t labels = 0;
  // Not searched: the stages do not hold the layers below the limit, with any number of virtual
  // stages.
  bool beyond_capacity = false;
  bool interrupted = false;
  bool contiguous = false;  // Searched only where pools are used up one after the other.
  bool too_large = false;   // Not searched, or not to the end: see the limits below.
  MemoryCharge charge;      // Of the plans.
};

// Places of labels, and states, that the dynamic program keeps in memory at most; candidates on
// many pools of many small stages have more.
inline constexpr int64_t kMaxCells = 16'000'000;
inline constexpr int64_t kMaxStates = 400'000;
// Labels that it keeps at most.
inline constexpr int64_t kMaxLabels = 4'000'000;

// Builds pipelines from the last stage backwards. A stage at distance e from the end holds
// min(e + 1, micro-batches) in flight whatever the pipeline's length, so its recomputation and its
// own time depend on nothing that is added later (see bound.h). State: units used of each pool,
// layers covered from the end, port of the front stage and what it sends to the stage before it;
// with virtual stages also how many layers come before the front stage's first chunk, as far as
// that matters. Labels: the bounds of bound.h. Only pipelines whose bound is below `limit_seconds`
// are kept.
PipelineResult SolvePipelines(const PipelineProblem& problem, double limit_seconds, Sweep sweep,
                              const Interrupter& interrupter);

}  // namespace hapmoe::search

#endif  // HAPMOE_CORE_SEARCH_PIPELINE_DP_H_
