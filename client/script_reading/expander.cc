#include "client/script_reading/expander.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

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

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\n'; }

std::string Quote(absl::string_view text) {
  std::string pattern;
  for (const char c : text) {
    if (absl::StrContains("*?[]\\-!^", c)) pattern.push_back('\\');
    pattern.push_back(c);
  }
  return pattern;
}

constexpr size_t kWordWork = 16;
constexpr size_t kMostBraceItems = 10000;
constexpr int64_t kLargestBraceNumber = int64_t{1} << 40;  // Of any size that scripts have.

// The words of {1..4}, {a,b}: what is between the braces. Empty where it is neither; nothing where
// it is too much.
std::optional<std::vector<std::string>> BraceItems(absl::string_view inside) {
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
    if (items.size() == 1) items.clear();
    return items;
  }
  const std::vector<absl::string_view> ends = absl::StrSplit(inside, "..");
  int64_t first = 0;
  int64_t last = 0;
  int64_t step = 1;
  if (ends.size() < 2 || ends.size() > 3 || !absl::SimpleAtoi(ends[0], &first) ||
      !absl::SimpleAtoi(ends[1], &last) ||
      (ends.size() == 3 && (!absl::SimpleAtoi(ends[2], &step) || step == 0))) {
    return items;
  }
  for (const int64_t number : {first, last, step}) {
    if (number > kLargestBraceNumber || number < -kLargestBraceNumber) return std::nullopt;
  }
  step = std::abs(step);
  if (first > last) step = -step;
  const auto padded = [](absl::string_view text) {
    return text.size() > 1 && absl::StrContains(text.substr(0, 2), '0');
  };
  const size_t width =
      padded(ends[0]) || padded(ends[1]) ? std::max(ends[0].size(), ends[1].size()) : 0;
  for (int64_t i = first; step > 0 ? i <= last : i >= last; i += step) {
    if (items.size() == kMostBraceItems) return std::nullopt;
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
      const auto items = BraceItems(part.text.substr(i + 1, end - i - 1));
      if (!items.has_value()) return interpreter_.Fail("braces of very many words are not read");
      if (items->empty()) continue;
      // Braces come first: $x{1,2} is $x1 and $x2.
      const bool extends = p > 0 && word.parts[p - 1].text == "$" && !word.parts[p - 1].quoted &&
                           std::all_of(part.text.begin(), part.text.begin() + i, IsNameCharacter);
      if (extends) interpreter_.Fail("braces after $NAME are not read; write ${NAME}");
      for (const std::string& item : *items) {
        if (!interpreter_.Charge(100 + part.text.size() + 10 * word.parts.size())) return;
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

void Expander::Add(const Word& word, bool quoted, bool split) {
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
    if (i == 0 && !split && absl::StartsWith(text, "~") && !field_.present) {
      if (text.size() > 1 && text[1] != '/') {
        interpreter_.Fail("~NAME is not read");
      } else if (text.size() > 1 || word.parts.size() == 1) {
        const Variable* home = shell_.Find("HOME");
        AddQuoted(home != nullptr ? home->value : "");
        text.remove_prefix(1);
      }
    }
    AddUnquoted(text, split);
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
  // A word may double what it is made of, so each pays for its memory.
  if (!interpreter_.Charge(kWordWork + text.size())) return;
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
  interpreter_.Charge(kWordWork);
  if (field_.present) fields_.push_back(std::move(field_));
  field_ = {};
}

void Expander::AddValue(const Value& value, bool quoted) {
  if (value.is_list && (!splitting_ || (quoted && value.words.empty()))) {
    return AddQuoted(absl::StrJoin(value.words, " "));
  }
  for (size_t i = 0; i < value.words.size() && !interpreter_.failed(); ++i) {
    if (!quoted && value.words[i].empty() && value.is_list && Separators() != " \t\n") {
      interpreter_.Fail("an empty element between separators of its own is not read");
    }
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
  if (interpreter_.IsAssumed(interpreter_.Absolute(shell_, field.text))) {
    fault = "files of a directory that is only taken to be there";
  }
  if (fault.empty()) {
    names = MatchFiles(interpreter_.files_, shell_.directory, field.pattern, fault);
  }
  if (!fault.empty()) interpreter_.Fail(absl::StrCat(field.text, ": ", fault));
  return names.empty() ? std::vector<std::string>{field.text} : names;
}

// The operand of ${x:-...} and its kin: of it, plain words are split, too.
void Expander::AddOperand(const Word& operand, bool quoted) {
  if (!quoted && !operand.parts.empty() && operand.parts[0].kind == Part::Kind::kText &&
      !operand.parts[0].quoted && absl::StartsWith(operand.parts[0].text, "~")) {
    return interpreter_.Fail("\"~\" inside of ${...} is not read");
  }
  Add(operand, quoted, /*split=*/true);
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
        AddOperand(parameter.operand, quoted);
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
    AddOperand(parameter.operand, quoted);
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

}  // namespace hapmoe::client::shell
