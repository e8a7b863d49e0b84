// Builtins of bash.
#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/script_reading/file_patterns.h"
#include "client/script_reading/interpreter.h"
#include "client/script_reading/tools.h"

namespace hapmoe::client::shell {
namespace {

namespace fs = std::filesystem;

// Builtins that change nothing that a launch depends on.
constexpr absl::string_view kIdle[] = {"wait", "kill",  "disown", "umask", "hash",
                                       "bind", "times", "bg",     "fg",    "history"};

template <class List>
bool Contains(const List& list, absl::string_view word) {
  return std::find(std::begin(list), std::end(list), word) != std::end(list);
}

}  // namespace

bool Interpreter::RunBuiltin(Shell& shell, const std::vector<std::string>& words, Flow& flow) {
  const std::string& name = words[0];
  const ExitStatus before = shell.status;
  shell.status = {};
  if (name == ":" || name == "true" || Contains(kIdle, name)) return true;
  if (name == "false") {
    shell.status.code = 1;
  } else if (name == "echo" || name == "printf") {
    RunPrint(shell, words);
  } else if (name == "pwd") {
    Write(shell, absl::StrCat(shell.directory, "\n"));
  } else if (name == "test" || name == "[") {
    std::vector<std::string> operands(words.begin() + 1, words.end());
    if (name == "[") {
      if (operands.empty() || operands.back() != "]") {
        shell.status.code = 2;
        return true;
      }
      operands.pop_back();
    }
    int unknown = -1;
    const std::optional<bool> value = Test(shell, operands, unknown);
    shell.status = {value.has_value() ? (*value ? 0 : 1) : 2, unknown};
  } else if (name == "break" || name == "continue" || name == "exit" || name == "return") {
    shell.status = before;
    flow = RunJump(shell, words);
  } else if (name == "set") {
    RunSet(shell, words);
  } else if (name == "shopt") {
    RunShopt(words);
  } else if (name == "shift") {
    size_t count = 1;
    if (words.size() > 1 && !absl::SimpleAtoi(words[1], &count)) Fail("shift by what is no number");
    if (count > shell.arguments.size()) {
      shell.status.code = 1;
    } else {
      shell.arguments.erase(shell.arguments.begin(), shell.arguments.begin() + count);
    }
  } else if (name == "cd" || name == "pushd" || name == "popd") {
    RunDirectory(shell, words);
  } else if (name == "unset") {
    RunUnset(shell, words);
  } else if (name == "source" || name == ".") {
    flow = RunSource(shell, words);
  } else if (name == "eval") {
    const std::string text = absl::StrJoin(words.begin() + 1, words.end(), " ");
    if (HasUnknown(text)) FailFor(FirstUnknown(text), "eval");
    shell.status = before;
    if (absl::StripAsciiWhitespace(text).empty()) shell.status = {};
    if (!failed()) flow = RunText(shell, text, line_);
  } else if (name == "exec") {
    if (words.size() == 1) return true;
    if (absl::StartsWith(words[1], "-")) Fail("options of exec are not read");
    RunProgram(shell, {words.begin() + 1, words.end()});
    flow = Flow::kExit;
    shell.exit_trap.clear();
  } else if (name == "trap") {
    for (size_t i = 2; i < words.size(); ++i) {
      if (words[i] == "EXIT" || words[i] == "0") {
        shell.exit_trap = words[1] == "-" ? "" : words[1];
      } else if (words[i] == "DEBUG" || words[i] == "RETURN") {
        Fail(absl::StrCat("trap ", words[i], " is not read"));
      }
    }
  } else if (name == "read") {
    RunRead(shell, words);
  } else if (name == "mapfile" || name == "readarray") {
    RunMapFile(shell, words);
  } else if (name == "let") {
    int unknown = -1;
    std::optional<int64_t> value;
    for (size_t i = 1; i < words.size(); ++i) value = Arithmetic(shell, words[i], line_, unknown);
    shell.status = {value.value_or(0) != 0 ? 0 : 1, unknown};
  } else if (name == "getopts") {
    RunGetOptions(shell, words);
  } else if (name == "command" || name == "builtin" || name == "type" || name == "which") {
    if (name != "type" && name != "which" && words.size() > 1 && words[1][0] != '-') {
      const std::vector<std::string> rest(words.begin() + 1, words.end());
      if (!RunBuiltin(shell, rest, flow)) RunProgram(shell, rest);
      return true;
    }
    RunCommandLookup(shell, words);
  } else if (name == "ulimit") {
    if (words.size() < 3) Write(shell, absl::StrCat(UnknownText("ulimit"), "\n"));
  } else if (name == "jobs" || name == "dirs" || name == "caller" || name == "alias" ||
             name == "unalias" || name == "enable" || name == "compgen" || name == "fc") {
    Write(shell, UnknownText(name));
    shell.status.unknown = NewUnknown(name);
  } else {
    shell.status = before;
    return false;
  }
  return true;
}

Flow Interpreter::RunJump(Shell& shell, const std::vector<std::string>& words) {
  const std::string& name = words[0];
  if (name == "exit" || name == "return") {
    if (words.size() > 1) {
      int code = 0;
      if (HasUnknown(words[1])) {
        shell.status = {0, FirstUnknown(words[1])};
      } else if (absl::SimpleAtoi(words[1], &code)) {
        shell.status = {code & 255, -1};
      } else {
        shell.status = {2, -1};
      }
    }
    if (name == "exit") return Flow::kExit;
    if (shell.calls.empty() && shell.sources.size() < 2) {
      Fail("return outside of a function");
      return Flow::kExit;
    }
    return Flow::kReturn;
  }
  shell.status = {};
  int levels = 1;
  if (words.size() > 1 && !absl::SimpleAtoi(words[1], &levels)) levels = 0;
  if (levels != 1) Fail(absl::StrCat(name, " of several loops is not read"));
  if (shell.loops == 0) return Flow::kNext;
  return name == "break" ? Flow::kBreak : Flow::kContinue;
}

void Interpreter::RunPrint(Shell& shell, std::vector<std::string> words) {
  std::string variable;
  if (words[0] == "printf" && words.size() > 2 && words[1] == "-v") {
    variable = words[2];
    words.erase(words.begin() + 1, words.begin() + 3);
  }
  if (words[0] == "printf" && words.size() > 1 && words[1] == "--") words.erase(words.begin() + 1);
  if (shell.output == nullptr && variable.empty()) return;
  std::string text;
  const std::string fault = words[0] == "echo" ? EchoText(words, text) : PrintfText(words, text);
  if (!fault.empty()) text = UnknownText(fault);
  if (!variable.empty()) return SetValue(shell, variable, std::move(text));
  Write(shell, text);
}

void Interpreter::RunSet(Shell& shell, const std::vector<std::string>& words) {
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    const bool on = word[0] == '-';
    if (word.size() < 2 || (word[0] != '-' && word[0] != '+') || word == "--") {
      shell.arguments.assign(words.begin() + i + (word == "--" || word == "-" ? 1 : 0),
                             words.end());
      return;
    }
    for (size_t c = 1; c < word.size(); ++c) {
      std::string option(1, word[c]);
      if (option == "o") {
        if (i + 1 >= words.size()) return;
        option = words[++i];
      }
      if (option == "e" || option == "errexit") {
        shell.exit_on_error = on;
      } else if (option == "u" || option == "nounset") {
        shell.refuse_unset = on;
      } else if (option == "pipefail") {
        shell.pipe_fails = on;
      } else if (option == "a" || option == "allexport") {
        shell.export_all = on;
      } else if (option == "f" || option == "noglob") {
        shell.no_patterns = on;
      } else if (option != "x" && option != "v" && option != "m" && option != "b" &&
                 option != "h" && option != "xtrace" && option != "verbose" &&
                 option != "monitor" && option != "E" && option != "errtrace") {
        Fail(absl::StrCat("set ", on ? "-" : "+", option, " is not read"));
      }
    }
  }
}

void Interpreter::RunShopt(const std::vector<std::string>& words) {
  for (size_t i = 1; i < words.size(); ++i) {
    for (const absl::string_view option :
         {"nullglob", "extglob", "globstar", "dotglob", "failglob", "nocaseglob", "nocasematch",
          "expand_aliases", "lastpipe", "inherit_errexit"}) {
      if (words[i] == option && words[1] != "-u") {
        Fail(absl::StrCat("shopt ", option, " is not read"));
      }
    }
  }
}

void Interpreter::RunDirectory(Shell& shell, const std::vector<std::string>& words) {
  if (words[0] != "cd") {
    // Their stack is not kept.
    if (words.size() < 2 || words[0] == "popd") return Fail(words[0] + " is not read");
  }
  size_t at = 1;
  while (at < words.size() && (words[at] == "--" || words[at] == "-P" || words[at] == "-L")) ++at;
  std::string target;
  if (at < words.size()) {
    target = words[at];
  } else if (const Variable* home = shell.Find("HOME"); home != nullptr) {
    target = home->value;
  }
  if (target == "-") {
    const Variable* old = shell.Find("OLDPWD");
    target = old != nullptr ? old->value : "";
  }
  if (HasUnknown(target)) return FailFor(FirstUnknown(target), "the current directory");
  if (target.empty()) return;
  const std::string path = Absolute(shell, target);
  std::error_code error;
  if (files_.IsShown(path)) {
    if (Touched(path)) return Fail(absl::StrCat(target, " is changed by the script itself"));
    if (!fs::is_directory(path, error)) {
      shell.status.code = 1;
      return;
    }
  } else if (!IsOfSystem(path) && path != "/tmp") {
    Note(absl::StrCat("the directory ", target, " is taken to be there"));
    assumed_.insert(path);
  }
  shell.variables["OLDPWD"].is_set = true;
  shell.variables["OLDPWD"].value = shell.directory;
  shell.directory = path;
  shell.variables["PWD"].is_set = true;
  shell.variables["PWD"].value = path;
}

void Interpreter::RunUnset(Shell& shell, const std::vector<std::string>& words) {
  bool functions = false;
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "-f") functions = true;
    if (absl::StartsWith(word, "-")) continue;
    if (HasUnknown(word)) return FailFor(FirstUnknown(word), "unset");
    if (functions) {
      shell.functions.erase(word);
      continue;
    }
    const size_t bracket = word.find('[');
    if (bracket == std::string::npos) {
      const auto it = shell.variables.find(word);
      if (it != shell.variables.end() && it->second.is_read_only) {
        return Fail(absl::StrCat(word, " is read-only"));
      }
      if (it != shell.variables.end()) {
        shell.variables.erase(it);
      } else {
        shell.functions.erase(word);
      }
      continue;
    }
    const std::string index = word.substr(bracket + 1, word.size() - bracket - 2);
    const auto it = shell.variables.find(word.substr(0, bracket));
    if (it == shell.variables.end()) continue;
    if (it->second.is_map) {
      it->second.entries.erase(index);
      continue;
    }
    int unknown = -1;
    const std::optional<int64_t> number = Arithmetic(shell, index, line_, unknown);
    if (unknown >= 0) return FailFor(unknown, "an index");
    if (number.has_value()) it->second.items.erase(*number);
  }
}

Flow Interpreter::RunSource(Shell& shell, const std::vector<std::string>& words) {
  if (words.size() < 2) {
    shell.status.code = 2;
    return Flow::kNext;
  }
  if (HasUnknown(words[1])) {
    FailFor(FirstUnknown(words[1]), "the name of a file");
    return Flow::kExit;
  }
  std::string text;
  if (!ReadText(shell, words[1], text)) {
    if (!failed()) Note(absl::StrCat(words[1], " is not there and is passed over"));
    shell.status.code = 1;
    return Flow::kNext;
  }
  const int line = line_;
  std::vector<std::string> arguments = shell.arguments;
  if (words.size() > 2) shell.arguments.assign(words.begin() + 2, words.end());
  shell.sources.push_back(words[1]);
  const int loops = std::exchange(shell.loops, 0);
  shell.status = {};
  if (++depth_ > 200) Fail("nested too deep");
  Flow flow = failed() ? Flow::kExit : RunText(shell, text, 1);
  --depth_;
  if (failed() && !absl::StrContains(fault_.what, " (in ")) {
    // The line is one of that file.
    absl::StrAppend(&fault_.what, " (in ", words[1], ", sourced at line ", line, ")");
  }
  shell.loops = loops;
  shell.sources.pop_back();
  if (words.size() > 2) shell.arguments = std::move(arguments);
  line_ = line;
  return flow == Flow::kReturn ? Flow::kNext : flow;
}

}  // namespace hapmoe::client::shell
