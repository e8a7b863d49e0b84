#include "core/engine/schedulers/yaml.h"

#include <cstddef>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace hapmoe::engine {
namespace {

// Length of the UTF-8 sequence that the text starts with; 0 where it starts with none.
size_t Utf8Length(absl::string_view text) {
  const auto byte = [&text](size_t i) { return static_cast<unsigned char>(text[i]); };
  const size_t length = byte(0) < 0x80                      ? 1
                        : byte(0) >= 0xc2 && byte(0) < 0xe0 ? 2
                        : byte(0) >= 0xe0 && byte(0) < 0xf0 ? 3
                        : byte(0) >= 0xf0 && byte(0) < 0xf5 ? 4
                                                            : 0;
  if (length == 0 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Overlong forms, surrogates, and what lies beyond U+10FFFF.
  if ((byte(0) == 0xe0 && byte(1) < 0xa0) || (byte(0) == 0xed && byte(1) >= 0xa0) ||
      (byte(0) == 0xf0 && byte(1) < 0x90) || (byte(0) == 0xf4 && byte(1) >= 0x90)) {
    return 0;
  }
  return length;
}

uint32_t CodePoint(absl::string_view sequence) {
  uint32_t code = static_cast<unsigned char>(sequence[0]);
  if (sequence.size() > 1) code &= 0xffu >> (sequence.size() + 1);
  for (const char c : sequence.substr(1)) code = code << 6 | (static_cast<unsigned char>(c) & 0x3f);
  return code;
}

// All but ASCII is escaped: which characters YAML may hold as they are differs between its
// versions.
std::string Quoted(absl::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    const uint32_t code = length == 0 ? 0xfffd : CodePoint(text.substr(0, length));
    if (code == '"' || code == '\\') {
      quoted += '\\';
      quoted += static_cast<char>(code);
    } else if (code >= 0x20 && code < 0x7f) {
      quoted += static_cast<char>(code);
    } else if (code == '\n') {
      quoted += "\\n";
    } else if (code > 0xffff) {
      absl::StrAppendFormat(&quoted, "\\U%08x", code);  // YAML knows no surrogates.
    } else {
      absl::StrAppendFormat(&quoted, "\\u%04x", code);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return quoted + "\"";
}

// What starts with a letter or a slash, and goes on with these, is a number, a date or a mark of
// structure to no reader.
std::string Word(absl::string_view text) {
  constexpr absl::string_view kOtherTypes[] = {"y",     "n",    "yes", "no",  "on",       "off",
                                               "false", "true", "nan", "inf", "infinity", "null"};
  const bool plain = !text.empty() &&
                     (absl::ascii_isalpha(static_cast<unsigned char>(text[0])) || text[0] == '/') &&
                     absl::c_all_of(text,
                                    [](char c) {
                                      return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                                             absl::StrContains("_-./", c);
                                    }) &&
                     absl::c_none_of(kOtherTypes, [text](absl::string_view other) {
                       return absl::EqualsIgnoreCase(text, other);
                     });
  return plain ? std::string(text) : Quoted(text);
}

}  // namespace

bool IsUtf8(absl::string_view text) {
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

Yaml Yaml::Text(absl::string_view text) {
  Yaml value(Kind::kScalar);
  value.scalar_ = Word(text);
  return value;
}

Yaml Yaml::Lines(absl::string_view text) {
  const bool printable = absl::c_all_of(
      text, [](unsigned char c) { return (c >= 0x20 && c < 0x7f) || c == '\n' || c == '\t'; });
  // A blank at the start would be taken for indentation.
  const bool starts_well = !text.empty() && text[0] > ' ';
  const bool ends_well = absl::EndsWith(text, "\n") && !absl::EndsWith(text, "\n\n");
  if (!printable || !starts_well || !ends_well) return Text(text);
  Yaml value(Kind::kLines);
  value.scalar_ = std::string(text);
  return value;
}

Yaml Yaml::Number(int64_t number) {
  Yaml value(Kind::kScalar);
  value.scalar_ = absl::StrCat(number);
  return value;
}

Yaml Yaml::Flag(bool flag) {
  Yaml value(Kind::kScalar);
  value.scalar_ = flag ? "true" : "false";
  return value;
}

Yaml Yaml::TextMap(const std::map<std::string, std::string>& entries) {
  Yaml map = Map();
  for (const auto& [key, text] : entries) map.Set(key, text);
  return map;
}

Yaml Yaml::TextList(const std::vector<std::string>& texts) {
  Yaml list = List();
  for (const std::string& text : texts) list.Add(Text(text));
  return list;
}

Yaml& Yaml::Set(absl::string_view key, Yaml value) {
  items_.emplace_back(Word(key), std::move(value));
  return *this;
}

Yaml& Yaml::Add(Yaml value) {
  items_.emplace_back("", std::move(value));
  return *this;
}

std::string Yaml::Document() const {
  std::string text;
  AppendItems(0, /*first_line_is_open=*/false, &text);
  return text;
}

void Yaml::AppendBehind(int indent, bool in_list, std::string* out) const {
  switch (kind_) {
    case Kind::kScalar:
      absl::StrAppend(out, " ", scalar_, "\n");
      return;
    case Kind::kLines: {
      absl::StrAppend(out, " |\n");
      std::vector<absl::string_view> lines = absl::StrSplit(scalar_, '\n');
      lines.pop_back();  // Behind the last line feed.
      for (const absl::string_view line : lines) {
        absl::StrAppend(out, line.empty() ? "" : std::string(static_cast<size_t>(indent), ' '),
                        line, "\n");
      }
      return;
    }
    case Kind::kMap:
    case Kind::kList:
      if (items_.empty()) {
        absl::StrAppend(out, kind_ == Kind::kMap ? " {}\n" : " []\n");
      } else if (in_list) {
        out->push_back(' ');
        AppendItems(indent, /*first_line_is_open=*/true, out);
      } else {
        out->push_back('\n');
        AppendItems(indent, /*first_line_is_open=*/false, out);
      }
  }
}

void Yaml::AppendItems(int indent, bool first_line_is_open, std::string* out) const {
  for (const auto& [key, value] : items_) {
    if (!first_line_is_open) out->append(static_cast<size_t>(indent), ' ');
    first_line_is_open = false;
    if (kind_ == Kind::kMap) {
      absl::StrAppend(out, key, ":");
    } else {
      out->push_back('-');
    }
    value.AppendBehind(indent + 2, kind_ == Kind::kList, out);
  }
}

}  // namespace hapmoe::engine
