// hapmoe report [list | delete NAME | factors].
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
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
  grpc::ClientContext context;
  connection.Prepare(context);
  v1::ReportIterationResponse response;
  const grpc::Status status = connection.feedback().ReportIteration(&context, request, &response);
  if (!status.ok()) return ReportFailure(status, console, connection);
  if (options.output == OutputFormat::kJson) {
    PrintJson(response, console);
  } else {
    console.out << ReportText(response);
  }
  return kDone;
}

ExitCode List(const Options& options, const Console& console, Connection& connection) {
  v1::ListReportsResponse all;
  v1::ListReportsRequest request;
  request.set_page_size(1000);
  do {
    grpc::ClientContext context;
    connection.Prepare(context);
    v1::ListReportsResponse page;
    const grpc::Status status = connection.feedback().ListReports(&context, request, &page);
    if (!status.ok()) return ReportFailure(status, console, connection);
    all.mutable_reports()->MergeFrom(page.reports());
    // A server that repeats its token would keep us here for ever.
    if (page.next_page_token() == request.page_token()) break;
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  if (options.output == OutputFormat::kJson) {
    PrintJson(all, console);
  } else {
    console.out << ReportListText(all);
  }
  return kDone;
}

ExitCode Delete(const Options& options, const Console& console, Connection& connection) {
  v1::DeleteReportRequest request;
  request.set_name(options.words[1]);
  grpc::ClientContext context;
  connection.Prepare(context);
  v1::DeleteReportResponse response;
  const grpc::Status status = connection.feedback().DeleteReport(&context, request, &response);
  if (!status.ok()) return ReportFailure(status, console, connection);
  if (options.output == OutputFormat::kJson) {
    PrintJson(response, console);
  } else {
    console.out << Printable(options.words[1]) << " deleted\n";
  }
  return kDone;
}

ExitCode Factors(const Options& options, const Console& console, Connection& connection) {
  grpc::ClientContext context;
  connection.Prepare(context);
  v1::ListCorrectionsResponse response;
  const grpc::Status status = connection.feedback().ListCorrections(&context, {}, &response);
  if (!status.ok()) return ReportFailure(status, console, connection);
  if (options.output == OutputFormat::kJson) {
    PrintJson(response, console);
  } else {
    console.out << CorrectionsText(response);
  }
  return kDone;
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
