// Quoting of arbitrary bytes for bash.
#ifndef HAPMOE_CORE_ENGINE_SHELL_QUOTE_H_
#define HAPMOE_CORE_ENGINE_SHELL_QUOTE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace hapmoe::engine {

// The text as one word of bash that expands to exactly these bytes, whatever they are: between
// single quotes nothing is special but the quote itself. The text must not hold NUL, which no
// process can receive in an argument.
std::string ShellQuote(absl::string_view text);

// The words, each quoted, separated by spaces.
std::string ShellQuote(absl::Span<const std::string> words);

}  // namespace hapmoe::engine

#endif  // HAPMOE_CORE_ENGINE_SHELL_QUOTE_H_
