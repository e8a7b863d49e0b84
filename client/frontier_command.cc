// hapmoe frontier.
#include "client/call_and_print.h"
#include "client/commands.h"
#include "client/frontier_text.h"
#include "client/job_request.h"

namespace hapmoe::client {

ExitCode RunFrontier(const Options& options, const Console& console, Connection& connection) {
  absl::StatusOr<v1::Problem> problem = ReadProblem(options, console);
  if (!problem.ok()) return ReportUsage(problem.status(), console);
  v1::FrontierRequest request;
  request.set_request_id(options.request_id);
  *request.mutable_problem() = *std::move(problem);
  *request.mutable_sizes() = {options.sizes.begin(), options.sizes.end()};
  request.set_memory_steps(static_cast<uint32_t>(options.memory_steps));
  return CallAndPrint(&v1::PlannerService::Stub::Frontier, request, FrontierText, options, console,
                      connection);
}

}  // namespace hapmoe::client
