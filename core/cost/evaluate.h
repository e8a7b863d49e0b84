// (job, cluster, profiles, plan) -> seconds and bytes, by simulating the plan's schedule.
#ifndef HAPMOE_CORE_COST_EVALUATE_H_
#define HAPMOE_CORE_COST_EVALUATE_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/cost/mesh_cost.h"
#include "core/cost/prediction.h"
#include "core/cost/problem.h"
#include "core/cost/schedule.h"
#include "core/plan/plan.h"

namespace hapmoe::cost {

// Predicts one iteration of `plan`, which must be valid for the problem. A plan that does not fit
// is predicted all the same; see Prediction::fits().
// INVALID_ARGUMENT: an accelerator of the plan does not support the job's precision.
absl::StatusOr<Prediction> Evaluate(const Problem& problem, const plan::Plan& plan);

// The same with costs at hand, one for each stage of the plan, and support for the precision
// checked.
Prediction Predict(const Problem& problem, const plan::Plan& plan,
                   const std::vector<const MeshCost*>& stage_costs);

// How the engine schedules the passes of a plan.
ScheduleOptions ScheduleOptionsOf(const Problem& problem, const plan::Plan& plan);

// INVALID_ARGUMENT: the pool's accelerator does not support the job's precision.
absl::Status CheckPrecision(const Problem& problem, int64_t pool);

// Micro-batches whose activations a stage holds at its peak: what 1F1B or its interleaved form
// keeps in flight. `group`: consecutive micro-batches of one virtual stage.
double InFlightMicroBatches(int64_t stage, int64_t stages, int64_t virtual_stages, int64_t group,
                            int64_t micro_batches);

}  // namespace hapmoe::cost

#endif  // HAPMOE_CORE_COST_EVALUATE_H_
