// What is asked of the planner: options and the files that they name, as messages.
#ifndef HAPMOE_CLIENT_JOB_REQUEST_H_
#define HAPMOE_CLIENT_JOB_REQUEST_H_

#include <istream>
#include <string>

#include "absl/status/statusor.h"
#include "client/console.h"
#include "client/options.h"
#include "client/script_run.h"
#include "hapmoe/v1/planner.pb.h"

namespace hapmoe::client {

// Errors are INVALID_ARGUMENT: the command line, or a file that it names, is wrong. Their messages
// are for standard error, one fault a line.

// Reads the job from the one source that the options name. What a reader should know of how a
// script was read goes to `console.err`.
absl::StatusOr<v1::Job> ReadJob(const Options& options, const Console& console);

// The launches of the script that the options name, read as the options say.
absl::StatusOr<ScriptRun> ReadLaunches(const Options& options, const Console& console);

// Reads the cluster file.
absl::StatusOr<v1::Cluster> ReadCluster(const Options& options);

// Job, cluster, constraints and objective.
absl::StatusOr<v1::Problem> ReadProblem(const Options& options, const Console& console);

// What a scheduler is to be told; nothing where the options name neither a scheduler nor a file.
absl::StatusOr<v1::LaunchOptions> ReadLaunchOptions(const Options& options);

// Job, cluster and what else `evaluate` asks for.
absl::StatusOr<v1::EvaluateRequest> ReadEvaluateRequest(const Options& options,
                                                        const Console& console);

// The whole of a file, "-" for standard input; at most `max_bytes`.
absl::StatusOr<std::string> ReadFile(const std::string& path, std::istream& in, size_t max_bytes);

}  // namespace hapmoe::client

#endif  // HAPMOE_CLIENT_JOB_REQUEST_H_
