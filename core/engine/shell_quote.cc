#include "core/engine/shell_quote.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace hapmoe::engine {

std::string ShellQuote(absl::string_view text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", R"('\'')"}}), "'");
}

std::string ShellQuote(absl::Span<const std::string> words) {
  std::string line;
  for (const std::string& word : words) {
    absl::StrAppend(&line, line.empty() ? "" : " ", ShellQuote(word));
  }
  return line;
}

}  // namespace hapmoe::engine
