// Builds the answers that are about allocations of a cluster, or about a layout beside the best
// plan.
#ifndef HAPMOE_SERVER_PLANNING_FRONTIER_ANSWER_H_
#define HAPMOE_SERVER_PLANNING_FRONTIER_ANSWER_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/interrupter.h"
#include "core/search/frontier.h"
#include "core/search/objectives.h"
#include "hapmoe/v1/planner.pb.h"
#include "server/planning/answer.h"
#include "server/planning/problem_reader.h"

namespace hapmoe::server {

// The answer of an objective that picks an allocation: the winner's plan, and why. Why there is
// none where `choice` has no winner, or where nobody waits for it. Takes the plans out of `choice`.
absl::StatusOr<v1::PlanAnswer> BuildChoice(const ReadProblem& read, search::Choice& choice,
                                           Interrupter::Cause cause, const CallTimes& times);

// Fails where the time ran out before any allocation was settled.
absl::StatusOr<v1::FrontierResponse> BuildFrontier(const ReadProblem& read,
                                                   const std::vector<search::FrontierPoint>& points,
                                                   Interrupter::Cause cause,
                                                   const CallTimes& times);

// `best`: the answer of the search that came to `costed`.
absl::StatusOr<v1::ExplainResponse> BuildExplanation(const ReadExplanation& read,
                                                     v1::PlanAnswer best,
                                                     const search::Costed& costed);

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_PLANNING_FRONTIER_ANSWER_H_
