#include "client/script_reading/tools.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace hapmoe::client::shell {
namespace {

using Words = std::vector<std::string>;

// An escape of echo -e and printf, after its backslash. False for one that is not read.
bool TakeEscape(absl::string_view& rest, std::string& text) {
  if (rest.empty()) {
    text.push_back('\\');
    return true;
  }
  const size_t at = absl::string_view("abefnrtv\\\"'").find(rest[0]);
  if (at == absl::string_view::npos) {
    // Colours are all that is written in octal.
    if (absl::StartsWith(rest, "033")) {
      text.push_back('\x1b');
      rest.remove_prefix(3);
      return true;
    }
    return false;
  }
  text.push_back("\a\b\x1b\f\n\r\t\v\\\"'"[at]);
  rest.remove_prefix(1);
  return true;
}

std::vector<std::string> LinesOf(absl::string_view text) {
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  if (lines.back().empty()) lines.pop_back();
  return lines;
}

std::string JoinLines(const std::vector<std::string>& lines) {
  return lines.empty() ? "" : absl::StrCat(absl::StrJoin(lines, "\n"), "\n");
}

std::string BaseName(absl::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  return path == "/" ? "/" : std::string(path.substr(path.rfind('/') + 1));
}

std::string DirectoryName(absl::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  const size_t slash = path.rfind('/');
  if (slash == absl::string_view::npos) return ".";
  path = path.substr(0, slash);
  while (!path.empty() && path.back() == '/') path.remove_suffix(1);
  return path.empty() ? "/" : std::string(path);
}

ToolResult Sequence(const Words& words) {
  std::vector<int64_t> numbers;
  std::string separator = "\n";
  for (size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "-s" && i + 1 < words.size()) {
      separator = words[++i];
      continue;
    }
    if (absl::StartsWith(words[i], "-s") && words[i].size() > 2) {
      separator = words[i].substr(2);
      continue;
    }
    int64_t number = 0;
    if (!absl::SimpleAtoi(words[i], &number)) return {};
    numbers.push_back(number);
  }
  if (numbers.empty() || numbers.size() > 3) return {};
  const int64_t first = numbers.size() > 1 ? numbers[0] : 1;
  const int64_t step = numbers.size() > 2 ? numbers[1] : 1;
  const int64_t last = numbers.back();
  if (step == 0 || std::abs(first) > 1e9 || std::abs(last) > 1e9 || std::abs(step) > 1e9 ||
      (last - first) / step > 100000) {
    return {};
  }
  std::vector<std::string> items;
  for (int64_t i = first; step > 0 ? i <= last : i >= last; i += step) {
    items.push_back(absl::StrCat(i));
  }
  return {true, items.empty() ? "" : absl::StrCat(absl::StrJoin(items, separator), "\n")};
}

// head and tail, of lines.
ToolResult Ends(const Words& words, absl::string_view input) {
  size_t count = 10;
  bool from = false;
  for (size_t i = 1; i < words.size(); ++i) {
    absl::string_view value = words[i];
    if (value == "-n" && i + 1 < words.size()) {
      value = words[++i];
    } else if (!absl::ConsumePrefix(&value, "-n") && !absl::ConsumePrefix(&value, "--lines=") &&
               !absl::ConsumePrefix(&value, "-")) {
      return {};
    }
    from = absl::ConsumePrefix(&value, "+");
    if (!absl::SimpleAtoi(value, &count)) return {};
  }
  std::vector<std::string> lines = LinesOf(input);
  if (words[0] == "head") {
    if (from) return {};
    if (lines.size() > count) lines.resize(count);
  } else if (from) {
    lines.erase(lines.begin(), lines.begin() + std::min(lines.size(), count > 0 ? count - 1 : 0));
  } else if (lines.size() > count) {
    lines.erase(lines.begin(), lines.end() - count);
  }
  return {true, JoinLines(lines)};
}

ToolResult Cut(const Words& words, absl::string_view input) {
  char delimiter = '\t';
  std::string fields;
  for (size_t i = 1; i < words.size(); ++i) {
    std::string word = words[i];
    if ((word == "-d" || word == "-f") && i + 1 < words.size()) word += words[++i];
    if (absl::StartsWith(word, "-d") && word.size() == 3) {
      delimiter = word[2];
    } else if (absl::StartsWith(word, "-f")) {
      fields = word.substr(2);
    } else {
      return {};
    }
  }
  const std::vector<std::string> ends = absl::StrSplit(fields, '-');
  size_t first = 0;
  size_t last = 0;
  if (ends.size() > 2 || !absl::SimpleAtoi(ends[0], &first) || first == 0) return {};
  last = ends.size() == 1 ? first : SIZE_MAX;
  if (ends.size() == 2 && !ends[1].empty() && !absl::SimpleAtoi(ends[1], &last)) return {};
  std::vector<std::string> lines = LinesOf(input);
  for (std::string& line : lines) {
    const std::vector<std::string> parts = absl::StrSplit(line, delimiter);
    if (parts.size() == 1) continue;  // A line without the delimiter stays.
    Words chosen;
    for (size_t i = first; i <= std::min(last, parts.size()); ++i) chosen.push_back(parts[i - 1]);
    line = absl::StrJoin(chosen, std::string(1, delimiter));
  }
  return {true, JoinLines(lines)};
}

// A set of tr: characters, ranges, classes of letters. False for others.
bool CharacterSet(absl::string_view text, std::string& set) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (absl::StartsWith(text.substr(i), "[:")) {
      const absl::string_view rest = text.substr(i);
      char first = 'a';
      if (absl::StartsWith(rest, "[:upper:]")) {
        first = 'A';
      } else if (!absl::StartsWith(rest, "[:lower:]")) {
        return false;
      }
      for (int c = 0; c < 26; ++c) set.push_back(static_cast<char>(first + c));
      i += 8;
    } else if (text[i] == '\\') {
      absl::string_view rest = text.substr(i + 1);
      if (rest.empty() || !TakeEscape(rest, set)) return false;
      ++i;
    } else if (i + 2 < text.size() && text[i + 1] == '-') {
      const int first = static_cast<unsigned char>(text[i]);
      const int last = static_cast<unsigned char>(text[i + 2]);
      if (first > last) return false;
      for (int c = first; c <= last; ++c) set.push_back(static_cast<char>(c));
      i += 2;
    } else {
      set.push_back(text[i]);
    }
  }
  return !set.empty();
}

ToolResult Translate(const Words& words, absl::string_view input) {
  const bool removes = words.size() == 3 && words[1] == "-d";
  std::string from;
  std::string to;
  if (words.size() != 3 || (!removes && absl::StartsWith(words[1], "-")) ||
      !CharacterSet(words[removes ? 2 : 1], from) || (!removes && !CharacterSet(words[2], to))) {
    return {};
  }
  ToolResult result{true, ""};
  for (const char c : input) {
    const size_t at = from.rfind(c);
    if (at == std::string::npos) {
      result.text.push_back(c);
    } else if (!removes) {
      result.text.push_back(to[std::min(at, to.size() - 1)]);
    }
  }
  return result;
}

// awk '{print $N}'.
ToolResult Column(const Words& words, absl::string_view input) {
  absl::string_view program = words.size() == 2 ? absl::string_view(words[1]) : "";
  size_t column = 0;
  if (!absl::ConsumePrefix(&program, "{")) return {};
  program = absl::StripAsciiWhitespace(program);
  if (!absl::ConsumePrefix(&program, "print") || !absl::ConsumeSuffix(&program, "}")) return {};
  program = absl::StripAsciiWhitespace(program);
  if (!absl::ConsumePrefix(&program, "$") || !absl::SimpleAtoi(program, &column) || column == 0) {
    return {};
  }
  std::vector<std::string> lines = LinesOf(input);
  for (std::string& line : lines) {
    const Words fields = absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    line = column <= fields.size() ? fields[column - 1] : "";
  }
  return {true, JoinLines(lines)};
}

}  // namespace

std::string EchoText(const Words& words, std::string& text) {
  size_t at = 1;
  bool newline = true;
  bool escapes = false;
  for (; at < words.size(); ++at) {
    const std::string& word = words[at];
    if (word.size() < 2 || word[0] != '-' ||
        word.find_first_not_of("neE", 1) != std::string::npos) {
      break;
    }
    for (const char c : word) {
      if (c == 'n') newline = false;
      if (c == 'e') escapes = true;
      if (c == 'E') escapes = false;
    }
  }
  const std::string joined = absl::StrJoin(words.begin() + at, words.end(), " ");
  if (escapes) {
    for (absl::string_view rest = joined; !rest.empty();) {
      const char c = rest[0];
      rest.remove_prefix(1);
      if (c != '\\') {
        text.push_back(c);
      } else if (!TakeEscape(rest, text)) {
        return "an escape of echo -e";
      }
    }
  } else {
    text = joined;
  }
  if (newline) text.push_back('\n');
  return "";
}

std::string PrintfText(const Words& words, std::string& text) {
  if (words.size() < 2) return "printf without a format";
  size_t next = 2;
  do {
    const size_t before = next;
    for (absl::string_view rest = words[1]; !rest.empty();) {
      const char c = rest[0];
      rest.remove_prefix(1);
      if (c == '\\') {
        if (!TakeEscape(rest, text)) return "an escape of printf";
        continue;
      }
      if (c != '%') {
        text.push_back(c);
        continue;
      }
      if (absl::ConsumePrefix(&rest, "%")) {
        text.push_back('%');
        continue;
      }
      const bool left = absl::ConsumePrefix(&rest, "-");
      const bool zero = absl::ConsumePrefix(&rest, "0");
      size_t width = 0;
      while (!rest.empty() && absl::ascii_isdigit(rest[0]) && width < 1000) {
        width = width * 10 + (rest[0] - '0');
        rest.remove_prefix(1);
      }
      if (rest.empty() || !absl::StrContains("sdi", rest[0])) return "a format of printf";
      std::string value = next < words.size() ? words[next] : "";
      ++next;
      if (rest[0] != 's') {
        int64_t number = 0;
        if (!value.empty() && !absl::SimpleAtoi(value, &number)) return "a number of printf";
        value = absl::StrCat(number);
        if (value[0] == '-' && zero) return "a format of printf";
      }
      rest.remove_prefix(1);
      const std::string fill(value.size() < width ? width - value.size() : 0,
                             zero && !left ? '0' : ' ');
      absl::StrAppend(&text, left ? "" : fill, value, left ? fill : "");
    }
    if (next == before || text.size() > (1 << 20)) break;
  } while (next < words.size());
  return "";
}

ToolResult RunTextTool(const Words& given, absl::string_view input) {
  Words words = given;
  const std::string& name = words[0];
  if (words.size() > 1 && words[1] == "--" && (name == "basename" || name == "dirname")) {
    words.erase(words.begin() + 1);
  }
  if (name == "basename" && words.size() >= 2 && words.size() <= 3 && words[1][0] != '-') {
    std::string base = BaseName(words[1]);
    if (words.size() == 3 && base != words[2])
      base = std::string(absl::StripSuffix(base, words[2]));
    return {true, absl::StrCat(base, "\n")};
  }
  if (name == "dirname" && words.size() == 2) {
    return {true, absl::StrCat(DirectoryName(words[1]), "\n")};
  }
  if (name == "seq") return Sequence(words);
  if (name == "head" || name == "tail") return Ends(words, input);
  if (name == "cut") return Cut(words, input);
  if (name == "awk") return Column(words, input);
  if (name == "tr") return Translate(words, input);
  if (name == "wc" && words.size() == 2 && (words[1] == "-l" || words[1] == "-c")) {
    const auto count = words[1] == "-l" ? std::count(input.begin(), input.end(), '\n')
                                        : static_cast<std::ptrdiff_t>(input.size());
    return {true, absl::StrCat(count, "\n")};
  }
  if (name == "sort" && words.size() == 1) {
    std::vector<std::string> lines = LinesOf(input);
    std::sort(lines.begin(), lines.end());
    return {true, JoinLines(lines)};
  }
  return {};
}

}  // namespace hapmoe::client::shell
