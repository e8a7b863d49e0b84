#include "client/script_reading/expander.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/script_reading/file_patterns.h"
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

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\n'; }

std::string Quote(absl::string_view text) {
  std::string pattern;
  for (const char c : text) {
    if (absl::StrContains("*?[]\\-!^", c)) pattern.push_back('\\');
    pattern.push_back(c);
  }
  return pattern;
}

// The words of {1..4}, {a,b}: what is between the braces. Empty where it is neither.
std::vector<std::string> BraceItems(absl::string_view inside) {
  std::vector<std::string> items;
  if (absl::StrContains(inside, ',')) {
    int open = 0;
    items.emplace_back();
    for (const char c : inside) {
      open += c == '{' ? 1 : c == '}' ? -1 : 0;
      if (c == ',' && open == 0) {
        items.emplace_back();
      } else {
        items.back().push_back(c);
      }
    }
    return items.size() > 1 ? items : std::vector<std::string>();
  }
  const std::vector<absl::string_view> ends = absl::StrSplit(inside, "..");
  int64_t first = 0;
  int64_t last = 0;
  int64_t step = 1;
  if (ends.size() < 2 || ends.size() > 3 || !absl::SimpleAtoi(ends[0], &first) ||
      !absl::SimpleAtoi(ends[1], &last) ||
      (ends.size() == 3 && (!absl::SimpleAtoi(ends[2], &step) || step == 0))) {
    return {};
  }
  step = std::abs(step);
  if (first > last) step = -step;
  const auto padded = [](absl::string_view text) {
    return text.size() > 1 && absl::StrContains(text.substr(0, 2), '0');
  };
  const size_t width =
      padded(ends[0]) || padded(ends[1]) ? std::max(ends[0].size(), ends[1].size()) : 0;
  for (int64_t i = first; step > 0 ? i <= last : i >= last; i += step) {
    if (items.size() == 10000) return {};
    std::string text = absl::StrCat(std::abs(i));
    const size_t sign = i < 0 ? 1 : 0;
    if (text.size() + sign < width) text.insert(0, width - sign - text.size(), '0');
    items.push_back(absl::StrCat(sign == 1 ? "-" : "", text));
  }
  return items;
}

}  // namespace

std::vector<std::string> Expander::Words(const Word& word) {
  std::vector<Word> words;
  Braces(word, words);
  std::vector<std::string> results;
  for (const Word& each : words) {
    splitting_ = true;
    field_ = {};
    fields_.clear();
    Add(each, false);
    EndField();
    for (const Field& field : std::exchange(fields_, {})) {
      for (std::string& text : Finish(field)) results.push_back(std::move(text));
    }
  }
  return results;
}

std::string Expander::Text(const Word& word) {
  splitting_ = false;
  field_ = {};
  Add(word, false);
  interpreter_.Charge(field_.text.size());
  return std::move(field_.text);
}

std::string Expander::Pattern(const Word& word) {
  splitting_ = false;
  field_ = {};
  Add(word, false);
  return std::move(field_.pattern);
}

// Only braces that hold no expansions are read.
void Expander::Braces(const Word& word, std::vector<Word>& results) {
  for (size_t p = 0; p < word.parts.size(); ++p) {
    const Part& part = word.parts[p];
    if (part.kind != Part::Kind::kText || part.quoted) continue;
    for (size_t i = 0; i < part.text.size(); ++i) {
      if (part.text[i] != '{') continue;
      int open = 0;
      size_t end = i;
      for (; end < part.text.size(); ++end) {
        open += part.text[end] == '{' ? 1 : part.text[end] == '}' ? -1 : 0;
        if (open == 0) break;
      }
      if (end == part.text.size()) {
        // It closes in another part, if at all.
        bool comma = absl::StrContains(part.text.substr(i), ',');
        for (size_t q = p + 1; q < word.parts.size(); ++q) {
          const Part& other = word.parts[q];
          if (other.kind != Part::Kind::kText || other.quoted) continue;
          const size_t close = other.text.find('}');
          comma |= absl::StrContains(other.text.substr(0, close), ',') ||
                   absl::StrContains(other.text.substr(0, close), "..");
          if (close == std::string::npos) continue;
          if (comma) interpreter_.Fail("braces around quotes or expansions are not read");
          break;
        }
        continue;
      }
      const std::vector<std::string> items = BraceItems(part.text.substr(i + 1, end - i - 1));
      if (items.empty()) continue;
      for (const std::string& item : items) {
        if (!interpreter_.Charge(100)) return;
        Word expanded = word;
        expanded.parts[p].text =
            absl::StrCat(part.text.substr(0, i), item, part.text.substr(end + 1));
        Braces(expanded, results);
      }
      return;
    }
  }
  results.push_back(word);
}

void Expander::Add(const Word& word, bool quoted) {
  for (size_t i = 0; i < word.parts.size(); ++i) {
    const Part& part = word.parts[i];
    if (part.kind != Part::Kind::kText) {
      AddPart(part, quoted || part.quoted);
      continue;
    }
    if (quoted || part.quoted) {
      // The quotes of "$@" are no word of their own.
      const bool opens = part.text.empty() && i + 1 < word.parts.size() && word.parts[i + 1].quoted;
      if (!opens) AddQuoted(part.text);
      continue;
    }
    absl::string_view text = part.text;
    if (i == 0 && absl::StartsWith(text, "~") && !field_.present) {
      if (text.size() > 1 && text[1] != '/') {
        interpreter_.Fail("~NAME is not read");
      } else if (text.size() > 1 || word.parts.size() == 1) {
        const Variable* home = shell_.Find("HOME");
        AddQuoted(home != nullptr ? home->value : "");
        text.remove_prefix(1);
      }
    }
    AddUnquoted(text, false);
  }
}

void Expander::AddPart(const Part& part, bool quoted) {
  Value value;
  switch (part.kind) {
    case Part::Kind::kParameter:
      return AddParameter(*part.parameter, quoted);
    case Part::Kind::kBody:
      return Add(*part.expression, true);
    case Part::Kind::kProcess:
      value.words = {interpreter_.UnknownText("a process substitution")};
      break;
    case Part::Kind::kArithmetic: {
      const std::string text = Expander(interpreter_, shell_).Text(*part.expression);
      int unknown = -1;
      const auto number = interpreter_.Arithmetic(shell_, text, part.expression->line, unknown);
      value.words = {unknown >= 0 ? UnknownMark(unknown) : absl::StrCat(number.value_or(0))};
      break;
    }
    default: {
      std::string text = interpreter_.RunSubstitution(shell_, *part.commands, interpreter_.line_);
      while (!text.empty() && text.back() == '\n') text.pop_back();
      value.words = {std::move(text)};
    }
  }
  AddValue(value, quoted);
}

void Expander::AddQuoted(absl::string_view text) {
  field_.present = true;
  absl::StrAppend(&field_.text, text);
  absl::StrAppend(&field_.pattern, Quote(text));
}

std::string Expander::Separators() const {
  const Variable* separators = shell_.Find("IFS");
  return separators != nullptr && separators->is_set ? separators->value : " \t\n";
}

void Expander::AddUnquoted(absl::string_view text, bool split) {
  interpreter_.Charge(text.size());
  if (!split || !splitting_) {
    field_.present |= !text.empty();
    absl::StrAppend(&field_.text, text);
    absl::StrAppend(&field_.pattern, text);
    field_.has_pattern = true;
    return;
  }
  const std::string separators = Separators();
  if (HasUnknown(text)) interpreter_.split_unknown_ = FirstUnknown(text);
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (!absl::StrContains(separators, c)) {
      field_.present = true;
      field_.has_pattern = true;
      field_.text.push_back(c);
      field_.pattern.push_back(c);
    } else if (IsBlank(c)) {
      if (!field_.present) continue;
      EndField();
      // Blanks around another separator belong to it.
      size_t next = i;
      while (next < text.size() && IsBlank(text[next]) &&
             absl::StrContains(separators, text[next])) {
        ++next;
      }
      if (next < text.size() && absl::StrContains(separators, text[next])) i = next;
    } else {
      field_.present = true;
      EndField();
    }
  }
}

void Expander::EndField() {
  if (field_.present) fields_.push_back(std::move(field_));
  field_ = {};
}

void Expander::AddValue(const Value& value, bool quoted) {
  if (value.is_list && (!splitting_ || (quoted && value.words.empty()))) {
    return AddQuoted(absl::StrJoin(value.words, " "));
  }
  for (size_t i = 0; i < value.words.size(); ++i) {
    if (i > 0) EndField();
    if (quoted) {
      AddQuoted(value.words[i]);
    } else {
      AddUnquoted(value.words[i], true);
    }
  }
}

std::vector<std::string> Expander::Finish(const Field& field) {
  if (!field.has_pattern || shell_.no_patterns || !IsPattern(field.pattern)) return {field.text};
  if (HasUnknown(field.text)) {
    interpreter_.split_unknown_ = FirstUnknown(field.text);
    return {field.text};
  }
  interpreter_.Charge(1000);
  std::vector<std::string> names;
  std::string fault;
  for (const std::string& touched : interpreter_.touched_) {
    const std::string base = absl::StartsWith(field.pattern, "/") ? "" : shell_.directory + "/";
    if (MatchesPattern(absl::StrCat(Quote(base), field.pattern), touched)) {
      fault = absl::StrCat("the script itself makes ", touched);
    }
  }
  if (fault.empty()) {
    names = MatchFiles(interpreter_.files_, shell_.directory, field.pattern, fault);
  }
  if (!fault.empty()) interpreter_.Fail(absl::StrCat(field.text, ": ", fault));
  return names.empty() ? std::vector<std::string>{field.text} : names;
}

void Expander::AddParameter(const Parameter& parameter, bool quoted) {
  Value value = Look(parameter);
  const std::string& operation = parameter.operation;
  if (!operation.empty() && absl::StrContains("-=?+", operation.back())) {
    const bool colon = operation.size() == 2;
    std::optional<bool> empty =
        value.words.empty() ? true : IsEmpty(absl::StrJoin(value.words, " "));
    if (colon && !empty.has_value()) {
      value.words = {UnknownMark(FirstUnknown(value.words[0]))};
      return AddValue(value, quoted);
    }
    const bool usable = value.is_set && !(colon && empty.value_or(false));
    if (operation.back() == '+') {
      if (usable) {
        // Words of an operand are split, even where they are plain.
        for (const Part& part : parameter.operand.parts) {
          if (part.kind == Part::Kind::kText && !part.quoted && !quoted) {
            AddUnquoted(part.text, true);
          } else {
            Word one{parameter.operand.line, {part}};
            Add(one, quoted);
          }
        }
      } else if (quoted) {
        AddQuoted("");
      }
      return;
    }
    if (usable) return AddValue(value, quoted);
    if (operation.back() == '?') {
      const std::string why = Expander(interpreter_, shell_).Text(parameter.operand);
      return interpreter_.Fail(absl::StrCat(parameter.name, " must be set (--env ", parameter.name,
                                            "=...)", why.empty() ? "" : ": ", why));
    }
    if (operation.back() == '=') {
      value.words = {Expander(interpreter_, shell_).Text(parameter.operand)};
      AssignDefault(parameter, value.words[0]);
      return AddValue(value, quoted);
    }
    if (quoted && parameter.operand.parts.empty()) AddQuoted("");
    for (const Part& part : parameter.operand.parts) {
      if (part.kind == Part::Kind::kText && !part.quoted && !quoted) {
        AddUnquoted(part.text, true);
      } else {
        Word one{parameter.operand.line, {part}};
        Add(one, quoted);
      }
    }
    return;
  }
  if (!value.is_set && !value.is_list && shell_.refuse_unset) {
    return interpreter_.Fail(absl::StrCat(parameter.name,
                                          " is not set, and set -u ends the script here (--env ",
                                          parameter.name, "=...)"));
  }
  if (operation == ":") {
    value = Slice(parameter, value);
  } else if (!operation.empty()) {
    for (std::string& word : value.words) word = Modify(parameter, word);
  }
  if (value.words.empty() && !value.is_list) value.words = {""};
  const bool joined = parameter.subscript == Parameter::Subscript::kAllJoined ||
                      (parameter.name == "*" && parameter.subscript == Parameter::Subscript::kNone);
  if (value.is_list && joined && quoted) {
    value.is_list = false;
    value.words = {absl::StrJoin(value.words, Separators().substr(0, 1))};
  }
  if (value.is_list && quoted && value.words.empty()) return;
  AddValue(value, quoted);
}

void Expander::AssignDefault(const Parameter& parameter, const std::string& value) {
  if (!IsNameStart(parameter.name[0]) || parameter.subscript != Parameter::Subscript::kNone ||
      parameter.indirect) {
    return interpreter_.Fail("${...=...} of a form that is not read");
  }
  interpreter_.SetValue(shell_, parameter.name, value);
}

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
    const int64_t first = *start < 0 ? size + *start : *start;
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
  const int64_t first = *start < 0 ? size + *start : *start;
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
