// Words of bash: quotes, parameters, substitutions. The lowest third of the parser.
#ifndef HAPMOE_CLIENT_SCRIPT_READING_WORD_PARSER_H_
#define HAPMOE_CLIENT_SCRIPT_READING_WORD_PARSER_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "client/script_reading/parser.h"
#include "client/script_reading/syntax.h"

namespace hapmoe::client::shell {

// A place in a text, and the first fault found. After a fault it stands at the end of the text, so
// that every loop over the text ends.
class Cursor {
 public:
  Cursor(absl::string_view text, int line) : text_(text), line_(line) {}

  bool AtEnd() const { return at_ >= text_.size(); }
  char Peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool Sees(absl::string_view what) const { return text_.substr(at_, what.size()) == what; }
  char Take() {
    if (AtEnd()) return '\0';
    const char c = text_[at_];
    if (c == '\n') ++line_;
    ++at_;
    return c;
  }
  bool TakeIf(absl::string_view what) {
    if (!Sees(what)) return false;
    for (size_t i = 0; i < what.size(); ++i) Take();
    return true;
  }
  int line() const { return line_; }
  size_t at() const { return at_; }
  absl::string_view Since(size_t start) const { return text_.substr(start, at_ - start); }
  absl::string_view rest() const { return text_.substr(at_); }
  // Goes back, or on, to a place of which the line is known. Not after a fault.
  void Return(size_t at, int line) {
    if (failed()) return;
    at_ = at;
    line_ = line;
  }

  void Fail(int line, absl::string_view what) {
    if (fault_.what.empty()) fault_ = {line, std::string(what)};
    at_ = text_.size();
  }
  void Fail(absl::string_view what) { Fail(line_, what); }
  const SyntaxFault& fault() const { return fault_; }
  bool failed() const { return !fault_.what.empty(); }

 private:
  absl::string_view text_;
  size_t at_ = 0;
  int line_;
  SyntaxFault fault_;
};

class WordParser {
 public:
  // `commands` reads commands up to the parenthesis that closes them, and takes it.
  WordParser(Cursor& cursor, std::function<std::shared_ptr<const List>()> commands)
      : cursor_(cursor), commands_(std::move(commands)) {}

  // A word, up to a blank or an operator outside of quotes, or up to a character of `stop`.
  Word Take(absl::string_view stop = "");

  // What is between the present place and `end`, where only parameters, substitutions and
  // backslashes count, as in a here-document. Takes `end`; an empty one is the end of the text.
  Word TakeText(absl::string_view end) { return TakeText(end, std::string::npos); }

  // The same, up to a place of the text.
  Word TakeTextTo(size_t place) { return TakeText("", place); }

 private:
  enum class Context { kPlain, kDouble, kOperand, kOperandDouble, kText };

  Word TakeText(absl::string_view end, size_t place);
  void Dollar(Context context, Word& word);
  void DoubleQuoted(Word& word);
  void Backquoted(bool quoted, Word& word);
  void Braced(bool quoted, Word& word);
  void Operation(bool quoted, Parameter& parameter);
  Word Operand(absl::string_view stop, bool quoted);
  bool Arithmetic(bool quoted, Word& word);
  std::string AnsiQuoted();

  Cursor& cursor_;
  std::function<std::shared_ptr<const List>()> commands_;
  int depth_ = 0;
};

bool IsNameStart(char c);
bool IsNameCharacter(char c);

// Appends text, to the last part where that is of the same kind.
void AddText(Word& word, absl::string_view text, bool quoted);

}  // namespace hapmoe::client::shell

#endif  // HAPMOE_CLIENT_SCRIPT_READING_WORD_PARSER_H_
