#include "client/commands.h"

#include <google/protobuf/util/json_util.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/answer_text.h"
#include "client/call_and_print.h"
#include "client/channel_security.h"
#include "client/completion.h"
#include "client/failure_text.h"
#include "client/option_table.h"

namespace hapmoe::client {
namespace {

constexpr char kDefaultServer[] = "127.0.0.1:50051";

// `hapmoe help`, `hapmoe help plan`, `hapmoe plan --help`.
ExitCode RunHelp(const Options& options, const Console& console) {
  Command command = options.command;
  if (command == Command::kHelp && !options.words.empty()) {
    absl::StatusOr<Command> named = ParseCommand(options.words[0]);
    if (!named.ok()) return ReportUsage(named.status(), console);
    command = *named;
  }
  console.out << HelpText(command);
  return kDone;
}

ExitCode RunCompletion(const Options& options, const Console& console) {
  if (options.words != std::vector<std::string>{"bash"}) {
    return ReportUsage(absl::InvalidArgumentError("completion takes one word: bash"), console);
  }
  console.out << BashCompletion();
  return kDone;
}

// What an option says, else a variable; an empty one says nothing.
std::string OptionOr(const std::string& option, const char* variable, const Console& console) {
  if (!option.empty()) return option;
  return console.environment(variable).value_or("");
}

std::string ServerOf(const Options& options, const Console& console) {
  if (options.server) return *options.server;
  const std::string server = OptionOr("", "HAPMOE_SERVER", console);
  return server.empty() ? kDefaultServer : server;
}

ChannelSecurity SecurityOf(const Options& options, const Console& console) {
  ChannelSecurity security = options.security;
  security.ca = OptionOr(security.ca, "HAPMOE_TLS_CA", console);
  security.certificate = OptionOr(security.certificate, "HAPMOE_TLS_CERT", console);
  security.key = OptionOr(security.key, "HAPMOE_TLS_KEY", console);
  security.name = OptionOr(security.name, "HAPMOE_TLS_NAME", console);
  return security;
}

}  // namespace

ExitCode ReportUsage(const absl::Status& status, const Console& console) {
  console.err << "hapmoe: " << status.message() << "\n";
  return kUsage;
}

ExitCode ReportFailure(const grpc::Status& status, const Console& console,
                       const Connection& connection) {
  console.err << FailureText(status, connection.server());
  return ExitCodeOf(status);
}

void PrintJson(const google::protobuf::Message& message, const Console& console) {
  google::protobuf::util::JsonPrintOptions print;
  print.add_whitespace = true;
  print.preserve_proto_field_names = true;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(message, &json, print);
  // A message that was parsed from the wire always has a JSON form; none of ours hold an Any.
  if (status.ok()) console.out << json;
}

ExitCode RunInfo(const Options& options, const Console& console, Connection& connection) {
  return CallAndPrint(&v1::PlannerService::Stub::GetServerInfo, v1::GetServerInfoRequest(),
                      ServerInfoText, options, console, connection);
}

ExitCode RunHapmoe(absl::Span<const std::string> arguments, const Console& console) {
  absl::StatusOr<Options> options = ParseOptions(arguments);
  if (!options.ok()) return ReportUsage(options.status(), console);
  if (options->help || options->command == Command::kHelp) return RunHelp(*options, console);
  if (*command_line::TextOf(options->command).words == 0 && !options->words.empty()) {
    return ReportUsage(
        absl::InvalidArgumentError(absl::StrCat(
            "\"", options->words[0], "\" belongs to no option; arguments of the job follow --")),
        console);
  }
  if (options->command == Command::kVersion) {
    console.out << "hapmoe " << HAPMOE_VERSION << "\n";
    return kDone;
  }
  if (options->command == Command::kArgs) return RunArgs(*options, console);
  if (options->command == Command::kCompletion) return RunCompletion(*options, console);
  const ChannelSecurity security = SecurityOf(*options, console);
  const auto credentials = CredentialsOf(security);
  if (!credentials.ok()) return ReportUsage(credentials.status(), console);
  Connection connection(ServerOf(*options, console), options->deadline, *credentials,
                        security.name);
  switch (options->command) {
    case Command::kPlan:
      return RunPlan(*options, console, connection);
    case Command::kEvaluate:
      return RunEvaluate(*options, console, connection);
    case Command::kFrontier:
      return RunFrontier(*options, console, connection);
    case Command::kExplain:
      return RunExplain(*options, console, connection);
    case Command::kProfiles:
      return RunProfiles(*options, console, connection);
    case Command::kReport:
      return RunReport(*options, console, connection);
    default:
      return RunInfo(*options, console, connection);
  }
}

}  // namespace hapmoe::client
