// Commands that hold no other commands, with their assignments and redirections. The middle
// third of the parser.
#ifndef HAPMOE_CLIENT_SCRIPT_READING_SIMPLE_PARSER_H_
#define HAPMOE_CLIENT_SCRIPT_READING_SIMPLE_PARSER_H_

#include "client/script_reading/line_reader.h"
#include "client/script_reading/syntax.h"
#include "client/script_reading/word_parser.h"

namespace hapmoe::client::shell {

class SimpleParser {
 public:
  SimpleParser(Cursor& cursor, WordParser& words, LineReader& lines)
      : cursor_(cursor), words_(words), lines_(lines) {}

  // A program, function or builtin with its words, or assignments alone.
  void TakeSimple(Command& command);

  // [[ words ]]
  void TakeCondition(Command& command);

  // ((expression))
  void TakeArithmetic(Command& command);

  // What comes before "))", which is taken.
  Word TakeExpression();

  // False where none comes next.
  bool TakeRedirection(Command& command);

 private:
  bool TakeAssignment(Assignment& assignment);
  void TakeElements(Assignment& assignment);

  Cursor& cursor_;
  WordParser& words_;
  LineReader& lines_;
};

}  // namespace hapmoe::client::shell

#endif  // HAPMOE_CLIENT_SCRIPT_READING_SIMPLE_PARSER_H_
