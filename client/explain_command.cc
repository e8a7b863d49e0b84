// hapmoe explain.
#include "client/call_and_print.h"
#include "client/commands.h"
#include "client/explain_text.h"
#include "client/job_request.h"

namespace hapmoe::client {

ExitCode RunExplain(const Options& options, const Console& console, Connection& connection) {
  absl::StatusOr<v1::Problem> problem = ReadProblem(options, console);
  if (!problem.ok()) return ReportUsage(problem.status(), console);
  v1::ExplainRequest request;
  request.set_request_id(options.request_id);
  *request.mutable_problem() = *std::move(problem);
  request.set_world_size(options.world_size);
  return CallAndPrint(&v1::PlannerService::Stub::Explain, request, ExplanationText, options,
                      console, connection);
}

}  // namespace hapmoe::client
