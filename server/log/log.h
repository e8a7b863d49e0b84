// Structured log lines: one JSON object a line on standard error.
#ifndef HAPMOE_SERVER_LOG_LOG_H_
#define HAPMOE_SERVER_LOG_LOG_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace hapmoe::server {

enum class Severity { kInfo, kWarning, kError };

// One line, written when it ends:
//
//   LogLine(Severity::kInfo, "serving").Add("port", 50051);
//
// Nothing that a caller sent belongs in it, except what is said to be for logs. Each line is one
// write: lines of different threads do not mix. Used by one thread.
class LogLine {
 public:
  LogLine(Severity severity, absl::string_view event);
  ~LogLine();
  LogLine(const LogLine&) = delete;
  LogLine& operator=(const LogLine&) = delete;

  LogLine& Add(absl::string_view key, absl::string_view value);
  LogLine& Add(absl::string_view key, const char* value) {
    return Add(key, absl::string_view(value));
  }
  LogLine& Add(absl::string_view key, int64_t value);
  LogLine& Add(absl::string_view key, int value) { return Add(key, int64_t{value}); }
  LogLine& Add(absl::string_view key, double value);
  LogLine& Add(absl::string_view key, bool value);

 private:
  std::string line_;
};

// A text as a JSON string, quotes included. Bytes that are not UTF-8 are replaced.
std::string JsonString(absl::string_view text);

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_LOG_LOG_H_
