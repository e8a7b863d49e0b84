// What is wrong with a YAML (or JSON) file, in the words that every reader of one uses.
#ifndef HAPMOE_CLIENT_YAML_FAULTS_H_
#define HAPMOE_CLIENT_YAML_FAULTS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/yaml_tree.h"

namespace hapmoe::client {

// A value as a fault names it: "nothing", "a list", "a map", or the scalar in quotes, shortened.
std::string Describe(const YamlNode& node);

// Collects faults while a tree is read.
class YamlFaults {
 public:
  void Add(const YamlNode& node, absl::string_view what);

  // `what` must be `kind`, "a map" for example, and `node` is not.
  void AddOtherKind(const YamlNode& node, absl::string_view what, absl::string_view kind);

  // A map has no field `key`. Names the nearest of the `known` fields, where there is one.
  void AddUnknownField(const YamlNode& key, absl::string_view map,
                       const std::vector<std::string>& known);

  // A map has the field `key` a second time.
  void AddRepeatedField(const YamlNode& key, absl::string_view map);

  // All of them in order of lines, at most 20 and then "and more". Leaves none.
  std::vector<TextFault> Take();

 private:
  std::vector<TextFault> faults_;
};

}  // namespace hapmoe::client

#endif  // HAPMOE_CLIENT_YAML_FAULTS_H_
