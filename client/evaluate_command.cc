// hapmoe evaluate.
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "client/answer_text.h"
#include "client/call_and_print.h"
#include "client/commands.h"
#include "client/evaluate_batch.h"
#include "client/job_request.h"

namespace hapmoe::client {
namespace {

ExitCode RunBatch(const Options& options, const Console& console, Connection& connection) {
  if (options.rest || !options.script.empty() || !options.args_file.empty() ||
      !options.cluster.empty() || options.world_size > 0 || !options.entry.empty() ||
      !options.router_stats.empty() || options.imbalance_quantile.has_value()) {
    return ReportUsage(
        absl::InvalidArgumentError("--batch takes jobs and clusters from its file alone"), console);
  }
  std::ifstream file;
  if (options.batch != "-") {
    file.open(options.batch, std::ios::binary);
    std::error_code ignored;
    if (!file || std::filesystem::is_directory(options.batch, ignored)) {
      return ReportUsage(absl::InvalidArgumentError(absl::StrCat("cannot read ", options.batch)),
                         console);
    }
  }
  EvaluateBatch batch(connection, options);
  return batch.Run(options.batch == "-" ? console.in : file, console);
}

}  // namespace

ExitCode RunEvaluate(const Options& options, const Console& console, Connection& connection) {
  if (!options.batch.empty()) return RunBatch(options, console, connection);
  const absl::StatusOr<v1::EvaluateRequest> request = ReadEvaluateRequest(options, console);
  if (!request.ok()) return ReportUsage(request.status(), console);
  return CallAndPrint(&v1::PlannerService::Stub::Evaluate, *request, EvaluationText, options,
                      console, connection);
}

}  // namespace hapmoe::client
