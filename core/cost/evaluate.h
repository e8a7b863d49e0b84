// (job, cluster, profiles, plan) -> seconds and bytes, by simulating the plan's schedule.
#ifndef HAPMOE_CORE_COST_EVALUATE_H_
#define HAPMOE_CORE_COST_EVALUATE_H_

#include "absl/status/statusor.h"
#include "core/cost/prediction.h"
#include "core/cost/problem.h"
#include "core/plan/plan.h"

namespace hapmoe::cost {

// Predicts one iteration of `plan`, which must be valid for the problem. A plan that does not fit
// is predicted all the same; see Prediction::fits().
// INVALID_ARGUMENT: an accelerator of the plan does not support the job's precision.
absl::StatusOr<Prediction> Evaluate(const Problem& problem, const plan::Plan& plan);

}  // namespace hapmoe::cost

#endif  // HAPMOE_CORE_COST_EVALUATE_H_
