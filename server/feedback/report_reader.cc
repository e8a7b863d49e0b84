#include "server/feedback/report_reader.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/cost/evaluate.h"
#include "core/search/certificate.h"
#include "google/protobuf/message.h"
#include "server/errors/errors.h"
#include "server/planning/answer.h"
#include "server/planning/problem_reader.h"
#include "server/wire/from_wire.h"
#include "server/wire/to_wire.h"

namespace hapmoe::server {
namespace {

// The most that clocks of two machines differ by.
constexpr absl::Duration kMostClockError = absl::Hours(24);

// A fit predicts each report some hundred times: at most this many passes each.
constexpr int64_t kMostReportedPasses = int64_t{1} << 20;

// What ran: a problem and a plan of it.
struct Ran {
  ReadProblem problem;
  plan::Plan plan;
};

bool IsPositive(double value) { return value > 0 && std::isfinite(value); }

void CheckAge(const v1::IterationReport& report, absl::Time now, Violations& violations) {
  if (!report.has_measured_at()) return;
  if (absl::FromUnixSeconds(report.measured_at().seconds()) >= now - kMostReportAge) return;
  violations.push_back(
      {"time_in_range", "report.measured_at", "Must not be longer ago than reports are kept."});
}

// The faults of a request that is read as part of a report, with the report's paths; what else is
// wrong with it is returned.
absl::Status TakeFaults(const absl::Status& status, Violations& violations) {
  if (!absl::IsInvalidArgument(status)) return status;
  for (Violation violation : ViolationsOf(status)) {
    if (absl::StartsWith(violation.field, "problem.")) violation.field.erase(0, 8);
    if (!absl::StartsWith(violation.field, "-")) {
      violation.field = absl::StrCat("report.", violation.field);
    }
    violations.push_back(std::move(violation));
  }
  return absl::OkStatus();
}

// The layout of the job's own arguments.
absl::StatusOr<Ran> ReadOwnLayout(const v1::IterationReport& report, const ProfileCatalog& catalog,
                                  const EngineCatalog& engines) {
  v1::EvaluateRequest request;
  *request.mutable_job() = report.job();
  *request.mutable_cluster() = report.cluster();
  request.set_world_size(report.world_size());
  HAPMOE_ASSIGN_OR_RETURN(ReadLayout layout, ReadEvaluateRequest(request, catalog, engines));
  return Ran{std::move(layout.problem), std::move(layout.plan)};
}

absl::StatusOr<Ran> ReadGivenPlan(const v1::IterationReport& report, const ProfileCatalog& catalog,
                                  const EngineCatalog& engines) {
  v1::Problem problem;
  *problem.mutable_job() = report.job();
  *problem.mutable_cluster() = report.cluster();
  v1::Constraints& constraints = *problem.mutable_constraints();
  constraints.set_engine(report.plan().engine());
  constraints.set_allow_idle_accelerators(true);
  constraints.add_micro_batch_size(report.plan().micro_batch_size());
  if (!report.plan().token_dispatcher().empty()) {
    constraints.add_token_dispatcher(report.plan().token_dispatcher());
  }
  HAPMOE_ASSIGN_OR_RETURN(ReadProblem read, ReadPlanRequest("", problem, catalog, engines));
  Violations violations;
  plan::Plan plan = PlanFromWire(report.plan(), read.problem.cluster, violations);
  if (!violations.empty()) return InvalidError(Reason::kRequestInvalid, violations);
  const search::SearchRequest request = SearchRequestOf(read);
  if (const absl::Status valid = search::CheckValid(request, plan); !valid.ok()) {
    return InvalidError(Reason::kRequestInvalid,
                        {{"plan_valid", "plan",
                          absl::StrCat("Is no plan of this job on this cluster: ",
                                       std::string(valid.message()), ".")}});
  }
  read.problem = request.problem;  // Predicted as it was when it was planned.
  return Ran{std::move(read), std::move(plan)};
}

void CheckAgainstPrediction(const v1::IterationReport& report, const Ran& ran,
                            const cost::Prediction& prediction, Violations& violations) {
  const double ratio = report.iteration_seconds() / prediction.iteration_seconds;
  if (!(ratio >= 1 / kMostTimeRatio && ratio <= kMostTimeRatio)) {  // Nor is it no number.
    violations.push_back({"seconds_plausible", "report.iteration_seconds",
                          absl::StrCat(report.iteration_seconds(), " s is ", ratio,
                                       " times what is predicted; check its unit, and the plan.")});
  }
  double most = 0;
  for (const plan::Mesh& mesh : ran.plan.meshes) {
    most =
        std::max(most, ran.problem.problem.profiles[static_cast<size_t>(mesh.pool)]->memory_bytes);
  }
  for (const auto& [field, bytes] :
       {std::pair{"report.allocated_memory_bytes", report.allocated_memory_bytes()},
        {"report.reserved_memory_bytes", report.reserved_memory_bytes()}}) {
    if (static_cast<double>(bytes) <= most) continue;
    violations.push_back({"memory_within_device", field,
                          absl::StrCat("Must be at most the ", most,
                                       " bytes that the accelerators have, not ", bytes, ".")});
  }
}

// What can be told before anything is predicted, which then takes bounded time.
void CheckAgainstJob(const v1::IterationReport& report, const Ran& ran, Violations& violations) {
  CheckPasses(ran.plan, kMostReportedPasses,
              report.has_plan() ? "report.plan.micro_batches" : "--global-batch-size", violations);
  if (!report.has_load_imbalance()) return;
  const auto& moe = ran.problem.problem.model.moe;
  if (!moe.has_value()) {
    violations.push_back({"imbalance_needs_experts", "report.load_imbalance",
                          "The job has no experts to be loaded."});
  } else if (report.load_imbalance() > static_cast<double>(moe->experts)) {
    violations.push_back({"imbalance_within_experts", "report.load_imbalance",
                          absl::StrCat("Must be at most the ", moe->experts, " experts, not ",
                                       report.load_imbalance(), ".")});
  }
}

// What ran, for telling runs apart: nothing that is predicted, since that changes with every
// report.
std::string RunOf(const v1::IterationReport& report, const Ran& ran) {
  const plan::Plan& plan = ran.plan;
  const auto hash = [](const google::protobuf::Message& message) {
    return std::hash<std::string>{}(message.SerializeAsString());
  };
  const auto dispatcher = plan.dispatcher.value_or(ran.problem.problem.training.dispatcher);
  const int64_t group = plan.virtual_stages() == 1     ? 0
                        : plan.interleaving_group == 0 ? plan.pipeline_stages()
                                                       : plan.interleaving_group;
  std::string run = absl::StrCat(
      hash(report.job()), ".", hash(report.cluster()), " ", plan.engine, " ", plan.micro_batch, " ",
      plan.global_batch, " ", plan.micro_batches, " ", group, " ", plan.sequence_parallel, " ",
      static_cast<int>(plan.rank_order), " ", model::DispatcherName(dispatcher));
  for (const plan::Mesh& mesh : plan.meshes) {
    const plan::Degrees& degrees = mesh.degrees;
    absl::StrAppend(&run, "; ", mesh.pool, " ", degrees.tp, " ", degrees.cp, " ", degrees.dp, " ",
                    degrees.ep, " ", degrees.etp);
    for (const plan::Stage& stage : mesh.stages) {
      const model::Recompute& recompute = stage.recompute;
      absl::StrAppend(&run, ", ", static_cast<int>(recompute.granularity), " ",
                      static_cast<int>(recompute.method), " ", recompute.num_layers, " ",
                      recompute.modules);
      for (const plan::Chunk& chunk : stage.chunks) {
        absl::StrAppend(&run, " ", chunk.layers, "+", chunk.mtp_layers);
      }
    }
  }
  return run;
}

// A plan under a wrong id was changed after it was answered.
void CheckPlanId(const v1::IterationReport& report, Violations& violations) {
  if (!report.has_plan()) return;
  const std::string digest = PlanDigest(report.plan());
  for (const auto& [field, id] : {std::pair{"report.plan_id", report.plan_id()},
                                  {"report.plan.plan_id", report.plan().plan_id()}}) {
    if (id.empty() || id == digest) continue;
    violations.push_back({"plan_id_matches", field,
                          absl::StrCat("Is not the id of the plan given, which is ", digest, ".")});
  }
}

}  // namespace

void CheckFigures(const v1::IterationReport& report, absl::Time now, Violations& violations) {
  if (!IsPositive(report.iteration_seconds())) {
    violations.push_back(
        {"seconds_positive", "report.iteration_seconds",
         absl::StrCat("Must be a number above 0, not ", report.iteration_seconds(), ".")});
  }
  const int64_t allocated = report.allocated_memory_bytes();
  const int64_t reserved = report.reserved_memory_bytes();
  if (allocated < 0) {
    violations.push_back({"memory_not_negative", "report.allocated_memory_bytes",
                          absl::StrCat("Must be at least 0, not ", allocated, ".")});
  }
  if (reserved < 0) {
    violations.push_back({"memory_not_negative", "report.reserved_memory_bytes",
                          absl::StrCat("Must be at least 0, not ", reserved, ".")});
  }
  if (reserved > 0 && allocated > reserved) {
    violations.push_back({"allocated_within_reserved", "report.allocated_memory_bytes",
                          absl::StrCat("Must be at most the ", reserved,
                                       " bytes that are reserved, not ", allocated, ".")});
  }
  if (report.has_load_imbalance() &&
      !(report.load_imbalance() >= 1 && std::isfinite(report.load_imbalance()))) {
    violations.push_back({"imbalance_at_least_1", "report.load_imbalance",
                          absl::StrCat("Must be at least 1, not ", report.load_imbalance(), ".")});
  }
  if (report.has_measured_at() &&
      absl::FromUnixSeconds(report.measured_at().seconds()) > now + kMostClockError) {
    violations.push_back({"time_in_range", "report.measured_at", "Must not be in the future."});
  }
}

absl::StatusOr<bool> IsOwnLayout(const v1::IterationReport& report, const ProfileCatalog& catalog,
                                 const EngineCatalog& engines,
                                 const std::shared_ptr<const CorrectedProfiles>& corrections) {
  v1::IterationReport without_plan = report;
  without_plan.clear_plan();
  // An id holds what was predicted: now, or before there were any reports.
  for (const auto& corrected : {corrections, std::shared_ptr<const CorrectedProfiles>()}) {
    HAPMOE_ASSIGN_OR_RETURN(Ran ran, ReadOwnLayout(without_plan, catalog, engines));
    ReadLayout layout{std::move(ran.problem), std::move(ran.plan)};
    Correct(corrected, layout.problem);
    const auto prediction = cost::Evaluate(layout.problem.problem, layout.plan);
    if (!prediction.ok()) return FromCore(prediction.status());
    HAPMOE_ASSIGN_OR_RETURN(const v1::EvaluateResponse evaluated,
                            BuildEvaluation(layout, *prediction));
    if (evaluated.plan().plan_id() == report.plan_id()) return true;
  }
  return false;
}

absl::StatusOr<ReadReport> ReadIterationReport(const v1::IterationReport& report,
                                               const ProfileCatalog& catalog,
                                               const EngineCatalog& engines, absl::Time now) {
  Violations violations;
  CheckFigures(report, now, violations);
  CheckAge(report, now, violations);
  CheckPlanId(report, violations);
  absl::StatusOr<Ran> ran = report.has_plan() ? ReadGivenPlan(report, catalog, engines)
                                              : ReadOwnLayout(report, catalog, engines);
  if (!ran.ok()) HAPMOE_RETURN_IF_ERROR(TakeFaults(ran.status(), violations));
  if (ran.ok()) CheckAgainstJob(report, *ran, violations);
  if (!violations.empty()) return InvalidError(Reason::kRequestInvalid, violations);

  cost::Problem& problem = ran->problem.problem;
  problem.products = nullptr;
  if (report.has_load_imbalance() && problem.model.moe.has_value()) {
    problem.training.measured_imbalance = report.load_imbalance();
  }
  const auto prediction = cost::Evaluate(problem, ran->plan);
  if (!prediction.ok()) return FromCore(prediction.status());
  ReadReport read;
  CheckAgainstPrediction(report, *ran, *prediction, violations);
  if (!violations.empty()) return InvalidError(Reason::kRequestInvalid, violations);

  read.predicted_seconds = prediction->iteration_seconds;
  read.measured_at =
      report.has_measured_at() ? absl::FromUnixSeconds(report.measured_at().seconds()) : now;
  for (const plan::Mesh& mesh : ran->plan.meshes) {
    const std::string& name = problem.profiles[static_cast<size_t>(mesh.pool)]->name;
    if (std::find(read.accelerators.begin(), read.accelerators.end(), name) ==
        read.accelerators.end()) {
      read.accelerators.push_back(name);
    }
  }
  feedback::Observation& observation = read.observation;
  observation.run = RunOf(report, *ran);
  observation.plan = std::move(ran->plan);
  observation.seconds = report.iteration_seconds();
  if (report.allocated_memory_bytes() > 0) {
    observation.allocated_bytes = static_cast<double>(report.allocated_memory_bytes());
  }
  if (report.reserved_memory_bytes() > 0) {
    observation.reserved_bytes = static_cast<double>(report.reserved_memory_bytes());
  }
  observation.problem = std::make_shared<const cost::Problem>(std::move(problem));
  return read;
}

}  // namespace hapmoe::server
