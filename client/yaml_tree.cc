#include "client/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <cstddef>
#include <exception>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"

namespace hapmoe::client {
namespace {

constexpr size_t kMaxTextBytes = 4 << 20;
constexpr size_t kMaxDepth = 32;
constexpr size_t kMaxNodes = 200'000;

// Ends a parse from inside of the parser.
struct ParseFault : std::exception {
  ParseFault(int at_line, std::string text) : fault{at_line, std::move(text)} {}
  TextFault fault;
};

size_t CountNodes(const YamlNode& node) {
  size_t count = 1;
  for (const YamlNode& item : node.items) count += CountNodes(item);
  for (const YamlNode& key : node.keys) count += CountNodes(key);
  return count;
}

// Builds the tree from the parser's events.
class TreeBuilder : public YAML::EventHandler {
 public:
  YamlNode TakeRoot() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ > 0) throw ParseFault(mark.line + 1, "more than one document");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    YamlNode node;
    node.line = mark.line + 1;
    Place(std::move(node), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchored_.find(anchor);
    // An alias inside of what it names has no end.
    if (found == anchored_.end()) throw ParseFault(mark.line + 1, "an alias of itself");
    nodes_ += CountNodes(found->second);
    CheckSize(mark.line + 1);
    YamlNode copy = found->second;
    Place(std::move(copy), 0);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    YamlNode node = Start(mark, tag, YamlNode::Kind::kScalar);
    node.scalar = value;
    node.quoted = tag == "!";
    Place(std::move(node), anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(Start(mark, tag, YamlNode::Kind::kSequence), anchor);
  }
  void OnSequenceEnd() override { Close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(Start(mark, tag, YamlNode::Kind::kMap), anchor);
  }
  void OnMapEnd() override { Close(); }

 private:
  // A collection that is not complete yet.
  struct OpenNode {
    YamlNode node;
    YAML::anchor_t anchor;
  };

  void CheckSize(int line) const {
    if (nodes_ > kMaxNodes) {
      throw ParseFault(line, absl::StrCat("more than ", kMaxNodes, " values, aliases expanded"));
    }
  }

  YamlNode Start(const YAML::Mark& mark, const std::string& tag, YamlNode::Kind kind) {
    // "?" marks what is written plainly, "!" what is quoted.
    if (!tag.empty() && tag != "?" && tag != "!") {
      throw ParseFault(mark.line + 1, absl::StrCat("the tag ", tag, " is not understood"));
    }
    YamlNode node;
    node.kind = kind;
    node.line = mark.line + 1;
    return node;
  }

  void Open(YamlNode node, YAML::anchor_t anchor) {
    if (open_.size() >= kMaxDepth) {
      throw ParseFault(node.line, absl::StrCat("nested deeper than ", kMaxDepth, " levels"));
    }
    open_.push_back({std::move(node), anchor});
  }

  void Close() {
    OpenNode closed = std::move(open_.back());
    open_.pop_back();
    Place(std::move(closed.node), closed.anchor);
  }

  // Puts a complete value where it belongs.
  void Place(YamlNode node, YAML::anchor_t anchor) {
    ++nodes_;
    CheckSize(node.line);
    if (anchor != 0) anchored_[anchor] = node;
    if (open_.empty()) {
      root_ = std::move(node);
    } else if (YamlNode& parent = open_.back().node;
               parent.kind == YamlNode::Kind::kMap && parent.keys.size() == parent.items.size()) {
      parent.keys.push_back(std::move(node));
    } else {
      parent.items.push_back(std::move(node));
    }
  }

  YamlNode root_;
  std::vector<OpenNode> open_;
  std::map<YAML::anchor_t, YamlNode> anchored_;
  size_t nodes_ = 0;
  int documents_ = 0;
};

}  // namespace

bool ParseYaml(absl::string_view text, YamlNode& root, TextFault& fault) {
  if (text.size() > kMaxTextBytes) {
    fault = {1, absl::StrCat("larger than ", kMaxTextBytes, " bytes")};
    return false;
  }
  // A NUL ends the parser's input without a word.
  if (const size_t nul = text.find('\0'); nul != absl::string_view::npos) {
    fault = {1, absl::StrCat("holds a NUL byte at offset ", nul)};
    return false;
  }
  TreeBuilder builder;
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
    root = builder.TakeRoot();
    return true;
  } catch (const ParseFault& error) {
    fault = error.fault;
  } catch (const YAML::Exception& error) {
    fault = {error.mark.line + 1, error.msg};
  } catch (const std::exception& error) {
    // The parser's containers; nothing else in it throws.
    fault = {1, error.what()};
  }
  return false;
}

const YamlNode* FindRepeatedKey(const YamlNode& root) {
  std::set<absl::string_view> seen;
  for (const YamlNode& key : root.keys) {
    if (key.kind == YamlNode::Kind::kScalar && !seen.insert(key.scalar).second) return &key;
  }
  for (const YamlNode& item : root.items) {
    if (const YamlNode* key = FindRepeatedKey(item); key != nullptr) return key;
  }
  return nullptr;
}

}  // namespace hapmoe::client
