#include "client/script_reading/line_reader.h"

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace hapmoe::client::shell {

void LineReader::SkipBlanks() {
  while (!cursor_.AtEnd()) {
    if (cursor_.TakeIf(" ") || cursor_.TakeIf("\t") || cursor_.TakeIf("\\\n")) continue;
    if (cursor_.Peek() != '#') break;
    while (!cursor_.AtEnd() && cursor_.Peek() != '\n') cursor_.Take();
  }
}

bool LineReader::TakeNewline() {
  if (!cursor_.TakeIf("\n")) return false;
  for (HereDocument& document : std::exchange(documents_, {})) TakeBody(document);
  return true;
}

void LineReader::SkipLines() {
  do {
    SkipBlanks();
  } while (TakeNewline());
}

absl::string_view LineReader::Upcoming() const {
  const absl::string_view rest = cursor_.rest();
  size_t end = 0;
  while (end < rest.size() && !absl::StrContains(" \t\n;&|<>()", rest[end])) ++end;
  return rest.substr(0, end);
}

bool LineReader::TakeReserved(absl::string_view word) {
  if (Upcoming() != word) return false;
  cursor_.TakeIf(word);
  return true;
}

void LineReader::Expect(absl::string_view word, int line) {
  SkipLines();
  if (!TakeReserved(word)) {
    cursor_.Fail(line, absl::StrCat("\"", word, "\" is missing"));
  }
}

void LineReader::TakeHereDocument(Redirection& redirection) {
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
  // The body comes after the line, and fills this word when it is there.
  document.body = std::make_shared<Word>();
  Part body;
  body.kind = Part::Kind::kBody;
  body.quoted = true;
  body.expression = document.body;
  redirection.target = Word{document.line, {std::move(body)}};
  documents_.push_back(std::move(document));
}

void LineReader::TakeBody(HereDocument& document) {
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
  WordParser words(inner, [this, &inner] { return commands_(inner); });
  *document.body = words.TakeText("");
  if (inner.failed()) cursor_.Fail(inner.fault().line, inner.fault().what);
}

}  // namespace hapmoe::client::shell
