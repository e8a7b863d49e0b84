#include "client/script_reading/pattern.h"

#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace hapmoe::client::shell {
namespace {

bool InClass(absl::string_view name, unsigned char c) {
  if (name == "alpha") return absl::ascii_isalpha(c);
  if (name == "digit") return absl::ascii_isdigit(c);
  if (name == "alnum") return absl::ascii_isalnum(c);
  if (name == "space") return absl::ascii_isspace(c);
  if (name == "blank") return absl::ascii_isblank(c);
  if (name == "upper") return absl::ascii_isupper(c);
  if (name == "lower") return absl::ascii_islower(c);
  if (name == "punct") return absl::ascii_ispunct(c);
  if (name == "xdigit") return absl::ascii_isxdigit(c);
  return false;
}

// The length of the bracket expression at the front of `pattern`, 0 where it is not one, and
// whether it holds `c`.
size_t Bracket(absl::string_view pattern, char c, bool& matches) {
  size_t i = 1;
  const bool negated = i < pattern.size() && (pattern[i] == '!' || pattern[i] == '^');
  if (negated) ++i;
  bool found = false;
  for (bool first = true; i < pattern.size(); first = false) {
    if (pattern[i] == ']' && !first) {
      matches = found != negated;
      return i + 1;
    }
    if (absl::StartsWith(pattern.substr(i), "[:")) {
      const size_t end = pattern.find(":]", i);
      if (end == absl::string_view::npos) return 0;
      found |= InClass(pattern.substr(i + 2, end - i - 2), static_cast<unsigned char>(c));
      i = end + 2;
      continue;
    }
    if (pattern[i] == '\\' && i + 1 < pattern.size()) ++i;
    const char low = pattern[i++];
    char high = low;
    if (i + 1 < pattern.size() && pattern[i] == '-' && pattern[i + 1] != ']') {
      if (pattern[++i] == '\\' && i + 1 < pattern.size()) ++i;
      high = pattern[i++];
    }
    found |= low <= c && c <= high;
  }
  return 0;
}

// The length of what stands for one character at the front of `pattern`, and whether it is `c`.
size_t One(absl::string_view pattern, char c, bool& matches) {
  if (pattern[0] == '?') {
    matches = true;
    return 1;
  }
  if (pattern[0] == '[') {
    if (const size_t length = Bracket(pattern, c, matches); length > 0) return length;
  }
  const size_t escaped = pattern[0] == '\\' && pattern.size() > 1 ? 1 : 0;
  matches = pattern[escaped] == c;
  return escaped + 1;
}

}  // namespace

bool MatchesPattern(absl::string_view pattern, absl::string_view text) {
  size_t p = 0;
  size_t t = 0;
  size_t star = absl::string_view::npos;
  size_t star_text = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = ++p;
      star_text = t;
      continue;
    }
    bool matches = false;
    const size_t length = p < pattern.size() ? One(pattern.substr(p), text[t], matches) : 0;
    if (matches) {
      p += length;
      ++t;
    } else if (star != absl::string_view::npos) {
      p = star;
      t = ++star_text;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool IsPattern(absl::string_view pattern) {
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '\\') {
      ++i;
    } else if (pattern[i] == '*' || pattern[i] == '?') {
      return true;
    } else if (pattern[i] == '[') {
      bool matches = false;
      if (Bracket(pattern.substr(i), 'x', matches) > 0) return true;
    }
  }
  return false;
}

std::string RemoveMatch(absl::string_view text, absl::string_view pattern,
                        absl::string_view operation) {
  const bool front = operation[0] == '#';
  const bool longest = operation.size() == 2;
  for (size_t i = 0; i <= text.size(); ++i) {
    const size_t length = longest ? text.size() - i : i;
    const absl::string_view part =
        front ? text.substr(0, length) : text.substr(text.size() - length);
    if (!MatchesPattern(pattern, part)) continue;
    return std::string(front ? text.substr(length) : text.substr(0, text.size() - length));
  }
  return std::string(text);
}

std::string ReplaceMatches(absl::string_view text, absl::string_view pattern,
                           absl::string_view replacement, absl::string_view operation) {
  // Nothing is at the start and at the end of every text.
  if (pattern.empty() && operation == "/#") return absl::StrCat(replacement, text);
  if (pattern.empty() && operation == "/%") return absl::StrCat(text, replacement);
  std::string result;
  bool done = pattern.empty();
  for (size_t at = 0; at < text.size();) {
    // The longest match that starts here.
    size_t length = 0;
    for (size_t n = text.size() - at; n > 0 && length == 0 && !done; --n) {
      if (operation == "/#" && at > 0) break;
      if (operation == "/%" && at + n < text.size()) break;
      if (MatchesPattern(pattern, text.substr(at, n))) length = n;
    }
    if (length == 0) {
      result.push_back(text[at++]);
      continue;
    }
    absl::StrAppend(&result, replacement);
    at += length;
    done = operation != "//";
  }
  return result;
}

}  // namespace hapmoe::client::shell
