// Turns core structs into response messages. Nowhere else does core meet a wire message.
#ifndef HAPMOE_SERVER_WIRE_TO_WIRE_H_
#define HAPMOE_SERVER_WIRE_TO_WIRE_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/cost/coverage.h"
#include "core/cost/prediction.h"
#include "core/cost/problem.h"
#include "core/engine/megatron_launcher.h"
#include "core/plan/node_assignment.h"
#include "core/plan/plan.h"
#include "core/search/frontier.h"
#include "core/search/infeasibility.h"
#include "core/search/objectives.h"
#include "core/search/search.h"
#include "hapmoe/v1/plan.pb.h"
#include "hapmoe/v1/planner.pb.h"

namespace hapmoe::server {

// A plan with its nodes and what is predicted for each of its stages. `prediction` and `nodes` are
// those of `plan`. Sets plan_id.
v1::ExecutionPlan PlanToWire(const plan::Plan& plan, const cost::Prediction& prediction,
                             const plan::NodeAssignment& nodes, const cost::Problem& problem,
                             absl::string_view engine_requirement);

v1::Prediction PredictionToWire(const cost::Prediction& prediction);

google::protobuf::RepeatedPtrField<v1::OperationCoverage> CoverageToWire(
    const std::vector<cost::OperationCoverage>& coverage);

// `iteration_seconds` is that of the plan that the search answers. Processor times are left out.
v1::Termination TerminationToWire(const search::Termination& termination, double iteration_seconds);

v1::Termination::Limit LimitToWire(search::Limit limit);

// Counts of a search alone. Processor times are left out.
v1::SearchStatistics StatisticsToWire(const search::Statistics& statistics);

v1::Progress ProgressToWire(const search::Progress& progress, double best_iteration_seconds);

// The pools of an allocation that have nodes in it.
google::protobuf::RepeatedPtrField<v1::PoolNodes> AllocationToWire(
    const cluster::Cluster& cluster, const search::Allocation& allocation);

// What one allocation gives, its plan left out.
v1::FrontierPoint FrontierPointToWire(const cluster::Cluster& cluster,
                                      const search::FrontierPoint& point);

v1::Objective::Kind ObjectiveKindToWire(search::Objective::Kind kind);

// The changes that would be enough; empty where none was found.
v1::SuggestedChanges SuggestedChangesToWire(const search::Infeasibility& infeasibility);

v1::Artifact ArtifactToWire(engine::Artifact artifact);

// 128 bits of FNV-1a over the plan, plan_id left out, in hexadecimal digits. The same plan has the
// same digest on every machine and in every version that adds no field to it.
std::string PlanDigest(const v1::ExecutionPlan& plan);

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_WIRE_TO_WIRE_H_
