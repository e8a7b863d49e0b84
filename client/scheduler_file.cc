#include "client/scheduler_file.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/yaml_faults.h"

namespace hapmoe::client {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using Kind = YamlNode::Kind;

// Fills messages field by field. The messages say what there is, so that a new field is read as
// soon as it exists.
class MessageReader {
 public:
  void Read(const YamlNode& node, absl::string_view what, Message& message) {
    if (node.kind != Kind::kMap) {
      return faults_.AddOtherKind(node, what, "a map");
    }
    std::set<std::string> present;
    for (size_t i = 0; i < node.keys.size(); ++i) {
      const YamlNode& key = node.keys[i];
      const FieldDescriptor* field = key.kind == Kind::kScalar
                                         ? message.GetDescriptor()->FindFieldByName(key.scalar)
                                         : nullptr;
      if (field == nullptr) {
        faults_.AddUnknownField(key, what, FieldsOf(message));
      } else if (!present.insert(key.scalar).second) {
        faults_.AddRepeatedField(key, what);
      } else {
        ReadField(node.items[i], *field, message);
      }
    }
  }

  std::vector<TextFault> TakeFaults() { return faults_.Take(); }

 private:
  static std::vector<std::string> FieldsOf(const Message& message) {
    std::vector<std::string> known;
    known.reserve(static_cast<size_t>(message.GetDescriptor()->field_count()));
    for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
      known.push_back(message.GetDescriptor()->field(i)->name());
    }
    return known;
  }

  void ReadField(const YamlNode& node, const FieldDescriptor& field, Message& message) {
    const Reflection& reflection = *message.GetReflection();
    if (field.is_map()) return ReadTextMap(node, field, message);
    if (!field.is_repeated()) return ReadOne(node, field, message);
    if (node.kind != Kind::kSequence) {
      return faults_.AddOtherKind(node, field.name(), "a list");
    }
    for (const YamlNode& item : node.items) {
      if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        Read(item, absl::StrCat("an entry of ", field.name()),
             *reflection.AddMessage(&message, &field));
      } else {
        reflection.AddString(&message, &field, ReadText(item, field.name()));
      }
    }
  }

  // The messages hold maps of texts alone. Numbers are texts here: an amount may well be 8.
  void ReadTextMap(const YamlNode& node, const FieldDescriptor& field, Message& message) {
    if (node.kind != Kind::kMap) {
      return faults_.AddOtherKind(node, field.name(), "a map");
    }
    std::set<std::string> present;
    for (size_t i = 0; i < node.keys.size(); ++i) {
      if (!present.insert(node.keys[i].scalar).second) {
        faults_.Add(node.keys[i],
                    absl::StrCat(field.name(), " has ", Describe(node.keys[i]), " twice"));
        continue;
      }
      Message& entry = *message.GetReflection()->AddMessage(&message, &field);
      const std::string texts[] = {ReadText(node.keys[i], absl::StrCat("a name in ", field.name())),
                                   ReadText(node.items[i], field.name())};
      for (int side : {0, 1}) {
        entry.GetReflection()->SetString(&entry, entry.GetDescriptor()->field(side), texts[side]);
      }
    }
  }

  void ReadOne(const YamlNode& node, const FieldDescriptor& field, Message& message) {
    const Reflection& reflection = *message.GetReflection();
    const bool plain = node.kind == Kind::kScalar && !node.quoted;
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return Read(node, field.name(), *reflection.MutableMessage(&message, &field));
      case FieldDescriptor::CPPTYPE_BOOL:
        if (!plain || (node.scalar != "true" && node.scalar != "false")) {
          return faults_.AddOtherKind(node, field.name(), "true or false");
        }
        return reflection.SetBool(&message, &field, node.scalar == "true");
      case FieldDescriptor::CPPTYPE_UINT32: {
        uint32_t number = 0;
        // 0 would stand for "left out" where the field cannot tell.
        const uint32_t least = field.has_presence() ? 0 : 1;
        if (!plain || !absl::SimpleAtoi(node.scalar, &number) || number < least) {
          return faults_.AddOtherKind(node, field.name(),
                                      absl::StrCat("a whole number of at least ", least));
        }
        return reflection.SetUInt32(&message, &field, number);
      }
      default:
        return reflection.SetString(&message, &field, ReadText(node, field.name()));
    }
  }

  // Truth values are refused: readers of YAML disagree on what yes or on is.
  std::string ReadText(const YamlNode& node, absl::string_view what) {
    if (node.kind != Kind::kScalar) {
      faults_.AddOtherKind(node, what, "a string");
      return "";
    }
    if (!node.quoted && (node.scalar == "true" || node.scalar == "false")) {
      faults_.Add(node, absl::StrCat(what, " must be a string; put quotes around ", node.scalar));
    }
    return node.scalar;
  }

  YamlFaults faults_;
};

}  // namespace

std::vector<TextFault> ParseSchedulerFile(absl::string_view text, v1::LaunchOptions& options) {
  options.Clear();
  YamlNode root;
  TextFault fault;
  if (!ParseYaml(text, root, fault)) return {fault};
  MessageReader reader;
  reader.Read(root, "the file", options);
  return reader.TakeFaults();
}

}  // namespace hapmoe::client
