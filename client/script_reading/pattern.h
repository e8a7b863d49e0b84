// Patterns of bash: "*", "?", "[...]", and a backslash before what stands for itself.
#ifndef HAPMOE_CLIENT_SCRIPT_READING_PATTERN_H_
#define HAPMOE_CLIENT_SCRIPT_READING_PATTERN_H_

#include <string>

#include "absl/strings/string_view.h"

namespace hapmoe::client::shell {

// Whether the whole text matches. Time is at most the product of the lengths.
bool MatchesPattern(absl::string_view pattern, absl::string_view text);

// Whether a pattern is more than quoted or plain text.
bool IsPattern(absl::string_view pattern);

// ${text#pattern} and its kin: `operation` is one of # ## % %%.
std::string RemoveMatch(absl::string_view text, absl::string_view pattern,
                        absl::string_view operation);

// ${text/pattern/replacement} and its kin: `operation` is one of / // /# /%.
std::string ReplaceMatches(absl::string_view text, absl::string_view pattern,
                           absl::string_view replacement, absl::string_view operation);

}  // namespace hapmoe::client::shell

#endif  // HAPMOE_CLIENT_SCRIPT_READING_PATTERN_H_
