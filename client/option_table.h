// Every command and every option of the command line, with their texts of help.
#ifndef HAPMOE_CLIENT_OPTION_TABLE_H_
#define HAPMOE_CLIENT_OPTION_TABLE_H_

#include <cstdint>

#include "absl/types/span.h"
#include "client/option_setters.h"
#include "client/options.h"

namespace hapmoe::client::command_line {

// A set of commands.
constexpr uint32_t Bit(Command command) { return 1u << static_cast<int>(command); }

// One option. `value` names its value in the help text; an option without is a switch.
struct Option {
  const char* name;
  const char* short_name;
  const char* value;
  uint32_t commands;
  const char* help;
  Setter set;
  const char* choices = "";  // The values that there are, between blanks; none: any.

  bool IsSwitch() const { return *value == 0; }
  bool BelongsTo(Command command) const { return (commands & Bit(command)) != 0; }
};

// A command as its help shows it.
struct CommandText {
  Command command;
  const char* name;
  const char* summary;
  const char* usage;
  const char* details;
  const char* words = "";  // What its first word may be, between blanks; none: it takes no word.
};

// In the order in which the help lists them.
absl::Span<const Option> AllOptions();
absl::Span<const CommandText> AllCommands();

const CommandText& TextOf(Command command);

}  // namespace hapmoe::client::command_line

#endif  // HAPMOE_CLIENT_OPTION_TABLE_H_
