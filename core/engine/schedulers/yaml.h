// Values written as YAML in which no text can be anything but data.
#ifndef HAPMOE_CORE_ENGINE_SCHEDULERS_YAML_H_
#define HAPMOE_CORE_ENGINE_SCHEDULERS_YAML_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace hapmoe::engine {

// Whether the bytes are UTF-8, which YAML text must be.
bool IsUtf8(absl::string_view text);

// One value. Maps keep the order in which they are filled; keys must be unique.
//
// Text stands between double quotes with escapes that YAML 1.1 and 1.2 read alike,
// but for words and paths that no reader takes for a number, a truth value or nothing.
// Bytes that are not UTF-8 become U+FFFD.
class Yaml {
 public:
  static Yaml Text(absl::string_view text);
  // The same text in lines of its own where it has only printable ASCII and ends with one line
  // feed.
  static Yaml Lines(absl::string_view text);
  static Yaml Number(int64_t number);
  static Yaml Flag(bool flag);
  static Yaml Map() { return Yaml(Kind::kMap); }
  static Yaml List() { return Yaml(Kind::kList); }
  static Yaml TextMap(const std::map<std::string, std::string>& entries);
  static Yaml TextList(const std::vector<std::string>& texts);

  // Of a map. Returns the map.
  Yaml& Set(absl::string_view key, Yaml value);
  Yaml& Set(absl::string_view key, absl::string_view text) { return Set(key, Text(text)); }
  Yaml& Set(absl::string_view key, const char* text) { return Set(key, Text(text)); }
  // Of a list. Returns the list.
  Yaml& Add(Yaml value);

  // Of a map or a list.
  bool empty() const { return items_.empty(); }

  // A map as one document, without its separator.
  std::string Document() const;

 private:
  enum class Kind { kScalar, kLines, kMap, kList };
  explicit Yaml(Kind kind) : kind_(kind) {}

  // What stands behind "key:" or "-" of a value whose own lines are indented by `indent`.
  void AppendBehind(int indent, bool in_list, std::string* out) const;
  void AppendItems(int indent, bool first_line_is_open, std::string* out) const;

  Kind kind_;
  std::string scalar_;                               // As it is written; of kLines the text.
  std::vector<std::pair<std::string, Yaml>> items_;  // Keys as they are written.
};

}  // namespace hapmoe::engine

#endif  // HAPMOE_CORE_ENGINE_SCHEDULERS_YAML_H_
