#include "client/script_reading/word_parser.h"

#include <cstddef>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace hapmoe::client::shell {
namespace {

constexpr int kMaxDepth = 40;
constexpr absl::string_view kWordEnd = " \t\n;&|<>()";
constexpr absl::string_view kSpecialParameters = "@*#?-$!_";

Part MakePart(Part::Kind kind, bool quoted) {
  Part part;
  part.kind = kind;
  part.quoted = quoted;
  return part;
}

bool Has(absl::string_view set, char c) { return c != '\0' && absl::StrContains(set, c); }

}  // namespace

bool IsNameStart(char c) { return absl::ascii_isalpha(c) || c == '_'; }
bool IsNameCharacter(char c) { return absl::ascii_isalnum(c) || c == '_'; }

void AddText(Word& word, absl::string_view text, bool quoted) {
  if (!word.parts.empty() && word.parts.back().kind == Part::Kind::kText &&
      word.parts.back().quoted == quoted) {
    absl::StrAppend(&word.parts.back().text, text);
    return;
  }
  Part part = MakePart(Part::Kind::kText, quoted);
  part.text = std::string(text);
  word.parts.push_back(std::move(part));
}

Word WordParser::Take(absl::string_view stop) {
  Word word;
  word.line = cursor_.line();
  while (!cursor_.AtEnd()) {
    const char c = cursor_.Peek();
    if (Has(stop, c)) break;
    if ((c == '<' || c == '>') && cursor_.Peek(1) == '(' && word.parts.empty() && stop.empty()) {
      Part part = MakePart(Part::Kind::kProcess, true);
      part.text = std::string(1, c);
      cursor_.TakeIf(c == '<' ? "<(" : ">(");
      part.commands = commands_();
      word.parts.push_back(std::move(part));
    } else if (Has(kWordEnd, c) && stop.empty()) {
      break;
    } else if (c == '\\') {
      cursor_.Take();
      if (cursor_.TakeIf("\n")) continue;
      AddText(word, std::string(1, cursor_.AtEnd() ? '\\' : cursor_.Take()), true);
    } else if (c == '\'') {
      const int line = cursor_.line();
      cursor_.Take();
      const size_t start = cursor_.at();
      while (!cursor_.AtEnd() && cursor_.Peek() != '\'') cursor_.Take();
      if (cursor_.AtEnd()) cursor_.Fail(line, "a quote is not closed");
      AddText(word, cursor_.Since(start), true);
      cursor_.Take();
    } else if (c == '"') {
      DoubleQuoted(word);
    } else if (c == '`') {
      Backquoted(false, word);
    } else if (c == '$') {
      Dollar(Context::kPlain, word);
    } else if (Has("?*+@!", c) && cursor_.Peek(1) == '(' && stop.empty()) {
      cursor_.Fail("extended patterns are not read");
    } else {
      AddText(word, std::string(1, cursor_.Take()), false);
    }
  }
  return word;
}

Word WordParser::TakeText(absl::string_view end, size_t place) {
  Word word;
  word.line = cursor_.line();
  while (!cursor_.AtEnd() && cursor_.at() < place && (end.empty() || !cursor_.Sees(end))) {
    const char c = cursor_.Peek();
    if (c == '\\') {
      cursor_.Take();
      if (cursor_.TakeIf("\n")) continue;
      if (Has("$`\\", cursor_.Peek())) {
        AddText(word, std::string(1, cursor_.Take()), true);
      } else {
        AddText(word, "\\", true);
      }
    } else if (c == '$') {
      Dollar(Context::kText, word);
    } else if (c == '`') {
      Backquoted(true, word);
    } else {
      AddText(word, std::string(1, cursor_.Take()), true);
    }
  }
  if (!end.empty() && !cursor_.TakeIf(end)) cursor_.Fail(absl::StrCat("\"", end, "\" is missing"));
  return word;
}

void WordParser::DoubleQuoted(Word& word) {
  const int line = cursor_.line();
  cursor_.Take();
  AddText(word, "", true);
  while (!cursor_.AtEnd() && cursor_.Peek() != '"') {
    const char c = cursor_.Peek();
    if (c == '\\') {
      cursor_.Take();
      if (cursor_.TakeIf("\n")) continue;
      if (Has("\"\\$`", cursor_.Peek())) {
        AddText(word, std::string(1, cursor_.Take()), true);
      } else {
        AddText(word, "\\", true);
      }
    } else if (c == '$') {
      Dollar(Context::kDouble, word);
    } else if (c == '`') {
      Backquoted(true, word);
    } else {
      AddText(word, std::string(1, cursor_.Take()), true);
    }
  }
  if (cursor_.AtEnd()) cursor_.Fail(line, "a quote is not closed");
  cursor_.Take();
}

void WordParser::Backquoted(bool quoted, Word& word) {
  const int line = cursor_.line();
  cursor_.Take();
  std::string inner;
  while (!cursor_.AtEnd() && cursor_.Peek() != '`') {
    char c = cursor_.Take();
    if (c == '\\' && Has("`\\$", cursor_.Peek())) c = cursor_.Take();
    inner.push_back(c);
  }
  if (cursor_.AtEnd()) return cursor_.Fail(line, "a backquote is not closed");
  cursor_.Take();
  if (absl::StrContains(inner, '`')) return cursor_.Fail(line, "nested backquotes are not read");
  auto commands = std::make_shared<List>();
  SyntaxFault fault;
  if (!ParseShell(inner, line, *commands, fault)) return cursor_.Fail(fault.line, fault.what);
  Part part = MakePart(Part::Kind::kCommands, quoted);
  part.commands = std::move(commands);
  word.parts.push_back(std::move(part));
}

std::string WordParser::AnsiQuoted() {
  std::string text;
  while (!cursor_.AtEnd() && cursor_.Peek() != '\'') {
    char c = cursor_.Take();
    if (c == '\\') {
      c = cursor_.Take();
      const size_t at = absl::string_view("abefnrtv\\'\"?").find(c);
      if (at == absl::string_view::npos) {
        cursor_.Fail(absl::StrCat("\\", std::string(1, c), " in $'...' is not read"));
        break;
      }
      c = "\a\b\x1b\f\n\r\t\v\\'\"?"[at];
    }
    text.push_back(c);
  }
  cursor_.Take();
  return text;
}

void WordParser::Dollar(Context context, Word& word) {
  const bool quoted = context != Context::kPlain && context != Context::kOperand;
  const int line = cursor_.line();
  if (++depth_ > kMaxDepth) return cursor_.Fail("nested too deep");
  cursor_.Take();
  const char c = cursor_.Peek();
  if (c == '(') {
    if (cursor_.Peek(1) != '(' || !Arithmetic(quoted, word)) {
      cursor_.Take();
      Part part = MakePart(Part::Kind::kCommands, quoted);
      part.commands = commands_();
      word.parts.push_back(std::move(part));
    }
  } else if (c == '{') {
    cursor_.Take();
    Braced(quoted, word);
  } else if (c == '[') {
    cursor_.Fail(line, "$[...] is not read; write $((...))");
  } else if (c == '\'' && context == Context::kOperandDouble) {
    cursor_.Fail("$'...' inside of \"${...}\" is not read");
  } else if (c == '\'' && !quoted) {
    cursor_.Take();
    AddText(word, AnsiQuoted(), true);
  } else if (c == '"' && !quoted) {
    DoubleQuoted(word);
  } else if (IsNameStart(c) || absl::ascii_isdigit(c) || Has(kSpecialParameters, c)) {
    auto parameter = std::make_shared<Parameter>();
    const size_t start = cursor_.at();
    cursor_.Take();
    while (IsNameStart(c) && IsNameCharacter(cursor_.Peek())) cursor_.Take();
    parameter->name = std::string(cursor_.Since(start));
    Part part = MakePart(Part::Kind::kParameter, quoted);
    part.text = "$";
    part.parameter = std::move(parameter);
    word.parts.push_back(std::move(part));
  } else {
    AddText(word, "$", quoted);
  }
  --depth_;
}

// $(( ... )); false, at the same place, where the parentheses are a command's.
bool WordParser::Arithmetic(bool quoted, Word& word) {
  const int line = cursor_.line();
  int open = 0;
  size_t end = std::string::npos;
  const absl::string_view rest = cursor_.rest();
  for (size_t i = 0; i < rest.size(); ++i) {
    if (rest[i] == '(') ++open;
    if (rest[i] == ')' && --open == 0) {
      if (rest[i - 1] == ')') end = i;
      break;
    }
  }
  if (end == std::string::npos) return false;
  const size_t place = cursor_.at() + end - 1;
  cursor_.TakeIf("((");
  auto expression = std::make_shared<Word>(TakeTextTo(place));
  if (!cursor_.TakeIf("))")) cursor_.Fail(line, "arithmetic of a form that is not read");
  Part part = MakePart(Part::Kind::kArithmetic, quoted);
  part.expression = std::move(expression);
  word.parts.push_back(std::move(part));
  return true;
}

Word WordParser::Operand(absl::string_view stop, bool quoted) {
  Word word;
  word.line = cursor_.line();
  while (!cursor_.AtEnd() && !Has(stop, cursor_.Peek())) {
    const char c = cursor_.Peek();
    // To bash, the brace that closes this one closes the expansion.
    if (c == '{') cursor_.Fail("braces inside of ${...} are not read");
    if (c == '"') {
      DoubleQuoted(word);
    } else if (c == '\'' && !quoted) {
      cursor_.Take();
      const size_t start = cursor_.at();
      while (!cursor_.AtEnd() && cursor_.Peek() != '\'') cursor_.Take();
      AddText(word, cursor_.Since(start), true);
      cursor_.Take();
    } else if (c == '\\') {
      cursor_.Take();
      if (cursor_.TakeIf("\n")) continue;
      if (quoted && !Has("$`\"\\}/", cursor_.Peek())) AddText(word, "\\", true);
      AddText(word, std::string(1, cursor_.Take()), true);
    } else if (c == '$') {
      Dollar(quoted ? Context::kOperandDouble : Context::kOperand, word);
    } else if (c == '`') {
      Backquoted(quoted, word);
    } else {
      AddText(word, std::string(1, cursor_.Take()), false);
    }
  }
  return word;
}

void WordParser::Braced(bool quoted, Word& word) {
  const int line = cursor_.line();
  auto parameter = std::make_shared<Parameter>();
  if (cursor_.Peek() == '#' && cursor_.Peek(1) != '}' && !Has(":-+?%/", cursor_.Peek(1))) {
    parameter->length = true;
    cursor_.Take();
  } else if (cursor_.Peek() == '!' && IsNameCharacter(cursor_.Peek(1))) {
    parameter->indirect = true;
    cursor_.Take();
  }
  const size_t start = cursor_.at();
  const char c = cursor_.Take();
  if (absl::ascii_isdigit(c)) {
    while (absl::ascii_isdigit(cursor_.Peek())) cursor_.Take();
  } else if (IsNameStart(c)) {
    while (IsNameCharacter(cursor_.Peek())) cursor_.Take();
  } else if (!Has(kSpecialParameters, c)) {
    return cursor_.Fail(line, "${...} without a name");
  }
  parameter->name = std::string(cursor_.Since(start));
  if (cursor_.TakeIf("[@]")) {
    parameter->subscript = Parameter::Subscript::kAll;
  } else if (cursor_.TakeIf("[*]")) {
    parameter->subscript = Parameter::Subscript::kAllJoined;
  } else if (cursor_.TakeIf("[")) {
    parameter->subscript = Parameter::Subscript::kIndex;
    parameter->index = Operand("]", true);
    cursor_.TakeIf("]");
  }
  Operation(quoted, *parameter);
  if (!cursor_.TakeIf("}")) return cursor_.Fail(line, "${...} of a form that is not read");
  Part part = MakePart(Part::Kind::kParameter, quoted);
  part.parameter = std::move(parameter);
  word.parts.push_back(std::move(part));
}

void WordParser::Operation(bool quoted, Parameter& parameter) {
  for (const absl::string_view operation : {":-", ":=", ":?", ":+", "-", "=", "?", "+"}) {
    if (!cursor_.TakeIf(operation)) continue;
    parameter.operation = std::string(operation);
    parameter.operand = Operand("}", quoted);
    return;
  }
  for (const absl::string_view operation : {"##", "#", "%%", "%", "^^", "^", ",,", ","}) {
    if (!cursor_.TakeIf(operation)) continue;
    parameter.operation = std::string(operation);
    // Quotes quote in patterns, also inside of quotes.
    parameter.operand = Operand("}", false);
    return;
  }
  for (const absl::string_view operation : {"//", "/#", "/%", "/"}) {
    if (!cursor_.TakeIf(operation)) continue;
    parameter.operation = std::string(operation);
    parameter.operand = Operand("/}", false);
    parameter.has_second = cursor_.TakeIf("/");
    if (parameter.has_second) parameter.second = Operand("}", false);
    return;
  }
  if (cursor_.TakeIf(":")) {
    parameter.operation = ":";
    parameter.operand = Operand(":}", true);
    parameter.has_second = cursor_.TakeIf(":");
    if (parameter.has_second) parameter.second = Operand("}", true);
  }
}

}  // namespace hapmoe::client::shell
