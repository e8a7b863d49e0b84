// What a shell knows while a script is read: variables, arguments, options. A subshell is a copy.
#ifndef HAPMOE_CLIENT_SCRIPT_READING_STATE_H_
#define HAPMOE_CLIENT_SCRIPT_READING_STATE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/script_reading/syntax.h"

namespace hapmoe::client::shell {

// Values that only a run would tell are marks inside of strings: \1, a number, \2. The number says
// which of the interpreter's unknowns it is. No text of a script holds these characters.
bool HasUnknown(absl::string_view text);
// Number of the first.
int FirstUnknown(absl::string_view text);
std::string UnknownMark(int number);
// Whether the text is empty; nothing where it consists of unknowns alone.
std::optional<bool> IsEmpty(absl::string_view text);

struct Variable {
  bool is_set = false;  // False for `declare x`.
  bool exported = false;
  bool is_integer = false;
  bool is_read_only = false;
  bool is_array = false;
  bool is_map = false;
  std::string value;  // Of neither an array nor a map.
  std::map<int64_t, std::string> items;
  std::map<std::string, std::string> entries;
};

// The outcome of a command: a number, or the number of the unknown that it depends on.
struct ExitStatus {
  int code = 0;
  int unknown = -1;
};

// Text that a command reads.
struct Input {
  std::string text;
  size_t at = 0;
};

struct Function {
  std::shared_ptr<const List> body;
  std::string source;
};

struct Shell {
  std::map<std::string, Variable> variables;
  std::map<std::string, Function> functions;
  std::vector<std::string> arguments;  // $1 and so on.
  std::string name;                    // $0
  std::vector<std::string> sources;    // BASH_SOURCE, the present file last.
  std::vector<std::string> calls;      // FUNCNAME, the present function last.
  // What `local` hides, by function call.
  std::vector<std::map<std::string, std::optional<Variable>>> hidden;
  std::string directory;
  std::string exit_trap;
  ExitStatus status;
  bool exit_on_error = false;
  bool refuse_unset = false;
  bool pipe_fails = false;
  bool export_all = false;
  bool no_patterns = false;
  int unchecked = 0;  // Above 0 in conditions, where errors do not end the shell.
  int loops = 0;
  std::shared_ptr<Input> input;
  std::shared_ptr<std::string> output;  // None: nobody reads it.

  const Variable* Find(const std::string& variable) const {
    const auto it = variables.find(variable);
    return it == variables.end() ? nullptr : &it->second;
  }
};

}  // namespace hapmoe::client::shell

#endif  // HAPMOE_CLIENT_SCRIPT_READING_STATE_H_
