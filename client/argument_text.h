// The text of an arguments file: words quoted as in a shell, or a JSON list of strings.
#ifndef HAPMOE_CLIENT_ARGUMENT_TEXT_H_
#define HAPMOE_CLIENT_ARGUMENT_TEXT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace hapmoe::client {

// Splits the text into arguments. A text that starts with "[" is a JSON list of strings. Else words
// are split at white space; single and double quotes, backslashes and continued lines mean what
// they mean to a shell, and a word that starts with "#" starts a comment. Nothing is expanded:
// "$" and "`" outside of single quotes are refused, so that an unexpanded variable is not taken
// for a value. Errors name the line.
absl::StatusOr<std::vector<std::string>> ParseArgumentText(absl::string_view text);

}  // namespace hapmoe::client

#endif  // HAPMOE_CLIENT_ARGUMENT_TEXT_H_
