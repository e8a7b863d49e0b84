#include "client/script_reading/parser.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/script_reading/line_reader.h"
#include "client/script_reading/simple_parser.h"
#include "client/script_reading/word_parser.h"

namespace hapmoe::client::shell {
namespace {

constexpr int kMaxDepth = 120;

// Lists, pipelines and compound commands: the upper third, over SimpleParser and WordParser.
class Parser {
 public:
  Parser(absl::string_view text, int line, int depth)
      : cursor_(text, line),
        words_(cursor_, [this] { return TakeSubstitution(); }),
        lines_(cursor_, words_, [this](Cursor& inner) { return TakeSubstitutionOf(inner); }),
        simple_(cursor_, words_, lines_),
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
  // Commands up to the parenthesis that closes them.
  std::shared_ptr<const List> TakeSubstitution() {
    auto list = std::make_shared<List>(TakeList({}));
    if (!cursor_.TakeIf(")")) cursor_.Fail("\")\" is missing");
    return list;
  }

  // The same in another text, by a parser of its own.
  std::shared_ptr<const List> TakeSubstitutionOf(Cursor& inner) const {
    Parser parser(inner.rest(), inner.line(), depth_ + 1);
    auto list = std::make_shared<List>(parser.TakeList({}));
    if (parser.cursor_.failed()) {
      inner.Fail(parser.cursor_.fault().line, parser.cursor_.fault().what);
    } else if (!parser.cursor_.TakeIf(")")) {
      inner.Fail("\")\" is missing");
    }
    inner.Return(inner.at() + parser.cursor_.at(), parser.cursor_.line());
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
      lines_.SkipLines();
      if (cursor_.AtEnd() || cursor_.Peek() == ')' || cursor_.Sees(";;") || cursor_.Sees(";&")) {
        break;
      }
      if (std::find(ends.begin(), ends.end(), lines_.Upcoming()) != ends.end()) break;
      Command command = TakeAndOr();
      lines_.SkipBlanks();
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
      lines_.SkipBlanks();
      const bool both = cursor_.TakeIf("&&");
      if (!both && !cursor_.TakeIf("||")) break;
      // Each is a level of the tree.
      if (count > kMaxDepth) cursor_.Fail("more && and || than are read");
      lines_.SkipLines();
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
    lines_.SkipBlanks();
    Command pipeline;
    pipeline.kind = Command::Kind::kPipeline;
    pipeline.line = cursor_.line();
    while (true) {
      if (lines_.TakeReserved("!")) {
        pipeline.negated = !pipeline.negated;
      } else if (lines_.TakeReserved("time")) {
        lines_.SkipBlanks();
        lines_.TakeReserved("-p");
      } else {
        break;
      }
      lines_.SkipBlanks();
    }
    pipeline.children.push_back(Single(TakeCommand()));
    while (true) {
      lines_.SkipBlanks();
      if (cursor_.Peek() != '|' || cursor_.Peek(1) == '|') break;
      cursor_.Take();
      cursor_.TakeIf("&");
      lines_.SkipLines();
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
    const absl::string_view word = lines_.Upcoming();
    if (cursor_.Sees("((")) {
      simple_.TakeArithmetic(command);
    } else if (cursor_.TakeIf("(")) {
      command.kind = Command::Kind::kSubshell;
      command.children.push_back(TakeSubstitution());
    } else if (word == "{") {
      cursor_.TakeIf("{");
      command.kind = Command::Kind::kGroup;
      command.children.push_back(TakeBlock({"}"}));
      lines_.Expect("}", command.line);
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
      simple_.TakeCondition(command);
    } else if (word == "select" || word == "coproc") {
      cursor_.Fail(absl::StrCat(word, " is not read"));
    } else if (word == "function") {
      cursor_.TakeIf("function");
      lines_.SkipBlanks();
      command.name = std::string(lines_.Upcoming());
      cursor_.TakeIf(command.name);
      lines_.SkipBlanks();
      if (cursor_.TakeIf("(")) {
        lines_.SkipBlanks();
        cursor_.TakeIf(")");
      }
      TakeFunction(command);
    } else if (IsFunction()) {
      command.name = std::string(lines_.Upcoming());
      cursor_.TakeIf(command.name);
      lines_.SkipBlanks();
      cursor_.TakeIf("(");
      lines_.SkipBlanks();
      cursor_.TakeIf(")");
      TakeFunction(command);
    } else {
      for (const absl::string_view reserved :
           {"then", "elif", "else", "fi", "do", "done", "esac", "}", "in"}) {
        if (word == reserved && reserved != "in") {
          cursor_.Fail(absl::StrCat("\"", word, "\" is not expected here"));
        }
      }
      return simple_.TakeSimple(command);
    }
    while (simple_.TakeRedirection(command)) {
    }
  }

  // Whether "NAME ( )" comes next.
  bool IsFunction() const {
    const absl::string_view word = lines_.Upcoming();
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
    lines_.SkipLines();
    command.children.push_back(Single(TakeCommand()));
  }

  void TakeIf(Command& command) {
    command.kind = Command::Kind::kIf;
    cursor_.TakeIf("if");
    while (!cursor_.failed()) {
      command.children.push_back(TakeBlock({"then"}));
      lines_.Expect("then", command.line);
      command.children.push_back(TakeBlock({"elif", "else", "fi"}));
      if (lines_.TakeReserved("elif")) continue;
      if (lines_.TakeReserved("else")) command.children.push_back(TakeBlock({"fi"}));
      break;
    }
    lines_.Expect("fi", command.line);
  }

  void TakeLoop(Command& command) {
    if (lines_.TakeReserved("{")) {
      command.children.push_back(TakeBlock({"}"}));
      return lines_.Expect("}", command.line);
    }
    lines_.Expect("do", command.line);
    command.children.push_back(TakeBlock({"done"}));
    lines_.Expect("done", command.line);
  }

  void TakeFor(Command& command) {
    command.kind = Command::Kind::kFor;
    cursor_.TakeIf("for");
    lines_.SkipBlanks();
    if (cursor_.Sees("((")) {
      command.kind = Command::Kind::kForSteps;
      cursor_.TakeIf("((");
      command.words.push_back(words_.TakeText(";"));
      command.words.push_back(words_.TakeText(";"));
      command.words.push_back(simple_.TakeExpression());
    } else {
      command.name = std::string(lines_.Upcoming());
      cursor_.TakeIf(command.name);
      lines_.SkipLines();
      command.has_words = lines_.TakeReserved("in");
      lines_.SkipBlanks();
      while (command.has_words && !cursor_.AtEnd() &&
             !absl::StrContains(";\n&|()", cursor_.Peek())) {
        command.words.push_back(words_.Take());
        if (command.words.back().parts.empty()) cursor_.Fail("\"for\" of a form that is not read");
        lines_.SkipBlanks();
      }
    }
    lines_.SkipBlanks();
    cursor_.TakeIf(";");
    lines_.SkipLines();
    TakeLoop(command);
  }

  void TakeCase(Command& command) {
    command.kind = Command::Kind::kCase;
    cursor_.TakeIf("case");
    lines_.SkipBlanks();
    command.words.push_back(words_.Take());
    lines_.Expect("in", command.line);
    while (true) {
      lines_.SkipLines();
      if (cursor_.AtEnd() || lines_.TakeReserved("esac")) break;
      Clause clause;
      cursor_.TakeIf("(");
      do {
        lines_.SkipBlanks();
        clause.patterns.push_back(words_.Take());
        lines_.SkipBlanks();
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

  Cursor cursor_;
  WordParser words_;
  LineReader lines_;
  SimpleParser simple_;
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
