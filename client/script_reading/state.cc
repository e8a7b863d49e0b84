#include "client/script_reading/state.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace hapmoe::client::shell {

bool HasUnknown(absl::string_view text) { return text.find('\1') != absl::string_view::npos; }

int FirstUnknown(absl::string_view text) {
  const size_t start = text.find('\1');
  int number = -1;
  if (start != absl::string_view::npos) {
    (void)absl::SimpleAtoi(text.substr(start + 1, text.find('\2', start) - start - 1), &number);
  }
  return number;
}

std::string UnknownMark(int number) { return absl::StrCat("\1", number, "\2"); }

std::optional<bool> IsEmpty(absl::string_view text) {
  if (text.empty()) return true;
  while (!text.empty()) {
    if (text[0] != '\1') return false;
    text.remove_prefix(text.find('\2') + 1);
  }
  return std::nullopt;
}

}  // namespace hapmoe::client::shell
