#include "server/planning/answer.h"

#include <chrono>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "core/cost/bottlenecks.h"
#include "core/engine/launchers.h"
#include "core/engine/schedulers/schedulers.h"
#include "core/plan/node_assignment.h"
#include "core/search/explain.h"
#include "server/errors/errors.h"
#include "server/planning/corrections.h"
#include "server/wire/to_wire.h"

namespace hapmoe::server {
namespace {

// How long a search that lacks memory which others have is told to wait: they end in seconds.
constexpr std::chrono::milliseconds kSearchMemoryRetry{1000};

// What the published engine lacks for the vendors that a plan uses.
std::vector<engine::EngineRequirement> RequirementsOf(const ReadProblem& read,
                                                      const plan::Plan& plan) {
  return read.EngineOf(plan).Requirements(VendorsOf(read, plan));
}

v1::ExecutionPlan PlanOnNodes(const ReadProblem& read, const search::Costed& costed,
                              const plan::NodeAssignment& nodes) {
  return PlanToWire(costed.plan, costed.prediction, nodes, read.problem,
                    EngineCapabilities::Sentence(RequirementsOf(read, costed.plan)));
}

absl::Status AddArtifacts(const ReadProblem& read, const plan::Plan& plan,
                          const plan::NodeAssignment& nodes, v1::PlanAnswer& answer) {
  const engine::LauncherInput input = {read.job.arguments,
                                       plan,
                                       read.problem.cluster,
                                       nodes,
                                       read.entry,
                                       read.EngineOf(plan).Environments(read.problem.profiles),
                                       RequirementsOf(read, plan),
                                       read.EngineOf(plan).Backend(VendorsOf(read, plan))};
  HAPMOE_ASSIGN_OR_RETURN(std::vector<engine::Artifact> artifacts, engine::RenderLauncher(input));
  if (read.scheduler.has_value()) {
    absl::StatusOr<engine::Artifact> file =
        engine::RenderScheduler(input, *read.scheduler, artifacts);
    if (absl::IsInvalidArgument(file.status())) {
      return InvalidError(Reason::kRequestInvalid,
                          {{"launch_scheduler_holds_plan", "launch.scheduler",
                            std::string(file.status().message())}});
    }
    if (!file.ok()) return file.status();
    artifacts.push_back(*std::move(file));
    for (std::string& word : engine::SubmitCommand(read.scheduler->scheduler)) {
      answer.add_submit_command(std::move(word));
    }
  }
  for (engine::Artifact& artifact : artifacts) {
    *answer.add_artifacts() = ArtifactToWire(std::move(artifact));
  }
  return absl::OkStatus();
}

// The uniform plan is shown for comparison only: one that cannot be laid on nodes is left out.
void AddUniform(const ReadProblem& read, const search::Costed& uniform, double best_seconds,
                v1::PlanAnswer& answer) {
  auto plan = BuildPlan(read, uniform);
  if (!plan.ok()) return;
  v1::UniformComparison* to = answer.mutable_uniform();
  *to->mutable_plan() = *std::move(plan);
  *to->mutable_prediction() = CorrectedToWire(read, uniform.plan, uniform.prediction);
  to->set_slowdown_ratio(uniform.prediction.iteration_seconds / best_seconds);
}

}  // namespace

std::set<std::string> VendorsOf(const ReadProblem& read, const plan::Plan& plan) {
  std::set<std::string> vendors;
  for (const plan::Mesh& mesh : plan.meshes) {
    vendors.insert(read.problem.profiles[mesh.pool]->vendor);
  }
  return vendors;
}

absl::StatusOr<v1::ExecutionPlan> BuildPlan(const ReadProblem& read, const search::Costed& costed) {
  HAPMOE_ASSIGN_OR_RETURN(const plan::NodeAssignment nodes,
                          plan::AssignNodes(costed.plan, read.problem.cluster));
  return PlanOnNodes(read, costed, nodes);
}

void AddAlternatives(const ReadProblem& read, const std::vector<search::Costed>& alternatives,
                     const search::Costed& best, v1::PlanAnswer& answer) {
  for (const search::Costed& alternative : alternatives) {
    auto plan = BuildPlan(read, alternative);
    if (!plan.ok()) continue;  // For comparison only, as the uniform plan.
    v1::Alternative* to = answer.add_alternatives();
    *to->mutable_plan() = *std::move(plan);
    *to->mutable_prediction() = CorrectedToWire(read, alternative.plan, alternative.prediction);
    to->set_slowdown_ratio(alternative.prediction.iteration_seconds /
                           best.prediction.iteration_seconds);
    to->set_kind(search::KindOf(read.problem, alternative.plan, best.plan));
  }
}

absl::StatusOr<v1::PlanAnswer> BuildAnswer(const ReadProblem& read,
                                           const search::Outcome& outcome) {
  const search::Costed& best = *outcome.best;
  const double seconds = best.prediction.iteration_seconds;
  HAPMOE_ASSIGN_OR_RETURN(const plan::NodeAssignment nodes,
                          plan::AssignNodes(best.plan, read.problem.cluster));
  v1::PlanAnswer answer;
  *answer.mutable_plan() = PlanOnNodes(read, best, nodes);
  *answer.mutable_prediction() = CorrectedToWire(read, best.plan, best.prediction);
  *answer.mutable_termination() = TerminationToWire(outcome.termination, seconds);
  if (outcome.uniform.has_value()) AddUniform(read, *outcome.uniform, seconds, answer);
  AddAlternatives(read, outcome.alternatives, best, answer);
  HAPMOE_RETURN_IF_ERROR(AddArtifacts(read, best.plan, nodes, answer));
  for (const std::string& note : outcome.notes) answer.add_notes(note);
  // What is left of a call's time after an interruption belongs to its answer.
  if (outcome.termination.limit == search::Limit::kNone) {
    for (std::string& note : cost::Bottlenecks(read.problem, best.plan, best.prediction)) {
      answer.add_notes(std::move(note));
    }
  }
  for (const std::string& note : read.job.notes) answer.add_notes(note);
  for (std::string& note : engine::LauncherNotes(read.job.arguments, best.plan, nodes)) {
    answer.add_notes(std::move(note));
  }
  const std::set<std::string> vendors = VendorsOf(read, best.plan);
  if (vendors.size() > 1 && !read.catalog->SomeRunsAsPublished(vendors)) {
    answer.add_notes(absl::StrCat("No engine that is known here runs one job over ",
                                  absl::StrJoin(vendors, " and "),
                                  " as it is published; the plan says what it needs beside one."));
  }
  return answer;
}

absl::StatusOr<v1::PlanAnswer> BuildIncumbent(const ReadProblem& read,
                                              const search::Progress& progress) {
  const search::Costed& improved = *progress.improved;
  v1::PlanAnswer answer;
  HAPMOE_ASSIGN_OR_RETURN(*answer.mutable_plan(), BuildPlan(read, improved));
  *answer.mutable_prediction() = CorrectedToWire(read, improved.plan, improved.prediction);
  search::Termination so_far;
  so_far.lower_bound_seconds = progress.lower_bound_seconds;
  so_far.statistics.candidates = progress.candidates;
  *answer.mutable_termination() = TerminationToWire(so_far, improved.prediction.iteration_seconds);
  return answer;
}

absl::Status BuildFailure(const search::Outcome& outcome, const CallTimes& times) {
  if (outcome.infeasibility.has_value()) {
    const search::Infeasibility& infeasibility = *outcome.infeasibility;
    BindingConstraint binding;
    binding.rule = infeasibility.binding_rule;
    if (infeasibility.stage.has_value()) {
      binding.subject = absl::StrCat("stage ", *infeasibility.stage);
    }
    binding.description = infeasibility.summary;
    binding.suggestion = infeasibility.suggestion;
    binding.bytes_short = infeasibility.bytes_short;
    binding.changes = SuggestedChangesToWire(infeasibility);
    return NoPlanFitsError(binding);
  }
  if (outcome.termination.limit == search::Limit::kCancelled) return Error(Reason::kCallCancelled);
  if (outcome.termination.limit == search::Limit::kMemory) {
    return SearchTooLargeError(times.memory, kSearchMemoryRetry);
  }
  if (outcome.termination.limit != search::Limit::kTime) {
    return absl::InternalError("the search ended with neither a plan nor a reason");
  }
  v1::SearchStatistics statistics = StatisticsToWire(outcome.termination.statistics);
  SetTimes(times, statistics);
  absl::Status status = Error(Reason::kDeadlinePassed,
                              absl::StrCat(statistics.candidates_opened(), " of ",
                                           statistics.candidates(), " candidates were opened."),
                              {{"candidates", absl::StrCat(statistics.candidates())},
                               {"candidates_opened", absl::StrCat(statistics.candidates_opened())},
                               {"search_wall_seconds", absl::StrCat(times.search_wall_seconds)}});
  AddDetail(statistics, status);
  return status;
}

absl::StatusOr<v1::EvaluateResponse> BuildEvaluation(const ReadLayout& layout,
                                                     const cost::Prediction& prediction) {
  const ReadProblem& read = layout.problem;
  v1::EvaluateResponse response;
  HAPMOE_ASSIGN_OR_RETURN(*response.mutable_plan(), BuildPlan(read, {layout.plan, prediction}));
  *response.mutable_prediction() = CorrectedToWire(read, layout.plan, prediction);
  for (const std::string& note : read.job.notes)
    response.mutable_prediction()->add_assumptions(note);
  return response;
}

void SetTimes(const CallTimes& times, v1::SearchStatistics& statistics) {
  statistics.set_search_cpu_seconds(times.search_cpu_seconds);
  statistics.set_total_cpu_seconds(times.total_cpu_seconds);
  statistics.set_search_wall_seconds(times.search_wall_seconds);
}

absl::Status FromCore(const absl::Status& status) {
  if (!absl::IsInvalidArgument(status)) return status;
  return Error(Reason::kPrecisionUnsupported, status.message());
}

}  // namespace hapmoe::server
