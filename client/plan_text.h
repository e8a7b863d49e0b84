// A layout and its predicted cost as text for engineers.
#ifndef HAPMOE_CLIENT_PLAN_TEXT_H_
#define HAPMOE_CLIENT_PLAN_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "hapmoe/v1/plan.pb.h"
#include "hapmoe/v1/planner.pb.h"

namespace hapmoe::client {

// "tp 1, cp 1, dp 8, ep 8, etp 1, pp 6", and "vp 2" where ranks hold virtual stages; a mesh at a
// time where meshes differ.
std::string DegreesText(const v1::ExecutionPlan& plan);

// The number of layers of each stage: "5 5 6 6 5 5".
std::string LayersText(const v1::ExecutionPlan& plan);

// Headline, degrees, and the table of stages.
std::string PlanText(const v1::ExecutionPlan& plan);

// When a rank holds most, "the loss"; empty where the answer does not say.
std::string MomentText(v1::PeakMoment moment);

// Which nodes have which rank, a pool at a time.
std::string NodesText(const v1::ExecutionPlan& plan);

// Iteration time and where it goes, memory of the fullest stage and what holds it, what the numbers
// rest on and assume. `plan` is the plan that `prediction` is about.
std::string PredictionText(const v1::ExecutionPlan& plan, const v1::Prediction& prediction);

// A sentence for each stage that does not fit its budget, one a line.
std::string MisfitText(const v1::ExecutionPlan& plan);

// Why a search that is not known to be optimal ended, as the end of a sentence: "; the time ran
// out".
absl::string_view LimitText(v1::Termination::Limit limit);

}  // namespace hapmoe::client

#endif  // HAPMOE_CLIENT_PLAN_TEXT_H_
