#include "client/cluster_file.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/yaml_faults.h"

namespace hapmoe::client {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Whether a plain scalar reads as a decimal number, 1e9 and -2.5E-3 included.
bool IsNumber(absl::string_view text) {
  size_t i = 0;
  const auto digits = [&] {
    const size_t start = i;
    while (i < text.size() && IsDigit(text[i])) ++i;
    return i > start;
  };
  if (i < text.size() && (text[i] == '-' || text[i] == '+')) ++i;
  const bool whole = digits();
  bool fraction = false;
  if (i < text.size() && text[i] == '.') {
    ++i;
    fraction = digits();
  }
  if (!whole && !fraction) return false;
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    ++i;
    if (i < text.size() && (text[i] == '-' || text[i] == '+')) ++i;
    if (!digits()) return false;
  }
  return i == text.size();
}

// Reads values and collects what is wrong with them.
class Reader {
 public:
  void Fault(const YamlNode& node, absl::string_view what) { faults_.Add(node, what); }

  std::vector<TextFault> TakeFaults() { return faults_.Take(); }

  // A field of a map and how its value is read.
  struct Field {
    const char* name;
    bool required;
    std::function<void(const YamlNode& value)> read;
  };

  // Returns the names of the fields that are there.
  std::set<std::string> ReadMap(const YamlNode& node, absl::string_view what,
                                const std::vector<Field>& fields) {
    std::set<std::string> present;
    if (node.kind != YamlNode::Kind::kMap) {
      faults_.AddOtherKind(node, what, "a map");
      for (const Field& field : fields) present.insert(field.name);  // No second complaint.
      return present;
    }
    for (size_t i = 0; i < node.keys.size(); ++i) {
      const YamlNode& key = node.keys[i];
      const auto field = std::find_if(fields.begin(), fields.end(), [&key](const Field& f) {
        return key.kind == YamlNode::Kind::kScalar && key.scalar == f.name;
      });
      if (field == fields.end()) {
        std::vector<std::string> known;
        known.reserve(fields.size());
        for (const Field& f : fields) known.emplace_back(f.name);
        faults_.AddUnknownField(key, what, known);
      } else if (!present.insert(key.scalar).second) {
        faults_.AddRepeatedField(key, what);
      } else {
        field->read(node.items[i]);
      }
    }
    for (const Field& field : fields) {
      if (field.required && present.count(field.name) == 0) {
        Fault(node, absl::StrCat(what, " lacks the field ", field.name));
      }
    }
    return present;
  }

  void ReadList(const YamlNode& node, absl::string_view what,
                const std::function<void(const YamlNode& item)>& read) {
    if (node.kind != YamlNode::Kind::kSequence) {
      faults_.AddOtherKind(node, what, "a list");
      return;
    }
    for (const YamlNode& item : node.items) read(item);
  }

  std::string ReadString(const YamlNode& node, absl::string_view what) {
    // Plain numbers and truth values are refused: YAML readers disagree on what 1e3 or 0123 is
    // as a name, so the writer says that a string is meant.
    const bool other_type =
        !node.quoted && (IsNumber(node.scalar) || node.scalar == "true" || node.scalar == "false");
    if (node.kind != YamlNode::Kind::kScalar) {
      faults_.AddOtherKind(node, what, "a string");
    } else if (other_type) {
      Fault(node, absl::StrCat(what, " must be a string; put quotes around ", node.scalar));
    } else if (node.scalar.empty()) {
      Fault(node, absl::StrCat(what, " must not be empty"));
    } else {
      return node.scalar;
    }
    return "";
  }

  // 0 stands for "left out" in the message, so that a written 0 would be silently ignored.
  uint32_t ReadCount(const YamlNode& node, absl::string_view what) {
    uint32_t count = 0;
    if (node.kind == YamlNode::Kind::kScalar && !node.quoted && IsNumber(node.scalar) &&
        absl::SimpleAtoi(node.scalar, &count) && count > 0) {
      return count;
    }
    Fault(node, absl::StrCat(what, " must be a whole number above 0, not ", Describe(node),
                             node.quoted ? " in quotes" : ""));
    return 0;
  }

  uint32_t ReadIndex(const YamlNode& node, absl::string_view what) {
    uint32_t index = 0;
    if (node.kind == YamlNode::Kind::kScalar && !node.quoted && IsNumber(node.scalar) &&
        absl::SimpleAtoi(node.scalar, &index)) {
      return index;
    }
    Fault(node, absl::StrCat(what, " must be a whole number from 0, not ", Describe(node),
                             node.quoted ? " in quotes" : ""));
    return 0;
  }

  double ReadQuantity(const YamlNode& node, absl::string_view what) {
    double value = 0;
    if (node.kind == YamlNode::Kind::kScalar && !node.quoted && IsNumber(node.scalar) &&
        absl::SimpleAtod(node.scalar, &value) && std::isfinite(value) && value > 0) {
      return value;
    }
    Fault(node, absl::StrCat(what, " must be a number above 0, not ", Describe(node),
                             node.quoted ? " in quotes" : "", "; leave it out for the default"));
    return 0;
  }

 private:
  YamlFaults faults_;
};

void ReadPool(Reader& reader, const YamlNode& node, v1::Pool& pool) {
  const std::set<std::string> present = reader.ReadMap(
      node, "a pool",
      {{"name", true, [&](const YamlNode& v) { pool.set_name(reader.ReadString(v, "name")); }},
       {"accelerator", true,
        [&](const YamlNode& v) { pool.set_accelerator(reader.ReadString(v, "accelerator")); }},
       {"nodes", false, [&](const YamlNode& v) { pool.set_nodes(reader.ReadCount(v, "nodes")); }},
       {"devices", false,
        [&](const YamlNode& v) {
          reader.ReadList(v, "device indices", [&](const YamlNode& item) {
            pool.add_devices(reader.ReadIndex(item, "a device index"));
          });
        }},
       {"hosts", false,
        [&](const YamlNode& v) {
          reader.ReadList(v, "hosts", [&](const YamlNode& item) {
            pool.add_hosts(reader.ReadString(item, "a host"));
          });
        }},
       {"accelerators_per_node", false,
        [&](const YamlNode& v) {
          pool.set_accelerators_per_node(reader.ReadCount(v, "accelerators_per_node"));
        }},
       {"host_memory_bytes", false,
        [&](const YamlNode& v) {
          pool.set_host_memory_bytes(reader.ReadQuantity(v, "host_memory_bytes"));
        }},
       {"price_per_accelerator_hour", false,
        [&](const YamlNode& v) {
          pool.set_price_per_accelerator_hour(reader.ReadQuantity(v, "price_per_accelerator_hour"));
        }},
       {"network", false, [&](const YamlNode& v) {
          v1::Network& network = *pool.mutable_network();
          reader.ReadMap(
              v, "network",
              {{"bytes_per_second", false,
                [&](const YamlNode& q) {
                  network.set_bytes_per_second(reader.ReadQuantity(q, "bytes_per_second"));
                }},
               {"latency_seconds", false, [&](const YamlNode& q) {
                  network.set_latency_seconds(reader.ReadQuantity(q, "latency_seconds"));
                }}});
        }}});
  if (node.kind != YamlNode::Kind::kMap) return;
  const bool nodes = present.count("nodes") > 0;
  const bool hosts = present.count("hosts") > 0;
  if (nodes && hosts) reader.Fault(node, "a pool has both nodes and hosts; give one of them");
  if (!nodes && !hosts) reader.Fault(node, "a pool lacks its nodes: give their number, or hosts");
}

void ReadLink(Reader& reader, const YamlNode& node, v1::Link& link) {
  reader.ReadMap(node, "a link",
                 {{"between", true,
                   [&](const YamlNode& v) {
                     reader.ReadList(v, "between", [&](const YamlNode& item) {
                       link.add_between(reader.ReadString(item, "a pool's name"));
                     });
                     if (v.kind == YamlNode::Kind::kSequence && v.items.size() != 2) {
                       reader.Fault(v, "between must name two pools");
                     }
                   }},
                  {"bytes_per_second", false,
                   [&](const YamlNode& v) {
                     link.set_bytes_per_second(reader.ReadQuantity(v, "bytes_per_second"));
                   }},
                  {"latency_seconds", false, [&](const YamlNode& v) {
                     link.set_latency_seconds(reader.ReadQuantity(v, "latency_seconds"));
                   }}});
}

}  // namespace

std::vector<TextFault> ParseCluster(absl::string_view text, v1::Cluster& cluster) {
  YamlNode root;
  TextFault fault;
  if (!ParseYaml(text, root, fault)) return {fault};
  Reader reader;
  if (root.line == 0) root.line = 1;
  reader.ReadMap(root, "a cluster",
                 {{"pools", true,
                   [&](const YamlNode& v) {
                     reader.ReadList(v, "pools", [&](const YamlNode& item) {
                       ReadPool(reader, item, *cluster.add_pools());
                     });
                     if (v.kind == YamlNode::Kind::kSequence && v.items.empty()) {
                       reader.Fault(v, "pools must not be empty");
                     }
                   }},
                  {"links", false, [&](const YamlNode& v) {
                     reader.ReadList(v, "links", [&](const YamlNode& item) {
                       ReadLink(reader, item, *cluster.add_links());
                     });
                   }}});
  return reader.TakeFaults();
}

}  // namespace hapmoe::client
