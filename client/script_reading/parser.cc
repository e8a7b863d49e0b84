#include "client/script_reading/parser.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/script_reading/word_parser.h"

namespace hapmoe::client::shell {
namespace {

constexpr int kMaxDepth = 120;
constexpr absl::string_view kDeclarations[] = {"declare", "typeset", "local", "export", "readonly"};

// The text of a word that is nothing but unquoted text; else "".
std::string PlainText(const Word& word) {
  if (word.parts.size() != 1) return "";
  const Part& part = word.parts[0];
  return part.kind == Part::Kind::kText && !part.quoted ? part.text : "";
}

class Parser {
 public:
  Parser(absl::string_view text, int line, int depth)
      : cursor_(text, line),
        words_(cursor_, [this] { return TakeSubstitution(); }),
        depth_(depth) {}

  bool Parse(List& list, SyntaxFault& fault) {
    list = TakeList({});
    if (!cursor_.failed() && !cursor_.AtEnd()) {
      cursor_.Fail(absl::StrCat("\"", std::string(1, cursor_.Peek()), "\" is not expected here"));
    }
    fault = cursor_.fault();
    return !cursor_.failed();
  }

 private:
  struct HereDocument {
    std::string end;
    bool literal = false;
    bool strip_tabs = false;
    int line = 0;
    std::shared_ptr<Word> body;
  };

  // Blanks, continued lines and comments.
  void SkipBlanks() {
    while (!cursor_.AtEnd()) {
      if (cursor_.TakeIf(" ") || cursor_.TakeIf("\t") || cursor_.TakeIf("\\\n")) continue;
      if (cursor_.Peek() != '#') break;
      while (!cursor_.AtEnd() && cursor_.Peek() != '\n') cursor_.Take();
    }
  }

  bool TakeNewline() {
    if (!cursor_.TakeIf("\n")) return false;
    for (HereDocument& document : std::exchange(documents_, {})) TakeBody(document);
    return true;
  }

  void SkipLines() {
    do {
      SkipBlanks();
    } while (TakeNewline());
  }

  // The reserved word or name that comes next, not taken.
  absl::string_view Upcoming() const {
    const absl::string_view rest = cursor_.rest();
    size_t end = 0;
    while (end < rest.size() && !absl::StrContains(" \t\n;&|<>()", rest[end])) ++end;
    return rest.substr(0, end);
  }

  bool TakeReserved(absl::string_view word) {
    if (Upcoming() != word) return false;
    cursor_.TakeIf(word);
    return true;
  }

  void Expect(absl::string_view word, int line) {
    SkipLines();
    if (!TakeReserved(word)) {
      cursor_.Fail(line, absl::StrCat("\"", word, "\" is missing"));
    }
  }

  std::shared_ptr<const List> TakeSubstitution() {
    auto list = std::make_shared<List>(TakeList({}));
    if (!cursor_.TakeIf(")")) cursor_.Fail("\")\" is missing");
    return list;
  }

  std::shared_ptr<const List> TakeBlock(const std::vector<absl::string_view>& ends) {
    const int line = cursor_.line();
    auto list = std::make_shared<List>(TakeList(ends));
    if (list->empty()) cursor_.Fail(line, "a command is missing");
    return list;
  }

  std::shared_ptr<const List> Single(Command command) {
    auto list = std::make_shared<List>();
    list->push_back(std::move(command));
    return list;
  }

  // Commands up to one of the reserved words, a closing parenthesis, or the end of a clause.
  List TakeList(const std::vector<absl::string_view>& ends) {
    List list;
    if (++depth_ > kMaxDepth) cursor_.Fail("nested too deep");
    while (true) {
      SkipLines();
      if (cursor_.AtEnd() || cursor_.Peek() == ')' || cursor_.Sees(";;") || cursor_.Sees(";&")) {
        break;
      }
      if (std::find(ends.begin(), ends.end(), Upcoming()) != ends.end()) break;
      Command command = TakeAndOr();
      SkipBlanks();
      if (cursor_.Peek() == '&' && cursor_.Peek(1) != '&') {
        cursor_.Take();
        Command background;
        background.kind = Command::Kind::kBackground;
        background.line = command.line;
        background.children.push_back(Single(std::move(command)));
        command = std::move(background);
      } else if (cursor_.Peek() == ';' && cursor_.Peek(1) != ';' && cursor_.Peek(1) != '&') {
        cursor_.Take();
      } else if (!cursor_.AtEnd() && !absl::StrContains("\n);", cursor_.Peek())) {
        cursor_.Fail(absl::StrCat("\"", std::string(1, cursor_.Peek()), "\" is not expected here"));
      }
      list.push_back(std::move(command));
    }
    --depth_;
    return list;
  }

  Command TakeAndOr() {
    Command left = TakePipeline();
    for (int count = 0; !cursor_.AtEnd(); ++count) {
      SkipBlanks();
      const bool both = cursor_.TakeIf("&&");
      if (!both && !cursor_.TakeIf("||")) break;
      // Each is a level of the tree.
      if (count > kMaxDepth) cursor_.Fail("more && and || than are read");
      SkipLines();
      Command command;
      command.kind = both ? Command::Kind::kAnd : Command::Kind::kOr;
      command.line = left.line;
      command.children.push_back(Single(std::move(left)));
      command.children.push_back(Single(TakePipeline()));
      left = std::move(command);
    }
    return left;
  }

  Command TakePipeline() {
    SkipBlanks();
    Command pipeline;
    pipeline.kind = Command::Kind::kPipeline;
    pipeline.line = cursor_.line();
    while (true) {
      if (TakeReserved("!")) {
        pipeline.negated = !pipeline.negated;
      } else if (TakeReserved("time")) {
        SkipBlanks();
        TakeReserved("-p");
      } else {
        break;
      }
      SkipBlanks();
    }
    pipeline.children.push_back(Single(TakeCommand()));
    while (true) {
      SkipBlanks();
      if (cursor_.Peek() != '|' || cursor_.Peek(1) == '|') break;
      cursor_.Take();
      cursor_.TakeIf("&");
      SkipLines();
      pipeline.children.push_back(Single(TakeCommand()));
    }
    if (pipeline.children.size() == 1 && !pipeline.negated) return (*pipeline.children[0])[0];
    return pipeline;
  }

  Command TakeCommand() {
    Command command;
    command.line = cursor_.line();
    if (++depth_ > kMaxDepth) cursor_.Fail("nested too deep");
    TakeAnyCommand(command);
    --depth_;
    return command;
  }

  void TakeAnyCommand(Command& command) {
    const absl::string_view word = Upcoming();
    if (cursor_.Sees("((")) {
      TakeArithmetic(command);
    } else if (cursor_.TakeIf("(")) {
      command.kind = Command::Kind::kSubshell;
      command.children.push_back(TakeSubstitution());
    } else if (word == "{") {
      cursor_.TakeIf("{");
      command.kind = Command::Kind::kGroup;
      command.children.push_back(TakeBlock({"}"}));
      Expect("}", command.line);
    } else if (word == "if") {
      TakeIf(command);
    } else if (word == "while" || word == "until") {
      command.kind = word == "while" ? Command::Kind::kWhile : Command::Kind::kUntil;
      cursor_.TakeIf(word);
      command.children.push_back(TakeBlock({"do"}));
      TakeLoop(command);
    } else if (word == "for") {
      TakeFor(command);
    } else if (word == "case") {
      TakeCase(command);
    } else if (word == "[[") {
      TakeCondition(command);
    } else if (word == "select" || word == "coproc") {
      cursor_.Fail(absl::StrCat(word, " is not read"));
    } else if (word == "function") {
      cursor_.TakeIf("function");
      SkipBlanks();
      command.name = std::string(Upcoming());
      cursor_.TakeIf(command.name);
      SkipBlanks();
      if (cursor_.TakeIf("(")) {
        SkipBlanks();
        cursor_.TakeIf(")");
      }
      TakeFunction(command);
    } else if (IsFunction()) {
      command.name = std::string(Upcoming());
      cursor_.TakeIf(command.name);
      SkipBlanks();
      cursor_.TakeIf("(");
      SkipBlanks();
      cursor_.TakeIf(")");
      TakeFunction(command);
    } else {
      for (const absl::string_view reserved :
           {"then", "elif", "else", "fi", "do", "done", "esac", "}", "in"}) {
        if (word == reserved && reserved != "in") {
          cursor_.Fail(absl::StrCat("\"", word, "\" is not expected here"));
        }
      }
      return TakeSimple(command);
    }
    while (TakeRedirection(command)) {
    }
  }

  // Whether "NAME ( )" comes next.
  bool IsFunction() const {
    const absl::string_view word = Upcoming();
    if (word.empty() || absl::StrContains(word, '=') || absl::StrContains(word, '$') ||
        absl::StrContains(word, '"') || absl::StrContains(word, '\'')) {
      return false;
    }
    absl::string_view rest = absl::StripLeadingAsciiWhitespace(cursor_.rest().substr(word.size()));
    if (rest.empty() || rest[0] != '(') return false;
    rest = absl::StripLeadingAsciiWhitespace(rest.substr(1));
    return !rest.empty() && rest[0] == ')';
  }

  void TakeFunction(Command& command) {
    command.kind = Command::Kind::kFunction;
    SkipLines();
    command.children.push_back(Single(TakeCommand()));
  }

  void TakeIf(Command& command) {
    command.kind = Command::Kind::kIf;
    cursor_.TakeIf("if");
    while (!cursor_.failed()) {
      command.children.push_back(TakeBlock({"then"}));
      Expect("then", command.line);
      command.children.push_back(TakeBlock({"elif", "else", "fi"}));
      if (TakeReserved("elif")) continue;
      if (TakeReserved("else")) command.children.push_back(TakeBlock({"fi"}));
      break;
    }
    Expect("fi", command.line);
  }

  void TakeLoop(Command& command) {
    if (TakeReserved("{")) {
      command.children.push_back(TakeBlock({"}"}));
      return Expect("}", command.line);
    }
    Expect("do", command.line);
    command.children.push_back(TakeBlock({"done"}));
    Expect("done", command.line);
  }

  void TakeFor(Command& command) {
    command.kind = Command::Kind::kFor;
    cursor_.TakeIf("for");
    SkipBlanks();
    if (cursor_.Sees("((")) {
      command.kind = Command::Kind::kForSteps;
      cursor_.TakeIf("((");
      command.words.push_back(words_.TakeText(";"));
      command.words.push_back(words_.TakeText(";"));
      command.words.push_back(TakeExpression());
    } else {
      command.name = std::string(Upcoming());
      cursor_.TakeIf(command.name);
      SkipLines();
      command.has_words = TakeReserved("in");
      SkipBlanks();
      while (command.has_words && !cursor_.AtEnd() &&
             !absl::StrContains(";\n&|()", cursor_.Peek())) {
        command.words.push_back(words_.Take());
        if (command.words.back().parts.empty()) cursor_.Fail("\"for\" of a form that is not read");
        SkipBlanks();
      }
    }
    SkipBlanks();
    cursor_.TakeIf(";");
    SkipLines();
    TakeLoop(command);
  }

  void TakeCase(Command& command) {
    command.kind = Command::Kind::kCase;
    cursor_.TakeIf("case");
    SkipBlanks();
    command.words.push_back(words_.Take());
    Expect("in", command.line);
    while (true) {
      SkipLines();
      if (cursor_.AtEnd() || TakeReserved("esac")) break;
      Clause clause;
      cursor_.TakeIf("(");
      do {
        SkipBlanks();
        clause.patterns.push_back(words_.Take());
        SkipBlanks();
      } while (cursor_.TakeIf("|"));
      if (!cursor_.TakeIf(")")) cursor_.Fail("\")\" is missing");
      clause.body = std::make_shared<List>(TakeList({"esac"}));
      clause.end = ";;";
      for (const char* end : {";;&", ";;", ";&"}) {
        if (!cursor_.TakeIf(end)) continue;
        clause.end = end;
        break;
      }
      command.clauses.push_back(std::move(clause));
    }
  }

  // The words between [[ and ]]. "<", ">", "(", ")", "&&", "||" and "!" are words of their own.
  void TakeCondition(Command& command) {
    command.kind = Command::Kind::kCondition;
    cursor_.TakeIf("[[");
    bool pattern = false;
    while (!cursor_.failed()) {
      SkipLines();
      if (cursor_.AtEnd()) return cursor_.Fail(command.line, "\"]]\" is missing");
      if (TakeReserved("]]")) return;
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

  // What comes before "))".
  Word TakeExpression() {
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

  void TakeArithmetic(Command& command) {
    command.kind = Command::Kind::kArithmetic;
    cursor_.TakeIf("((");
    command.words.push_back(TakeExpression());
  }

  void TakeSimple(Command& command) {
    const auto is_declaration = [&command] {
      return !command.words.empty() &&
             std::find(std::begin(kDeclarations), std::end(kDeclarations),
                       PlainText(command.words[0])) != std::end(kDeclarations);
    };
    while (!cursor_.AtEnd()) {
      SkipBlanks();
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

  bool TakeAssignment(Assignment& assignment) {
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

  void TakeElements(Assignment& assignment) {
    const int line = cursor_.line();
    while (!cursor_.failed()) {
      SkipLines();
      if (cursor_.AtEnd()) return cursor_.Fail(line, "the array is not closed");
      if (cursor_.TakeIf(")")) return;
      Assignment element;
      if (cursor_.Peek() == '[' && absl::StrContains(Upcoming(), "]=")) {
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

  bool TakeRedirection(Command& command) {
    SkipBlanks();
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
      SkipBlanks();
      redirection.target = words_.Take();
      for (Part& part : redirection.target.parts) part.quoted = true;
      AddText(redirection.target, "\n", true);
      command.redirections.push_back(std::move(redirection));
      return true;
    } else if (cursor_.TakeIf("<<")) {
      return TakeHereDocument(std::move(redirection), command);
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
    SkipBlanks();
    redirection.target = words_.Take();
    if (redirection.target.parts.empty()) cursor_.Fail("a file name is missing");
    command.redirections.push_back(std::move(redirection));
    return true;
  }

  bool TakeHereDocument(Redirection redirection, Command& command) {
    HereDocument document;
    document.line = cursor_.line();
    document.strip_tabs = cursor_.TakeIf("-");
    SkipBlanks();
    const Word end = words_.Take();
    for (const Part& part : end.parts) {
      document.literal |= part.quoted;
      document.end += part.text;
      if (part.kind != Part::Kind::kText) cursor_.Fail("the end of a here-document must be a word");
    }
    redirection.kind = Redirection::Kind::kText;
    command.redirections.push_back(std::move(redirection));
    // The body comes after the line, and fills this word when it is there.
    document.body = std::make_shared<Word>();
    Part body;
    body.kind = Part::Kind::kBody;
    body.quoted = true;
    body.expression = document.body;
    command.redirections.back().target = Word{document.line, {std::move(body)}};
    documents_.push_back(std::move(document));
    return true;
  }

  void TakeBody(HereDocument& document) {
    const int line = cursor_.line();
    std::string body;
    while (true) {
      if (cursor_.AtEnd()) break;  // bash only warns.
      std::string text;
      while (!cursor_.AtEnd() && cursor_.Peek() != '\n') text.push_back(cursor_.Take());
      cursor_.TakeIf("\n");
      absl::string_view shown = text;
      while (document.strip_tabs && !shown.empty() && shown[0] == '\t') shown.remove_prefix(1);
      if (shown == document.end) break;
      absl::StrAppend(&body, shown, "\n");
    }
    document.body->line = line;
    if (document.literal) return AddText(*document.body, body, true);
    Cursor inner(body, line);
    // A substitution of commands inside is parsed by a parser of its own.
    WordParser words(inner, [&inner, this] {
      Parser parser(inner.rest(), inner.line(), depth_ + 1);
      auto list = std::make_shared<List>(parser.TakeList({}));
      if (parser.cursor_.failed()) {
        inner.Fail(parser.cursor_.fault().line, parser.cursor_.fault().what);
      } else if (!parser.cursor_.TakeIf(")")) {
        inner.Fail("\")\" is missing");
      }
      inner.Return(inner.at() + parser.cursor_.at(), parser.cursor_.line());
      return std::shared_ptr<const List>(std::move(list));
    });
    *document.body = words.TakeText("");
    if (inner.failed()) cursor_.Fail(inner.fault().line, inner.fault().what);
  }

  Cursor cursor_;
  WordParser words_;
  std::vector<HereDocument> documents_;
  int depth_;
};

}  // namespace

bool ParseShell(absl::string_view text, int first_line, List& list, SyntaxFault& fault) {
  const size_t control = std::find_if(text.begin(), text.end(),
                                      [](char c) { return c == '\0' || c == '\1' || c == '\2'; }) -
                         text.begin();
  if (control < text.size()) {
    const auto before = text.substr(0, control);
    fault = {first_line + static_cast<int>(std::count(before.begin(), before.end(), '\n')),
             "a control character"};
    return false;
  }
  return Parser(text, first_line, 0).Parse(list, fault);
}

}  // namespace hapmoe::client::shell
