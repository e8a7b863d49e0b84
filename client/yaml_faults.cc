#include "client/yaml_faults.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/text.h"

namespace hapmoe::client {
namespace {

constexpr size_t kMaxFaults = 20;

}  // namespace

std::string Describe(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      return "nothing";
    case YamlNode::Kind::kSequence:
      return "a list";
    case YamlNode::Kind::kMap:
      return "a map";
    case YamlNode::Kind::kScalar:
      break;
  }
  return absl::StrCat("\"", Printable(absl::string_view(node.scalar).substr(0, 60)), "\"");
}

void YamlFaults::Add(const YamlNode& node, absl::string_view what) {
  faults_.push_back({node.line, std::string(what)});
}

void YamlFaults::AddOtherKind(const YamlNode& node, absl::string_view what,
                              absl::string_view kind) {
  Add(node, absl::StrCat(what, " must be ", kind, ", not ", Describe(node)));
}

void YamlFaults::AddUnknownField(const YamlNode& key, absl::string_view map,
                                 const std::vector<std::string>& known) {
  const std::string nearest = NearestWord(key.scalar, known);
  Add(key, absl::StrCat(map, " has no field ", Describe(key),
                        nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest)));
}

void YamlFaults::AddRepeatedField(const YamlNode& key, absl::string_view map) {
  Add(key, absl::StrCat(map, " has the field ", key.scalar, " twice"));
}

std::vector<TextFault> YamlFaults::Take() {
  std::stable_sort(faults_.begin(), faults_.end(),
                   [](const TextFault& a, const TextFault& b) { return a.line < b.line; });
  if (faults_.size() > kMaxFaults) {
    faults_.resize(kMaxFaults);
    faults_.push_back({faults_.back().line, "and more"});
  }
  return std::exchange(faults_, {});
}

}  // namespace hapmoe::client
