#include "server/log/log.h"

#include <unistd.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace hapmoe::server {
namespace {

absl::string_view Name(Severity severity) {
  switch (severity) {
    case Severity::kInfo:
      return "INFO";
    case Severity::kWarning:
      return "WARNING";
    case Severity::kError:
      return "ERROR";
  }
  return "";
}

// Length of the UTF-8 character that a text starts with; 0 if it starts with none.
size_t CharacterLength(absl::string_view text) {
  const auto byte = [&text](size_t i) { return static_cast<unsigned char>(text[i]); };
  size_t length = 0;
  if (byte(0) < 0x80) {
    return 1;
  } else if (byte(0) >= 0xC2 && byte(0) < 0xE0) {
    length = 2;
  } else if (byte(0) >= 0xE0 && byte(0) < 0xF0) {
    length = 3;
  } else if (byte(0) >= 0xF0 && byte(0) < 0xF5) {
    length = 4;
  }
  if (length == 0 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  return length;
}

}  // namespace

std::string JsonString(absl::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const size_t length = CharacterLength(text);
    const char c = text.front();
    if (length == 0) {
      out += "\\ufffd";
      text.remove_prefix(1);
      continue;
    }
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      absl::StrAppendFormat(&out, "\\u%04x", static_cast<unsigned char>(c));
    } else {
      absl::StrAppend(&out, text.substr(0, length));
    }
    text.remove_prefix(length);
  }
  out.push_back('"');
  return out;
}

LogLine::LogLine(Severity severity, absl::string_view event) {
  const std::string time =
      absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", absl::Now(), absl::UTCTimeZone());
  line_ = absl::StrCat("{\"time\":\"", time, "\",\"severity\":\"", Name(severity),
                       "\",\"event\":", JsonString(event));
}

LogLine::~LogLine() {
  line_ += "}\n";
  // A log that cannot be written is no reason to stop.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line_.data(), line_.size());
}

LogLine& LogLine::Add(absl::string_view key, absl::string_view value) {
  absl::StrAppend(&line_, ",", JsonString(key), ":", JsonString(value));
  return *this;
}

LogLine& LogLine::Add(absl::string_view key, int64_t value) {
  absl::StrAppend(&line_, ",", JsonString(key), ":", value);
  return *this;
}

LogLine& LogLine::Add(absl::string_view key, double value) {
  absl::StrAppend(&line_, ",", JsonString(key), ":");
  std::isfinite(value) ? absl::StrAppend(&line_, value) : absl::StrAppend(&line_, "null");
  return *this;
}

LogLine& LogLine::Add(absl::string_view key, bool value) {
  absl::StrAppend(&line_, ",", JsonString(key), ":", value ? "true" : "false");
  return *this;
}

}  // namespace hapmoe::server
