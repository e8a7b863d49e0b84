// A YAML (or JSON) document as a tree of values that know their lines.
#ifndef HAPMOE_CLIENT_YAML_TREE_H_
#define HAPMOE_CLIENT_YAML_TREE_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace hapmoe::client {

// A fault of a text, at a line counted from 1.
struct TextFault {
  int line = 0;
  std::string what;
};

// One value. Aliases are replaced by copies of what they name.
struct YamlNode {
  enum class Kind { kNull, kScalar, kSequence, kMap };

  Kind kind = Kind::kNull;
  int line = 0;
  std::string scalar;
  bool quoted = false;          // A quoted scalar is a string whatever it looks like.
  std::vector<YamlNode> items;  // Of a sequence; of a map, the values.
  std::vector<YamlNode> keys;   // Of a map, as many as items, in the order written.
};

// Parses a text that holds exactly one document. The text may be hostile: size, nesting, and
// the number of values, aliases expanded, are limited. Explicit tags are refused. On failure
// returns false and sets `fault`.
bool ParseYaml(absl::string_view text, YamlNode& root, TextFault& fault);

// The first key that a map anywhere in the tree has a second time, where it stands then; null for
// none. Readers of YAML differ in what they make of it.
const YamlNode* FindRepeatedKey(const YamlNode& root);

}  // namespace hapmoe::client

#endif  // HAPMOE_CLIENT_YAML_TREE_H_
