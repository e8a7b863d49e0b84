// One JSON object written field by field, numbers as JSON numbers.
#ifndef HAPMOE_CLIENT_JSON_OBJECT_H_
#define HAPMOE_CLIENT_JSON_OBJECT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace hapmoe::client {

// The text as a JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD.
std::string JsonString(absl::string_view text);

// The shortest decimal that reads back as the same double; null where there is none.
std::string JsonNumber(double value);

// Fields come out in the order of the calls, on one line.
class JsonObject {
 public:
  // `json` is a complete JSON value.
  JsonObject& Add(absl::string_view name, absl::string_view json);
  JsonObject& AddString(absl::string_view name, absl::string_view text) {
    return Add(name, JsonString(text));
  }
  JsonObject& AddNumber(absl::string_view name, double value) {
    return Add(name, JsonNumber(value));
  }
  JsonObject& AddBool(absl::string_view name, bool value) {
    return Add(name, value ? "true" : "false");
  }

  std::string Text() const { return "{" + fields_ + "}"; }

 private:
  std::string fields_;
};

}  // namespace hapmoe::client

#endif  // HAPMOE_CLIENT_JSON_OBJECT_H_
