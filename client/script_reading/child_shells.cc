// Shells that a script starts: bash, and files that are run by their names.
#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/script_reading/interpreter.h"

namespace hapmoe::client::shell {

// The shell of a program that is started: it inherits what is exported.
Shell Interpreter::Child(const Shell& shell) const {
  Shell child;
  for (const auto& [name, variable] : shell.variables) {
    if (variable.exported && variable.is_set && !variable.is_array && !variable.is_map) {
      child.variables[name].is_set = true;
      child.variables[name].exported = true;
      child.variables[name].value = variable.value;
    }
  }
  child.directory = shell.directory;
  child.variables["PWD"].is_set = true;
  child.variables["PWD"].value = shell.directory;
  child.input = shell.input;
  child.output = shell.output;
  return child;
}

void Interpreter::RunChild(Shell& shell, Shell child, const std::string& text,
                           const std::string& what) {
  const int line = line_;
  if (++depth_ > 200) Fail("nested too deep");
  Charge(shell.variables.size() * 20);
  if (!failed()) {
    RunText(child, text, 1);
    const std::string trap = std::exchange(child.exit_trap, "");
    if (!trap.empty() && !failed()) RunText(child, trap, line_);
    // The line is one of that text.
    if (failed() && !absl::StrContains(fault_.what, " (in ")) {
      absl::StrAppend(&fault_.what, " (in ", what, ", run at line ", line, ")");
    }
  }
  --depth_;
  line_ = line;
  shell.status = child.status;
}

void Interpreter::RunFile(Shell& shell, const std::string& path,
                          const std::vector<std::string>& arguments) {
  std::string text;
  if (!ReadText(shell, path, text)) {
    if (!failed()) Note(absl::StrCat(path, " is not there and is passed over"));
    shell.status = {127, -1};
    return;
  }
  Shell child = Child(shell);
  child.name = path;
  child.sources = {path};
  child.arguments = arguments;
  RunChild(shell, std::move(child), text, path);
}

void Interpreter::RunBash(Shell& shell, std::vector<std::string> words) {
  Shell child = Child(shell);
  child.name = words[0];
  bool command = false;
  bool from_input = false;
  size_t at = 1;
  for (; at < words.size() && words[at].size() > 1 && (words[at][0] == '-' || words[at][0] == '+');
       ++at) {
    const std::string& word = words[at];
    if (word == "--") {
      ++at;
      break;
    }
    if (absl::StartsWith(word, "--")) continue;  // --login, --norc and the like.
    for (const char option : word.substr(1)) {
      if (option == 'c') {
        command = true;
      } else if (option == 's') {
        from_input = true;
      } else if (option == 'l' || option == 'i') {
      } else if (option == 'o' || option == 'O') {
        if (at + 1 < words.size()) RunSet(child, {"set", "-o", words[++at]});
        break;
      } else {
        RunSet(child, {"set", std::string(1, word[0]) + option});
      }
    }
  }
  if (command) {
    if (at >= words.size()) {
      shell.status = {2, -1};
      return;
    }
    const std::string text = words[at++];
    if (HasUnknown(text)) return FailFor(FirstUnknown(text), "a command");
    if (at < words.size()) child.name = words[at++];
    child.arguments.assign(words.begin() + at, words.end());
    return RunChild(shell, std::move(child), text, "a command");
  }
  if (at < words.size() && !from_input) {
    for (const bool option : {child.exit_on_error, child.refuse_unset, child.pipe_fails,
                              child.export_all, child.no_patterns}) {
      if (option) return Fail("options of bash before a file are not read");
    }
    return RunFile(shell, words[at], {words.begin() + at + 1, words.end()});
  }
  child.arguments.assign(words.begin() + std::min(at, words.size()), words.end());
  const std::string text =
      shell.input->text.substr(std::min(shell.input->at, shell.input->text.size()));
  shell.input->at = shell.input->text.size();
  if (HasUnknown(text)) return FailFor(FirstUnknown(text), "what bash reads");
  child.input = std::make_shared<Input>();
  RunChild(shell, std::move(child), text, "what bash reads");
}

// A file of the job, run by its name.
void Interpreter::RunExecutable(Shell& shell, const std::vector<std::string>& words) {
  std::string text;
  if (!ReadText(shell, words[0], text)) {
    if (!failed()) Note(absl::StrCat(words[0], " is not there and is passed over"));
    shell.status = {127, -1};
    return;
  }
  const std::string first = text.substr(0, text.find('\n'));
  if (absl::StartsWith(first, "#!") && !absl::StrContains(first, "bash") &&
      !absl::EndsWith(first, "/sh")) {
    if (!absl::StrContains(first, "python")) {
      return Fail(absl::StrCat(words[0], " is no script of bash"));
    }
    std::vector<std::string> rest = words;
    rest.insert(rest.begin(), "python3");
    return RunPython(shell, rest);
  }
  if (text.compare(0, 4,
                   "\x7f"
                   "ELF") == 0)
    return Fail(absl::StrCat(words[0], " is a program"));
  if (absl::StartsWith(first, "#!") && absl::StrContains(first, " -")) {
    return Fail(absl::StrCat("options in the first line of ", words[0], " are not read"));
  }
  RunFile(shell, words[0], {words.begin() + 1, words.end()});
}

}  // namespace hapmoe::client::shell
