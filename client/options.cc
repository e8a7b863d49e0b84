#include "client/options.h"

#include <cstddef>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/option_table.h"
#include "client/text.h"

namespace hapmoe::client {
namespace {

using command_line::AllCommands;
using command_line::AllOptions;
using command_line::CommandText;
using command_line::Option;
using command_line::TextOf;

absl::Status UsageError(absl::string_view what, absl::string_view nearest) {
  return absl::InvalidArgumentError(
      nearest.empty() ? std::string(what) : absl::StrCat(what, "; did you mean ", nearest, "?"));
}

absl::StatusOr<const Option*> FindOption(absl::string_view name, Command command) {
  std::vector<std::string> known;
  for (const Option& option : AllOptions()) {
    if (!option.BelongsTo(command)) continue;
    if (name == option.name || (*option.short_name != 0 && name == option.short_name)) {
      return &option;
    }
    known.emplace_back(option.name);
  }
  return UsageError(absl::StrCat(TextOf(command).name, " has no option ", name),
                    NearestWord(name, known));
}

}  // namespace

absl::StatusOr<absl::Duration> ParseDuration(absl::string_view text) {
  absl::Duration duration;
  double seconds = 0;
  if (absl::SimpleAtod(text, &seconds)) {
    duration = absl::Seconds(seconds);
  } else if (!absl::ParseDuration(text, &duration)) {
    return absl::InvalidArgumentError("must be seconds, or a time such as 500ms, 30s or 2m");
  }
  // A NaN of seconds becomes an infinite duration.
  if (duration <= absl::ZeroDuration() || duration > absl::Hours(24)) {
    return absl::InvalidArgumentError("must be above 0 and at most 24h");
  }
  return duration;
}

absl::StatusOr<Command> ParseCommand(absl::string_view name) {
  if (name == "--help" || name == "-h") return Command::kHelp;
  if (name == "--version") return Command::kVersion;
  std::vector<std::string> known;
  for (const CommandText& text : AllCommands()) {
    if (name == text.name) return text.command;
    known.emplace_back(text.name);
  }
  return UsageError(absl::StrCat("there is no command ", name), NearestWord(name, known));
}

absl::StatusOr<Options> ParseOptions(absl::Span<const std::string> arguments) {
  Options options;
  if (arguments.empty()) {
    return UsageError("a command is missing; `hapmoe help` lists them", "");
  }
  absl::StatusOr<Command> command = ParseCommand(arguments[0]);
  if (!command.ok()) return command.status();
  options.command = *command;
  for (size_t i = 1; i < arguments.size(); ++i) {
    const absl::string_view word = arguments[i];
    if (word == "--") {
      options.rest.emplace(arguments.begin() + i + 1, arguments.end());
      break;
    }
    if (word.size() < 2 || word[0] != '-') {
      options.words.emplace_back(word);
      continue;
    }
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(word, absl::MaxSplits('=', 1));
    const bool attached = parts.first.size() < word.size();
    absl::StatusOr<const Option*> option = FindOption(parts.first, *command);
    if (!option.ok()) return option.status();
    const bool is_switch = (*option)->IsSwitch();
    if (is_switch && attached) {
      return UsageError(absl::StrCat(parts.first, " takes no value"), "");
    }
    absl::string_view value = parts.second;
    if (!is_switch && !attached) {
      // A value that looks like an option is more often a forgotten value; `=` can still give it.
      if (i + 1 == arguments.size() || absl::StartsWith(arguments[i + 1], "--")) {
        return UsageError(absl::StrCat(parts.first, " needs a value (", (*option)->value, ")"), "");
      }
      value = arguments[++i];
    }
    if (absl::Status status = (*option)->set(value, options); !status.ok()) {
      return UsageError(absl::StrCat(parts.first, " ", status.message(), ", not \"", value, "\""),
                        "");
    }
  }
  return options;
}

std::string HelpText(Command command) {
  using Align = TextTable::Align;
  const CommandText& text = TextOf(command);
  TextTable table({Align::kLeft, Align::kLeft});
  if (command == Command::kHelp) {
    for (const CommandText& each : AllCommands()) table.AddRow({each.name, each.summary});
    return absl::StrCat(
        "hapmoe plans the training of large models on mixed accelerators.\n\n"
        "Usage: hapmoe COMMAND [OPTION...]\n\n",
        table.Render(2),
        "\n`hapmoe help COMMAND` explains one of them.\n"
        "Exit status: 0 done, 1 infeasible or refused, 2 usage, 3 server unreachable or "
        "failing.\n");
  }
  for (const Option& option : AllOptions()) {
    if (!option.BelongsTo(command)) continue;
    table.AddRow({absl::StrCat(option.short_name, *option.short_name != 0 ? ", " : "", option.name,
                               option.IsSwitch() ? "" : " ", option.value),
                  option.help});
  }
  return absl::StrCat("Usage: ", text.usage, "\n\n", text.summary, ".\n", text.details, "\n",
                      table.Render(2));
}

}  // namespace hapmoe::client
