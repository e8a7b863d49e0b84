// Builds the answers to a problem that was read: plans with their nodes, predictions and launchers.
#ifndef HAPMOE_SERVER_PLANNING_ANSWER_H_
#define HAPMOE_SERVER_PLANNING_ANSWER_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/search/search.h"
#include "hapmoe/v1/planner.pb.h"
#include "server/errors/errors.h"
#include "server/planning/problem_reader.h"

namespace hapmoe::server {

// Processor and wall time of a call and of the search in it, and the memory that it lacked.
struct CallTimes {
  double search_cpu_seconds = 0;
  double total_cpu_seconds = 0;
  double search_wall_seconds = 0;
  SearchMemory memory;  // Where memory was refused.
};

// Vendors of the pools that a plan uses. Pools that idle do not count.
std::set<std::string> VendorsOf(const ReadProblem& read, const plan::Plan& plan);

// The answer that a search came to. `outcome.best` must be set. Times are left out.
absl::StatusOr<v1::PlanAnswer> BuildAnswer(const ReadProblem& read, const search::Outcome& outcome);

// Adds plans that differ from the answer's in kind, whose plan is `best`.
void AddAlternatives(const ReadProblem& read, const std::vector<search::Costed>& alternatives,
                     const search::Costed& best, v1::PlanAnswer& answer);

// A plan that a running search has found, without artifacts.
absl::StatusOr<v1::PlanAnswer> BuildIncumbent(const ReadProblem& read,
                                              const search::Progress& progress);

// Why a search came to no plan, or to one that nobody waits for.
absl::Status BuildFailure(const search::Outcome& outcome, const CallTimes& times);

// The plan on the wire, with its nodes. The pools of `costed` are those of the problem.
absl::StatusOr<v1::ExecutionPlan> BuildPlan(const ReadProblem& read, const search::Costed& costed);

absl::StatusOr<v1::EvaluateResponse> BuildEvaluation(const ReadLayout& layout,
                                                     const cost::Prediction& prediction);

void SetTimes(const CallTimes& times, v1::SearchStatistics& statistics);

// An error of core's as callers see it. The one that core documents is INVALID_ARGUMENT, for a
// precision that an accelerator does not support.
absl::Status FromCore(const absl::Status& status);

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_PLANNING_ANSWER_H_
