// What stands between the words of a script: blanks, comments, the ends of lines, reserved words,
// and the here-documents that follow a line.
#ifndef HAPMOE_CLIENT_SCRIPT_READING_LINE_READER_H_
#define HAPMOE_CLIENT_SCRIPT_READING_LINE_READER_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/script_reading/syntax.h"
#include "client/script_reading/word_parser.h"

namespace hapmoe::client::shell {

class LineReader {
 public:
  // Reads commands from where a cursor over another text stands, up to the parenthesis that closes
  // them, and takes it. Faults are the cursor's.
  using CommandReader = std::function<std::shared_ptr<const List>(Cursor& text)>;

  // `commands` reads substitutions in the bodies of here-documents.
  LineReader(Cursor& cursor, WordParser& words, CommandReader commands)
      : cursor_(cursor), words_(words), commands_(std::move(commands)) {}

  // Blanks, continued lines and comments.
  void SkipBlanks();

  // The same with the ends of lines, and the here-documents that follow them.
  void SkipLines();

  // The reserved word or name that comes next, not taken.
  absl::string_view Upcoming() const;

  bool TakeReserved(absl::string_view word);

  // Takes the word, which may be on a later line. `line` is that of the command that lacks it.
  void Expect(absl::string_view word, int line);

  // What follows "<<". The body comes after the line, and fills the target when it is there.
  void TakeHereDocument(Redirection& redirection);

 private:
  struct HereDocument {
    std::string end;
    bool literal = false;
    bool strip_tabs = false;
    int line = 0;
    std::shared_ptr<Word> body;
  };

  bool TakeNewline();
  void TakeBody(HereDocument& document);

  Cursor& cursor_;
  WordParser& words_;
  CommandReader commands_;
  std::vector<HereDocument> documents_;  // Of this line, whose bodies are to come.
};

}  // namespace hapmoe::client::shell

#endif  // HAPMOE_CLIENT_SCRIPT_READING_LINE_READER_H_
