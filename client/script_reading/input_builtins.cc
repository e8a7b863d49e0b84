// Builtins that read: input, the script's options, and what a name stands for.
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/script_reading/interpreter.h"
#include "client/script_stubs.h"

namespace hapmoe::client::shell {
namespace {

template <class List>
bool Contains(const List& list, absl::string_view word) {
  return std::find(std::begin(list), std::end(list), word) != std::end(list);
}

}  // namespace

void Interpreter::RunRead(Shell& shell, const std::vector<std::string>& words) {
  std::vector<std::string> names;
  std::string array;
  char end = '\n';
  bool whole = false;
  bool raw = false;
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word.size() < 2 || word[0] != '-') {
      names.push_back(word);
      continue;
    }
    for (size_t c = 1; c < word.size(); ++c) {
      if (word[c] == 'r') {
        raw = true;
      } else if (word[c] == 's' || word[c] == 'e') {
      } else if (absl::StrContains("adpt", word[c])) {
        std::string value = word.substr(c + 1);
        if (value.empty() && i + 1 < words.size()) value = words[++i];
        if (word[c] == 'a') array = value;
        if (word[c] == 'd') {
          whole = value.empty();
          end = whole ? '\0' : value[0];
        }
        break;
      } else {
        return Fail(absl::StrCat("read ", word, " is not read"));
      }
    }
  }
  Input& input = *shell.input;
  const size_t stop = input.text.find(end, input.at);
  std::string text = input.text.substr(std::min(input.at, input.text.size()),
                                       stop == std::string::npos ? stop : stop - input.at);
  shell.status.code = stop == std::string::npos ? 1 : 0;
  input.at = stop == std::string::npos ? input.text.size() : stop + 1;
  if (!Charge(text.size() + 1)) return;
  if (HasUnknown(text)) {
    const int unknown = FirstUnknown(text);
    if (shell.loops > 0 || shell.unchecked > 0) return FailFor(unknown, "what is read");
    for (const std::string& name : names) SetValue(shell, name, UnknownMark(unknown));
    if (!array.empty()) FailFor(unknown, "what is read");
    return;
  }
  if (!raw && absl::StrContains(text, '\\')) return Fail("read without -r of a backslash");
  if (names.empty() && array.empty()) return SetValue(shell, "REPLY", std::move(text));
  // Splitting is that of expansions, but for the last name, which takes the rest.
  const Variable* ifs = shell.Find("IFS");
  const std::string separators = ifs != nullptr && ifs->is_set ? ifs->value : " \t\n";
  const auto blank = [&separators](char c) {
    return absl::ascii_isspace(c) && absl::StrContains(separators, c);
  };
  size_t at = 0;
  size_t last = text.size();
  while (last > 0 && blank(text[last - 1])) --last;
  std::vector<std::string> fields;
  while (true) {
    while (at < last && blank(text[at])) ++at;
    if (at >= last) break;
    if (array.empty() && fields.size() + 1 == names.size()) {
      std::string rest = text.substr(at, last - at);
      // One separator at the end belongs to the last field.
      const size_t inner = rest.find_first_of(separators);
      if (!separators.empty() && inner == rest.size() - 1) rest.pop_back();
      fields.push_back(std::move(rest));
      break;
    }
    size_t next = at;
    while (next < last && !absl::StrContains(separators, text[next])) ++next;
    fields.push_back(text.substr(at, next - at));
    at = next;
    while (at < last && blank(text[at])) ++at;
    if (at < last && absl::StrContains(separators, text[at])) ++at;
  }
  if (!array.empty()) {
    Variable& variable = shell.variables[array];
    variable = {};
    variable.is_set = variable.is_array = true;
    for (size_t i = 0; i < fields.size(); ++i) variable.items[i] = fields[i];
    return;
  }
  fields.resize(names.size());
  for (size_t i = 0; i < names.size(); ++i) SetValue(shell, names[i], fields[i]);
}

void Interpreter::RunMapFile(Shell& shell, const std::vector<std::string>& words) {
  std::string name = "MAPFILE";
  bool strip = false;
  for (size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "-t") {
      strip = true;
    } else if (absl::StartsWith(words[i], "-")) {
      return Fail(absl::StrCat(words[0], " ", words[i], " is not read"));
    } else {
      name = words[i];
    }
  }
  Input& input = *shell.input;
  const std::string text = input.text.substr(std::min(input.at, input.text.size()));
  input.at = input.text.size();
  if (HasUnknown(text)) return FailFor(FirstUnknown(text), "the number of lines");
  Charge(text.size());
  Variable& variable = shell.variables[name];
  variable = {};
  variable.is_set = variable.is_array = true;
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  const bool open = !lines.back().empty();
  if (!open) lines.pop_back();
  for (size_t i = 0; i < lines.size(); ++i) {
    const bool ended = !open || i + 1 < lines.size();
    variable.items[i] = strip || !ended ? lines[i] : absl::StrCat(lines[i], "\n");
  }
}

// command -v, command -V, type.
void Interpreter::RunCommandLookup(Shell& shell, const std::vector<std::string>& words) {
  shell.status.code = 1;
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string& name = words[i];
    if (absl::StartsWith(name, "-")) continue;
    if (HasUnknown(name)) return FailFor(FirstUnknown(name), "the name of a command");
    if (shell.functions.count(name) > 0) {
      shell.status.code = 0;
      Write(shell, absl::StrCat(name, "\n"));
    } else if (Contains(SandboxStubs(), name)) {
      shell.status.code = 0;
      Write(shell, absl::StrCat("/usr/bin/", name, "\n"));
    } else if (Contains(SandboxTools(), name) || absl::StrContains(name, '/')) {
      shell.status.unknown = NewUnknown(absl::StrCat("whether there is ", name));
      Write(shell, UnknownText(name));
    }
  }
}

void Interpreter::RunGetOptions(Shell& shell, const std::vector<std::string>& words) {
  if (words.size() < 3) return Fail("getopts of a form that is not read");
  const absl::string_view known = absl::StripPrefix(words[1], ":");
  const bool silent = absl::StartsWith(words[1], ":");
  const std::vector<std::string> operands =
      words.size() > 3 ? std::vector<std::string>(words.begin() + 3, words.end()) : shell.arguments;
  size_t index = 1;
  size_t inside = 1;  // Where in a word of several options.
  if (const Variable* variable = shell.Find("OPTIND"); variable != nullptr) {
    if (!absl::SimpleAtoi(variable->value, &index) || index == 0) index = 1;
  }
  if (const Variable* variable = shell.Find("_hm_inside"); variable != nullptr) {
    (void)absl::SimpleAtoi(variable->value, &inside);
  }
  const auto finish = [&](const std::string& option) {
    SetValue(shell, "OPTIND", absl::StrCat(index));
    SetValue(shell, "_hm_inside", absl::StrCat(inside));
    SetValue(shell, words[2], option);
  };
  shell.variables.erase("OPTARG");
  if (index > operands.size() || operands[index - 1].size() < 2 || operands[index - 1][0] != '-' ||
      operands[index - 1] == "--") {
    if (index <= operands.size() && operands[index - 1] == "--") ++index;
    inside = 1;
    finish("?");
    shell.status.code = 1;
    return;
  }
  const std::string& word = operands[index - 1];
  if (HasUnknown(word)) return FailFor(FirstUnknown(word), "an option");
  const char option = inside < word.size() ? word[inside++] : '?';
  const size_t at = option == ':' ? absl::string_view::npos : known.find(option);
  const bool takes = at != absl::string_view::npos && at + 1 < known.size() && known[at + 1] == ':';
  if (takes) {
    const std::string rest = word.substr(inside);
    inside = 1;
    ++index;
    if (!rest.empty()) {
      SetValue(shell, "OPTARG", rest);
    } else if (index <= operands.size()) {
      SetValue(shell, "OPTARG", operands[index++ - 1]);
    } else {
      if (silent) SetValue(shell, "OPTARG", std::string(1, option));
      return finish(silent ? ":" : "?");
    }
    return finish(std::string(1, option));
  }
  if (inside >= word.size()) {
    inside = 1;
    ++index;
  }
  if (at == absl::string_view::npos) {
    if (silent) SetValue(shell, "OPTARG", std::string(1, option));
    return finish("?");
  }
  finish(std::string(1, option));
}

}  // namespace hapmoe::client::shell
