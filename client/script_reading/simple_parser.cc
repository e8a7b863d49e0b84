#include "client/script_reading/simple_parser.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace hapmoe::client::shell {
namespace {

constexpr absl::string_view kDeclarations[] = {"declare", "typeset", "local", "export", "readonly"};

// The text of a word that is nothing but unquoted text; else "".
std::string PlainText(const Word& word) {
  if (word.parts.size() != 1) return "";
  const Part& part = word.parts[0];
  return part.kind == Part::Kind::kText && !part.quoted ? part.text : "";
}

}  // namespace

void SimpleParser::TakeSimple(Command& command) {
  const auto is_declaration = [&command] {
    return !command.words.empty() &&
           std::find(std::begin(kDeclarations), std::end(kDeclarations),
                     PlainText(command.words[0])) != std::end(kDeclarations);
  };
  while (!cursor_.AtEnd()) {
    lines_.SkipBlanks();
    if (cursor_.AtEnd()) break;
    if (TakeRedirection(command)) continue;
    if (absl::StrContains("\n;&|()", cursor_.Peek())) {
      if (cursor_.Peek() == '(') cursor_.Fail("\"(\" is not expected here");
      break;
    }
    Assignment assignment;
    if ((command.words.empty() || is_declaration()) && TakeAssignment(assignment)) {
      if (command.words.empty()) {
        command.assignments.push_back(std::move(assignment));
      } else {
        command.words.push_back(Word{cursor_.line(), {}});
        command.declared.resize(command.words.size());
        command.declared.back() = std::make_shared<Assignment>(std::move(assignment));
      }
      continue;
    }
    command.words.push_back(words_.Take());
    command.declared.resize(command.words.size());
    if (command.words.back().parts.empty()) cursor_.Fail("a word of a form that is not read");
  }
  if (command.words.empty() && command.assignments.empty() && command.redirections.empty()) {
    cursor_.Fail("a command is missing");
  }
}

bool SimpleParser::TakeAssignment(Assignment& assignment) {
  const absl::string_view rest = cursor_.rest();
  if (rest.empty() || !IsNameStart(rest[0])) return false;
  size_t end = 1;
  while (end < rest.size() && IsNameCharacter(rest[end])) ++end;
  size_t after = end;
  if (after < rest.size() && rest[after] == '[') {
    const size_t close = rest.find(']', after);
    if (close == absl::string_view::npos) return false;
    after = close + 1;
  }
  const bool append = absl::StartsWith(rest.substr(after), "+=");
  if (!append && !absl::StartsWith(rest.substr(after), "=")) return false;
  assignment.name = std::string(rest.substr(0, end));
  cursor_.TakeIf(assignment.name);
  if (cursor_.TakeIf("[")) {
    assignment.has_index = true;
    assignment.index = words_.Take("]");
    cursor_.TakeIf("]");
  }
  assignment.append = append;
  cursor_.TakeIf(append ? "+=" : "=");
  if (cursor_.TakeIf("(")) {
    assignment.is_array = true;
    TakeElements(assignment);
  } else {
    assignment.value = words_.Take();
  }
  return true;
}

void SimpleParser::TakeElements(Assignment& assignment) {
  const int line = cursor_.line();
  while (!cursor_.failed()) {
    lines_.SkipLines();
    if (cursor_.AtEnd()) return cursor_.Fail(line, "the array is not closed");
    if (cursor_.TakeIf(")")) return;
    Assignment element;
    if (cursor_.Peek() == '[' && absl::StrContains(lines_.Upcoming(), "]=")) {
      cursor_.TakeIf("[");
      element.has_index = true;
      element.index = words_.Take("]");
      cursor_.TakeIf("]=");
    } else if (absl::StrContains(";&|<>(", cursor_.Peek())) {
      return cursor_.Fail(
          absl::StrCat("\"", std::string(1, cursor_.Peek()), "\" is not expected in an array"));
    }
    element.value = words_.Take();
    assignment.elements.push_back(std::move(element));
  }
}

bool SimpleParser::TakeRedirection(Command& command) {
  lines_.SkipBlanks();
  const absl::string_view rest = cursor_.rest();
  size_t digits = 0;
  while (digits < rest.size() && absl::ascii_isdigit(rest[digits])) ++digits;
  const bool both = absl::StartsWith(rest, "&>");
  if (!both &&
      (digits >= rest.size() || digits > 3 || (rest[digits] != '<' && rest[digits] != '>'))) {
    return false;
  }
  if (digits == 0 && rest.size() > 1 && rest[1] == '(') return false;  // <( and >(
  Redirection redirection;
  if (digits > 0) {
    redirection.descriptor = 0;
    for (size_t i = 0; i < digits; ++i) {
      redirection.descriptor = redirection.descriptor * 10 + (cursor_.Take() - '0');
    }
  }
  using Kind = Redirection::Kind;
  if (cursor_.TakeIf("&>>") || cursor_.TakeIf("&>")) {
    redirection.kind = Kind::kAppend;
    redirection.descriptor = -2;
  } else if (cursor_.TakeIf("<<<")) {
    redirection.kind = Kind::kText;
    lines_.SkipBlanks();
    redirection.target = words_.Take();
    for (Part& part : redirection.target.parts) part.quoted = true;
    AddText(redirection.target, "\n", true);
    command.redirections.push_back(std::move(redirection));
    return true;
  } else if (cursor_.TakeIf("<<")) {
    lines_.TakeHereDocument(redirection);
    command.redirections.push_back(std::move(redirection));
    return true;
  } else if (cursor_.TakeIf("<&") || cursor_.TakeIf(">&")) {
    redirection.kind = Kind::kDuplicate;
  } else if (cursor_.TakeIf(">>")) {
    redirection.kind = Kind::kAppend;
  } else if (cursor_.TakeIf(">|") || cursor_.TakeIf(">")) {
    redirection.kind = Kind::kOutput;
  } else if (cursor_.TakeIf("<>")) {
    cursor_.Fail("<> is not read");
  } else {
    cursor_.TakeIf("<");
  }
  lines_.SkipBlanks();
  redirection.target = words_.Take();
  if (redirection.target.parts.empty()) cursor_.Fail("a file name is missing");
  command.redirections.push_back(std::move(redirection));
  return true;
}

// "<", ">", "(", ")", "&&", "||" and "!" are words of their own.
void SimpleParser::TakeCondition(Command& command) {
  command.kind = Command::Kind::kCondition;
  cursor_.TakeIf("[[");
  bool pattern = false;
  while (!cursor_.failed()) {
    lines_.SkipLines();
    if (cursor_.AtEnd()) return cursor_.Fail(command.line, "\"]]\" is missing");
    if (lines_.TakeReserved("]]")) return;
    Word word;
    word.line = cursor_.line();
    const char* taken = nullptr;
    for (const char* operation : {"&&", "||", "(", ")", "<", ">"}) {
      if (taken == nullptr && cursor_.TakeIf(operation)) taken = operation;
    }
    if (taken != nullptr) {
      AddText(word, taken, false);
    } else {
      word = words_.Take(pattern ? " \t\n" : "");
      if (word.parts.empty()) cursor_.Fail("a condition of a form that is not read");
    }
    pattern = PlainText(word) == "=~";
    command.words.push_back(std::move(word));
  }
}

void SimpleParser::TakeArithmetic(Command& command) {
  command.kind = Command::Kind::kArithmetic;
  cursor_.TakeIf("((");
  command.words.push_back(TakeExpression());
}

Word SimpleParser::TakeExpression() {
  const absl::string_view rest = cursor_.rest();
  int open = 0;
  size_t end = std::string::npos;
  for (size_t i = 0; i + 1 < rest.size() && end == std::string::npos; ++i) {
    if (rest[i] == '(') ++open;
    if (rest[i] == ')' && open-- == 0) end = i;
  }
  if (end == std::string::npos || rest[end + 1] != ')') {
    cursor_.Fail("\"))\" is missing");
    return {};
  }
  Word word = words_.TakeTextTo(cursor_.at() + end);
  if (!cursor_.TakeIf("))")) cursor_.Fail("arithmetic of a form that is not read");
  return word;
}

}  // namespace hapmoe::client::shell
