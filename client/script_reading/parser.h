// Reads the text of a bash script into a tree.
#ifndef HAPMOE_CLIENT_SCRIPT_READING_PARSER_H_
#define HAPMOE_CLIENT_SCRIPT_READING_PARSER_H_

#include <string>

#include "absl/strings/string_view.h"
#include "client/script_reading/syntax.h"

namespace hapmoe::client::shell {

struct SyntaxFault {
  int line = 0;
  std::string what;  // Empty where there is none.
};

// False, with the first fault, for what is not bash or is a part of bash that is not read here.
// `first_line` is the number of the text's first line. Time is linear in the text but for nested
// backquotes; nesting is limited.
bool ParseShell(absl::string_view text, int first_line, List& list, SyntaxFault& fault);

}  // namespace hapmoe::client::shell

#endif  // HAPMOE_CLIENT_SCRIPT_READING_PARSER_H_
