// hapmoe profiles coverage.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/call_and_print.h"
#include "client/commands.h"
#include "client/coverage_text.h"
#include "client/job_request.h"
#include "client/text.h"

namespace hapmoe::client {
namespace {

std::string MeasurementsText(const v1::GetProfileResponse& response) {
  return absl::StrCat(Printable(response.profile().accelerator()), "\n",
                      MeasuredText(response.profile()), UnmeasuredText(response.profile()), "\n");
}

// Prints what the profiles have measured. kDone, or why one could not be shown.
ExitCode ShowProfiles(const std::vector<std::string>& names, const Options& options,
                      const Console& console, Connection& connection) {
  for (const std::string& name : names) {
    v1::GetProfileRequest request;
    request.set_accelerator(name);
    const ExitCode code = CallAndPrint(&v1::ProfilesService::Stub::GetProfile, request,
                                       MeasurementsText, options, console, connection);
    if (code != kDone) return code;
  }
  return kDone;
}

}  // namespace

ExitCode RunCoverage(const Options& options, const Console& console, Connection& connection) {
  std::vector<std::string> names(options.words.begin() + 1, options.words.end());
  if (options.cluster.empty()) {
    if (options.rest || !options.script.empty() || !options.args_file.empty()) {
      return ReportUsage(
          absl::InvalidArgumentError("the cluster is missing: give --cluster FILE with the job"),
          console);
    }
    if (names.empty()) {
      return ReportUsage(
          absl::InvalidArgumentError(
              "profiles coverage takes names of accelerators, or --cluster FILE and a job"),
          console);
    }
    return ShowProfiles(names, options, console, connection);
  }
  absl::StatusOr<v1::EvaluateRequest> request = ReadEvaluateRequest(options, console);
  if (!request.ok()) return ReportUsage(request.status(), console);
  request->set_list_operations(true);
  v1::EvaluateResponse response;
  const grpc::Status status =
      connection.Call(&v1::PlannerService::Stub::Evaluate, *request, response);
  if (!status.ok()) return ReportFailure(status, console, connection);
  if (options.output == OutputFormat::kJson) {
    PrintJson(response, console);
    return kDone;
  }
  console.out << BasisText(response.prediction()) << "\n";
  if (const std::string worst = WorstCoveredText(response); !worst.empty()) {
    console.out << worst << "\n";
  }
  if (names.empty()) {
    for (const v1::Pool& pool : request->cluster().pools()) {
      if (std::find(names.begin(), names.end(), pool.accelerator()) == names.end()) {
        names.push_back(pool.accelerator());
      }
    }
  }
  return ShowProfiles(names, options, console, connection);
}

}  // namespace hapmoe::client
