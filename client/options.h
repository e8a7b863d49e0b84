// The command line as values: every command, every option, and the help text, from one table.
#ifndef HAPMOE_CLIENT_OPTIONS_H_
#define HAPMOE_CLIENT_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/channel_security.h"
#include "hapmoe/v1/feedback.pb.h"
#include "hapmoe/v1/planner.pb.h"
#include "hapmoe/v1/profile.pb.h"

namespace hapmoe::client {

enum class Command {
  kHelp,
  kVersion,
  kInfo,
  kPlan,
  kEvaluate,
  kFrontier,
  kExplain,
  kProfiles,
  kArgs,
  kReport,
  kCompletion
};

enum class OutputFormat { kText, kJson };

// How a script's launches are found: by running it in a sandbox, or without running it.
enum class ScriptReading { kSandbox, kStatic };

// What a command line says. Fields that an option did not set hold their defaults.
struct Options {
  Command command = Command::kHelp;
  bool help = false;  // --help was given after a command.

  std::optional<std::string> server;
  absl::Duration deadline = absl::Seconds(30);
  ChannelSecurity security;
  OutputFormat output = OutputFormat::kText;

  // The job: a script, a file of arguments, or the words after "--".
  std::string script;
  std::vector<std::string> script_environment;  // NAME=VALUE
  ScriptReading script_reading = ScriptReading::kSandbox;
  int32_t launch = 0;  // Which launch of the script; 0: its only one.
  std::string args_file;
  std::string entry;
  std::string router_stats;
  std::optional<double> imbalance_quantile;

  std::string cluster;
  v1::Constraints constraints;
  std::optional<v1::Objective> objective;  // Left out of the request where it was not given.
  std::vector<v1::PoolSizes> sizes;
  int32_t memory_steps = 0;
  std::string request_id;

  // Who starts the plan, and the file of what it is to be told.
  std::string scheduler;
  std::string scheduler_file;

  std::string out;
  bool progress = false;

  int32_t world_size = 0;
  std::string batch;

  // What was measured, and the files that say more of it.
  v1::IterationReport report;
  std::string plan_file;
  std::string measured;

  // Layer times to import: what wrote them, whose they are, the profile file, the layer's shape.
  std::string format;
  std::string accelerator;
  std::string into;
  v1::LayerTable layer;

  std::vector<std::string> words;                // Words that belong to no option.
  std::optional<std::vector<std::string>> rest;  // Words after "--", where there is one.
};

// Reads the words after the program's name. An INVALID_ARGUMENT error is a sentence for the user
// and names the nearest known word where there is one.
absl::StatusOr<Options> ParseOptions(absl::Span<const std::string> arguments);

// How to use one command; the list of commands for kHelp.
std::string HelpText(Command command);

// The command of this name, or an error that names the nearest.
absl::StatusOr<Command> ParseCommand(absl::string_view name);

// "30" is seconds; "500ms", "1m30s" as in Go. Above zero, at most a day.
absl::StatusOr<absl::Duration> ParseDuration(absl::string_view text);

}  // namespace hapmoe::client

#endif  // HAPMOE_CLIENT_OPTIONS_H_
