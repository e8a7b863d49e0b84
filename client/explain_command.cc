// hapmoe explain.
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
  grpc::ClientContext context;
  connection.Prepare(context);
  v1::ExplainResponse response;
  const grpc::Status status = connection.planner().Explain(&context, request, &response);
  if (!status.ok()) return ReportFailure(status, console, connection);
  if (options.output == OutputFormat::kJson) {
    PrintJson(response, console);
  } else {
    console.out << ExplanationText(response);
  }
  return kDone;
}

}  // namespace hapmoe::client
