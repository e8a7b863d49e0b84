#include "server/planning/frontier_answer.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "core/cost/evaluate.h"
#include "core/search/explain.h"
#include "server/errors/errors.h"
#include "server/wire/to_wire.h"

namespace hapmoe::server {
namespace {

// Counts of all searches together.
search::Statistics Sum(const std::vector<search::FrontierPoint>& points) {
  search::Statistics sum;
  for (const search::FrontierPoint& point : points) {
    if (!point.outcome.has_value()) continue;
    const search::Statistics& one = point.outcome->termination.statistics;
    sum.candidates += one.candidates;
    sum.candidates_opened += one.candidates_opened;
    sum.plans_simulated += one.plans_simulated;
    sum.labels += one.labels;
    for (const auto& [rule, count] : one.pruned) sum.pruned[rule] += count;
  }
  return sum;
}

// An outcome without a plan that says why, for BuildFailure.
search::Outcome NoPlan(const std::vector<search::FrontierPoint>& points, Interrupter::Cause cause) {
  search::Outcome outcome;
  outcome.termination.limit = search::LimitOf(cause);
  outcome.termination.statistics = Sum(points);
  return outcome;
}

// Which numbers of nodes were tried, of the pools where that was not every one.
std::vector<std::string> RestrictionsOf(const ReadProblem& read) {
  const cluster::Cluster& cluster = read.problem.cluster;
  std::vector<std::string> restrictions;
  for (size_t i = 0; i < cluster.pools.size(); ++i) {
    std::set<int64_t> tried = {0};
    for (const search::Allocation& allocation : read.allocations) tried.insert(allocation.nodes[i]);
    if (static_cast<int64_t>(tried.size()) > cluster.pools[i].nodes) continue;
    tried.erase(0);
    restrictions.push_back(absl::StrCat("allocations have ", absl::StrJoin(tried, ", "),
                                        " nodes of pool ", cluster.pools[i].name,
                                        cluster.pools.size() > 1 ? ", or none" : ""));
  }
  return restrictions;
}

}  // namespace

absl::StatusOr<v1::PlanAnswer> BuildChoice(const ReadProblem& read, search::Choice& choice,
                                           Interrupter::Cause cause, const CallTimes& times) {
  if (cause == Interrupter::Cause::kCancelled || !choice.winner.has_value()) {
    search::Outcome none = NoPlan(choice.points, cause);
    if (cause != Interrupter::Cause::kCancelled) none.infeasibility = choice.infeasibility;
    return BuildFailure(none, times);
  }
  v1::AllocationChoice wire;
  wire.set_kind(ObjectiveKindToWire(read.objective.kind));
  search::FrontierPoint& winner = choice.points[*choice.winner];
  const cluster::Cluster& cluster = read.problem.cluster;
  *wire.mutable_allocation() = AllocationToWire(cluster, winner.allocation);
  wire.set_why(choice.why);
  wire.set_proven(choice.proven);
  search::MarkParetoFront(choice.points);
  for (const search::FrontierPoint& point : choice.points) {
    *wire.add_points() = FrontierPointToWire(cluster, point);
  }
  if (cause != Interrupter::Cause::kNone) {
    winner.outcome->termination.limit = search::LimitOf(cause);  // Of the whole call.
  }
  for (std::string& restriction : RestrictionsOf(read)) {
    winner.outcome->termination.restrictions.push_back(std::move(restriction));
  }
  HAPMOE_ASSIGN_OR_RETURN(v1::PlanAnswer answer, BuildAnswer(read, *winner.outcome));
  *answer.mutable_choice() = std::move(wire);
  SetTimes(times, *answer.mutable_termination()->mutable_statistics());
  return answer;
}

absl::StatusOr<v1::FrontierResponse> BuildFrontier(const ReadProblem& read,
                                                   const std::vector<search::FrontierPoint>& points,
                                                   Interrupter::Cause cause,
                                                   const CallTimes& times) {
  const bool told = std::any_of(
      points.begin(), points.end(),
      [](const search::FrontierPoint& point) { return point.settled || point.planned(); });
  if (cause == Interrupter::Cause::kCancelled || !told) {
    return BuildFailure(NoPlan(points, cause), times);
  }
  v1::FrontierResponse response;
  for (const search::FrontierPoint& point : points) {
    v1::FrontierPoint* to = response.add_points();
    *to = FrontierPointToWire(read.problem.cluster, point);
    if (!point.planned()) continue;
    HAPMOE_ASSIGN_OR_RETURN(*to->mutable_plan(), BuildPlan(read, point.best()));
  }
  response.set_limit(LimitToWire(search::LimitOf(cause)));
  *response.mutable_statistics() = StatisticsToWire(Sum(points));
  SetTimes(times, *response.mutable_statistics());
  return response;
}

absl::StatusOr<v1::ExplainResponse> BuildExplanation(const ReadExplanation& read,
                                                     v1::PlanAnswer best,
                                                     const search::Costed& costed) {
  v1::ExplainResponse response;
  *response.mutable_best() = std::move(best);
  if (!read.layout.has_value()) {
    for (const Violation& violation : read.layout_faults) {
      v1::LayoutFault* fault = response.add_layout_faults();
      fault->set_rule(violation.rule);
      fault->set_field(violation.field);
      fault->set_description(violation.message);
      response.add_sentences(absl::StrCat("The layout is not valid: ", violation.message));
    }
    return response;
  }
  search::Costed given;
  given.plan = read.layout->plan;
  const cost::Problem& problem = read.layout->problem.problem;
  absl::StatusOr<cost::Prediction> prediction = cost::Evaluate(problem, given.plan);
  if (!prediction.ok()) return FromCore(prediction.status());
  given.prediction = *std::move(prediction);
  HAPMOE_ASSIGN_OR_RETURN(*response.mutable_layout(), BuildPlan(read.layout->problem, given));
  *response.mutable_layout_prediction() =
      CorrectedToWire(read.layout->problem, given.plan, given.prediction);
  response.set_slowdown_ratio(given.prediction.iteration_seconds /
                              costed.prediction.iteration_seconds);
  search::Explanation explanation = search::Explain(problem, costed, given);
  for (const search::TermDifference& term : explanation.terms) {
    v1::TermDifference* to = response.add_terms();
    to->set_term(term.term);
    to->set_best_seconds(term.best_seconds);
    to->set_layout_seconds(term.given_seconds);
  }
  for (std::string& sentence : explanation.sentences) {
    response.add_sentences(std::move(sentence));
  }
  return response;
}

}  // namespace hapmoe::server
