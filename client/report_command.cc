// hapmoe report [list | delete NAME | factors].
#include <string>
#include <utility>

#include "client/call_and_print.h"
#include "client/commands.h"
#include "client/job_request.h"
#include "client/report_file.h"
#include "client/report_text.h"
#include "client/text.h"

namespace hapmoe::client {
namespace {

constexpr size_t kMaxFileBytes = size_t{16} << 20;

// Whether the options name a job; without one a report goes by its plan's id.
bool NamesJob(const Options& options) {
  return options.rest || !options.script.empty() || !options.args_file.empty() ||
         !options.cluster.empty();
}

absl::StatusOr<v1::IterationReport> ReadReport(const Options& options, const Console& console) {
  v1::IterationReport report = options.report;
  if (!options.measured.empty()) {
    const auto text = ReadFile(options.measured, console.in, kMaxFileBytes);
    if (!text.ok()) return text.status();
    const absl::Status added = AddMeasured(options.measured, *text, report);
    if (!added.ok()) return added;
  }
  if (report.iteration_seconds() == 0) {
    return absl::InvalidArgumentError(
        "the measurement is missing: give --seconds S or --measured FILE");
  }
  if (!options.plan_file.empty()) {
    const auto text = ReadFile(options.plan_file, console.in, kMaxFileBytes);
    if (!text.ok()) return text.status();
    auto plan = ParsePlanFile(options.plan_file, *text);
    if (!plan.ok()) return plan.status();
    if (NamesJob(options)) {
      *report.mutable_plan() = *std::move(plan);
      report.clear_plan_id();  // The plan's own is in it.
    } else {
      report.set_plan_id(plan->plan_id());
    }
  }
  if (!NamesJob(options)) {
    if (!report.plan_id().empty()) return report;
    return absl::InvalidArgumentError(
        "what ran is missing: give the job and --cluster, or a plan by --plan FILE or --plan-id");
  }
  // A profiler's summary may name the plan of another planner; what is given here ran.
  if (options.report.plan_id().empty()) report.clear_plan_id();
  auto cluster = ReadCluster(options);
  if (!cluster.ok()) return cluster.status();
  auto job = ReadJob(options, console);
  if (!job.ok()) return job.status();
  *report.mutable_job() = *std::move(job);
  *report.mutable_cluster() = *std::move(cluster);
  report.set_world_size(options.world_size);
  return report;
}

ExitCode Report(const Options& options, const Console& console, Connection& connection) {
  auto report = ReadReport(options, console);
  if (!report.ok()) return ReportUsage(report.status(), console);
  v1::ReportIterationRequest request;
  *request.mutable_report() = *std::move(report);
  return CallAndPrint(&v1::FeedbackService::Stub::ReportIteration, request, ReportText, options,
                      console, connection);
}

ExitCode List(const Options& options, const Console& console, Connection& connection) {
  return ListAllAndPrint(&v1::FeedbackService::Stub::ListReports, ReportListText, options, console,
                         connection);
}

ExitCode Delete(const Options& options, const Console& console, Connection& connection) {
  v1::DeleteReportRequest request;
  request.set_name(options.words[1]);
  return CallAndPrint(&v1::FeedbackService::Stub::DeleteReport, request, Deleted{options.words[1]},
                      options, console, connection);
}

ExitCode Factors(const Options& options, const Console& console, Connection& connection) {
  return CallAndPrint(&v1::FeedbackService::Stub::ListCorrections, v1::ListCorrectionsRequest(),
                      CorrectionsText, options, console, connection);
}

}  // namespace

ExitCode RunReport(const Options& options, const Console& console, Connection& connection) {
  const size_t words = options.words.size();
  if (words == 0) return Report(options, console, connection);
  const std::string& action = options.words[0];
  if (action == "list" && words == 1) return List(options, console, connection);
  if (action == "delete" && words == 2) return Delete(options, console, connection);
  if (action == "factors" && words == 1) return Factors(options, console, connection);
  return ReportUsage(
      absl::InvalidArgumentError(
          "report takes list, delete NAME or factors, or what ran and what was measured"),
      console);
}

}  // namespace hapmoe::client
