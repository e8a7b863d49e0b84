// Values of parameters, and what expansions do to them.
#include <algorithm>
#include <cstddef>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/script_reading/expander.h"
#include "client/script_reading/pattern.h"
#include "client/script_reading/word_parser.h"

namespace hapmoe::client::shell {
namespace {

// ${x/a*/b} tries all parts of a text.
constexpr size_t kMaxPatternText = 1024;

// Variables of bash that differ from run to run, or from machine to machine.
constexpr absl::string_view kMachineVariables[] = {
    "RANDOM",       "SRANDOM",        "SECONDS",
    "BASHPID",      "PPID",           "UID",
    "EUID",         "HOSTTYPE",       "OSTYPE",
    "MACHTYPE",     "BASH_VERSION",   "BASH_VERSINFO",
    "EPOCHSECONDS", "LINENO",         "EPOCHREALTIME",
    "GROUPS",       "SHLVL",          "BASH",
    "COLUMNS",      "LINES",          "DIRSTACK",
    "PIPESTATUS",   "BASH_COMMAND",   "SHELLOPTS",
    "BASHOPTS",     "COMP_WORDBREAKS"};

}  // namespace

Expander::Value Expander::LookSpecial(char name) {
  Value value;
  switch (name) {
    case '@':
    case '*':
      value.is_list = true;
      value.words = shell_.arguments;
      value.is_set = !value.words.empty();
      break;
    case '#':
      value.words = {absl::StrCat(shell_.arguments.size())};
      break;
    case '?':
      value.words = {shell_.status.unknown >= 0 ? UnknownMark(shell_.status.unknown)
                                                : absl::StrCat(shell_.status.code)};
      break;
    default:
      value.words = {interpreter_.UnknownText(absl::StrCat("$", std::string(1, name)))};
  }
  return value;
}

Expander::Value Expander::LookNamed(const std::string& name) {
  Value value;
  if (absl::ascii_isdigit(name[0])) {
    size_t number = 0;
    value.is_set = absl::SimpleAtoi(name, &number) && number <= shell_.arguments.size();
    if (value.is_set) value.words = {number == 0 ? shell_.name : shell_.arguments[number - 1]};
    return value;
  }
  if (name.size() == 1 && !IsNameStart(name[0])) return LookSpecial(name[0]);
  if (name == "BASH_SOURCE" || name == "FUNCNAME") {
    const std::vector<std::string>& stack = name == "FUNCNAME" ? shell_.calls : shell_.sources;
    value.is_set = !stack.empty();
    if (value.is_set) value.words = {stack.back()};
    return value;
  }
  const Variable* variable = shell_.Find(name);
  if (variable == nullptr) {
    value.is_set = std::find(std::begin(kMachineVariables), std::end(kMachineVariables), name) !=
                   std::end(kMachineVariables);
    if (value.is_set || name == "_") {
      value.is_set = true;
      value.words = {interpreter_.UnknownText(absl::StrCat("$", name))};
    }
    return value;
  }
  value.is_set = variable->is_set;
  if (variable->is_array) {
    const auto first = variable->items.find(0);
    value.is_set = first != variable->items.end();
    if (value.is_set) value.words = {first->second};
  } else if (variable->is_map) {
    const auto first = variable->entries.find("0");
    value.is_set = first != variable->entries.end();
    if (value.is_set) value.words = {first->second};
  } else if (value.is_set) {
    value.words = {variable->value};
  }
  return value;
}

Expander::Value Expander::LookArray(const Parameter& parameter) {
  const std::string& name = parameter.name;
  const bool all = parameter.subscript != Parameter::Subscript::kIndex;
  Value value;
  value.is_list = all;
  std::map<int64_t, std::string> items;
  const Variable* variable = shell_.Find(name);
  if (name == "BASH_SOURCE" || name == "FUNCNAME") {
    const std::vector<std::string>& stack = name == "FUNCNAME" ? shell_.calls : shell_.sources;
    for (size_t i = 0; i < stack.size(); ++i) items[i] = stack[stack.size() - 1 - i];
  } else if (variable == nullptr) {
    value = LookNamed(name);  // One that differs from machine to machine, or none.
    value.is_list = all;
    if (value.is_set) return value;
  } else if (variable->is_map) {
    if (!all) {
      const auto entry =
          variable->entries.find(Expander(interpreter_, shell_).Text(parameter.index));
      value.is_set = entry != variable->entries.end();
      if (value.is_set) value.words = {entry->second};
      return value;
    }
    // bash has an order of its own.
    if (variable->entries.size() > 1) {
      interpreter_.Fail(absl::StrCat("the order of what is in ", name, " is not read"));
    }
    for (const auto& [key, entry] : variable->entries) {
      value.words.push_back(parameter.indirect ? key : entry);
    }
    value.is_set = !value.words.empty();
    return value;
  } else if (variable->is_array) {
    items = variable->items;
  } else if (variable->is_set) {
    items[0] = variable->value;
  }
  interpreter_.Charge(items.size());
  if (!all) {
    std::optional<int64_t> index = Number(parameter.index);
    if (!index.has_value()) return value;
    if (*index < 0 && !items.empty()) *index += items.rbegin()->first + 1;
    const auto item = items.find(*index);
    value.is_set = item != items.end();
    if (value.is_set) value.words = {item->second};
    return value;
  }
  for (const auto& [index, item] : items) {
    value.words.push_back(parameter.indirect ? absl::StrCat(index) : item);
  }
  value.is_set = !value.words.empty();
  return value;
}

std::optional<int64_t> Expander::Number(const Word& word) {
  const std::string text = Expander(interpreter_, shell_).Text(word);
  int unknown = -1;
  const std::optional<int64_t> number =
      interpreter_.Arithmetic(shell_, text, interpreter_.line_, unknown);
  if (unknown >= 0) interpreter_.FailFor(unknown, "an index");
  return number;
}

Expander::Value Expander::Look(const Parameter& parameter) {
  Value value = parameter.subscript == Parameter::Subscript::kNone ? LookNamed(parameter.name)
                                                                   : LookArray(parameter);
  if (parameter.indirect && !(value.is_list && parameter.name != "@" && parameter.name != "*")) {
    const std::string name = value.words.empty() ? "" : value.words[0];
    const bool simple = !name.empty() && (std::all_of(name.begin(), name.end(), IsNameCharacter));
    if (!simple) {
      if (HasUnknown(name)) {
        interpreter_.FailFor(FirstUnknown(name), "the name of a variable");
      } else {
        interpreter_.Fail("${!...} of a form that is not read");
      }
      return {};
    }
    value = LookNamed(name);
  }
  if (!parameter.length) return value;
  if (value.is_list) return Value{{absl::StrCat(value.words.size())}, false, true};
  if (!value.is_set && shell_.refuse_unset) return value;
  const std::string text = value.words.empty() ? "" : value.words[0];
  if (HasUnknown(text)) return Value{{UnknownMark(FirstUnknown(text))}, false, true};
  return Value{{absl::StrCat(text.size())}, false, true};
}

Expander::Value Expander::Slice(const Parameter& parameter, const Value& value) {
  const std::optional<int64_t> start = Number(parameter.operand);
  const std::optional<int64_t> count =
      parameter.has_second ? Number(parameter.second) : std::optional<int64_t>();
  if (!start.has_value() || (parameter.has_second && !count.has_value())) return value;
  Value result = value;
  if (value.is_list) {
    std::vector<std::string> words = value.words;
    const bool arguments = parameter.name == "@" || parameter.name == "*";
    if (arguments) words.insert(words.begin(), shell_.name);
    const auto size = static_cast<int64_t>(words.size());
    const int64_t first = std::min(*start < 0 ? size + *start : *start, size);
    if (parameter.has_second && *count < 0) {
      interpreter_.Fail("a negative length is not read");
    }
    result.words.clear();
    const int64_t last = parameter.has_second && *count < size ? first + *count : size;
    for (int64_t i = first; first >= 0 && i < std::min(last, size); ++i) {
      result.words.push_back(words[i]);
    }
    return result;
  }
  const std::string text = value.words.empty() ? "" : value.words[0];
  if (HasUnknown(text)) return Value{{UnknownMark(FirstUnknown(text))}, false, true};
  const auto size = static_cast<int64_t>(text.size());
  const int64_t first = std::min(*start < 0 ? size + *start : *start, size);
  int64_t last = size;
  if (parameter.has_second) {
    last = *count < 0 ? size + *count : *count > size ? size : first + *count;
  }
  last = std::min(last, size);
  if (parameter.has_second && *count < 0 && last < first) {
    interpreter_.Fail("a negative length beyond the start");
  }
  result.words = {first < 0 || first >= last ? "" : text.substr(first, last - first)};
  return result;
}

std::string Expander::Modify(const Parameter& parameter, const std::string& value) {
  const std::string& operation = parameter.operation;
  if (HasUnknown(value)) return UnknownMark(FirstUnknown(value));
  const std::string pattern = Expander(interpreter_, shell_).Pattern(parameter.operand);
  if (HasUnknown(pattern)) return UnknownMark(FirstUnknown(pattern));
  if (operation[0] == '^' || operation[0] == ',') {
    if (!pattern.empty()) interpreter_.Fail("${x^...} with a pattern is not read");
    std::string text = value;
    const size_t end = operation.size() == 2 ? text.size() : std::min<size_t>(1, text.size());
    for (size_t i = 0; i < end; ++i) {
      text[i] = operation[0] == '^' ? absl::ascii_toupper(text[i]) : absl::ascii_tolower(text[i]);
    }
    return text;
  }
  if (pattern.size() > kMaxPatternText || value.size() > kMaxPatternText) {
    interpreter_.Fail("a text of this length is not searched");
    return "";
  }
  if (!interpreter_.Charge(value.size() * value.size() *
                           (1 + pattern.size() + (IsPattern(pattern) ? value.size() / 8 : 0)))) {
    return "";
  }
  if (operation[0] != '/') return RemoveMatch(value, pattern, operation);
  const std::string replacement = Expander(interpreter_, shell_).Text(parameter.second);
  if (HasUnknown(replacement)) return UnknownMark(FirstUnknown(replacement));
  if (absl::StrContains(replacement, '&')) {
    interpreter_.Fail("\"&\" in a replacement is not read");
  }
  return ReplaceMatches(value, pattern, replacement, operation);
}

}  // namespace hapmoe::client::shell
