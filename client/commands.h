// The commands of hapmoe, and the entry that runs the one a command line names.
#ifndef HAPMOE_CLIENT_COMMANDS_H_
#define HAPMOE_CLIENT_COMMANDS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "client/connection.h"
#include "client/console.h"
#include "client/options.h"

namespace hapmoe::client {

// Runs hapmoe with the words after the program's name. Answers go to `out`, everything else to
// `err`.
ExitCode RunHapmoe(absl::Span<const std::string> arguments, const Console& console);

// Each command does what HelpText says of it.
ExitCode RunPlan(const Options& options, const Console& console, Connection& connection);
ExitCode RunEvaluate(const Options& options, const Console& console, Connection& connection);
ExitCode RunFrontier(const Options& options, const Console& console, Connection& connection);
ExitCode RunExplain(const Options& options, const Console& console, Connection& connection);
ExitCode RunProfiles(const Options& options, const Console& console, Connection& connection);
ExitCode RunReport(const Options& options, const Console& console, Connection& connection);
// `profiles import`, which calls no server.
ExitCode RunImport(const Options& options, const Console& console);
// `profiles coverage`, called by RunProfiles.
ExitCode RunCoverage(const Options& options, const Console& console, Connection& connection);
// Calls no server.
ExitCode RunArgs(const Options& options, const Console& console);
ExitCode RunInfo(const Options& options, const Console& console, Connection& connection);

// Says on `err` what is wrong with the command line or with a file that it names.
ExitCode ReportUsage(const absl::Status& status, const Console& console);

// Says on `err` what became of a failed call.
ExitCode ReportFailure(const grpc::Status& status, const Console& console,
                       const Connection& connection);

// Prints a message as JSON, fields named as in the proto files.
void PrintJson(const google::protobuf::Message& message, const Console& console);

}  // namespace hapmoe::client

#endif  // HAPMOE_CLIENT_COMMANDS_H_
