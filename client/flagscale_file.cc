#include "client/flagscale_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "client/launch_environment.h"
#include "client/script_files.h"
#include "client/yaml_tree.h"

namespace hapmoe::client {
namespace {

namespace fs = std::filesystem;

// Keys that FlagScale itself takes out (flagscale/runner/runner_train.py).
constexpr absl::string_view kIgnored[] = {"log_dir", "details_dir", "scripts_dir", "pids_dir"};

// Options of FlagScale's patch of Megatron-LM without counterpart (FlagOpen/FlagScale da4935ec,
// flagscale/backends/Megatron-LM/megatron/training/arguments.py.patch) that say nothing about
// shape, layout or batch.
constexpr absl::string_view kFlagScaleOnly[] = {
    "--no-shared-fs",
    "--tokenizer-path",
    "--special-tokens-file",
    "--wandb-mode",
    "--wandb-api-key",
    "--wandb-log-model",
    "--wandb-log-model-interval",
    "--skip-iters-range",
    "--skip-samples-range",
    "--extra-eval-interval",
    "--extra-valid-data-path",
    "--auto-skip-spiky-loss",
    "--spiky-loss-threshold",
    "--finetune-dataset-type",
    "--apply-sft-dataset-separated-loss-mask-if-existed",
    "--save-when-num-microbatches-change",
    "--rampup-save-interval",
    "--norm-init-weight",
    "--auto-tune"};

constexpr int kMaxInterpolations = 8;

const YamlNode* Child(const YamlNode& node, absl::string_view key) {
  if (node.kind != YamlNode::Kind::kMap) return nullptr;
  for (size_t i = 0; i < node.keys.size(); ++i) {
    if (node.keys[i].scalar == key) return &node.items[i];
  }
  return nullptr;
}

// As Python prints the number: the shortest that reads back, with a point or an exponent.
std::string PythonFloat(double value) {
  char buffer[64];
  const double size = std::abs(value);
  const bool fixed = value == 0 || (size >= 1e-4 && size < 1e16);
  const auto result =
      std::to_chars(buffer, buffer + sizeof(buffer), value,
                    fixed ? std::chars_format::fixed : std::chars_format::scientific);
  std::string text(buffer, result.ptr);
  if (fixed && !absl::StrContains(text, '.')) text += ".0";
  return text;
}

class FlagScaleReader {
 public:
  explicit FlagScaleReader(std::string path) : path_(std::move(path)) {}

  absl::StatusOr<ScriptRun> Read() {
    if (absl::Status status = Parse(path_, root_); !status.ok()) return status;
    const YamlNode* train = Child(root_, "train");
    const YamlNode* experiment = Child(root_, "experiment");
    if (Child(root_, "system") != nullptr) train = &root_;
    if (train == nullptr) {
      if (absl::Status status = ReadDefaults(); !status.ok()) return status;
      train = &train_file_;
    }
    if (experiment != nullptr) {
      const YamlNode* task = Child(*experiment, "task");
      const YamlNode* backend = task == nullptr ? nullptr : Child(*task, "backend");
      if (backend != nullptr && backend->scalar != "megatron") {
        return Refuse(*backend, "only tasks of the megatron backend are read");
      }
    }
    Launch launch;
    launch.program = "flagscale";
    launch.entry = "flagscale/train/train_gpt.py";
    if (absl::Status status = TakeArguments(*train, launch); !status.ok()) return status;
    if (experiment != nullptr) TakeExperiment(*experiment, launch);
    ScriptRun run;
    run.launches.push_back(std::move(launch));
    return run;
  }

 private:
  absl::Status Refuse(const YamlNode& node, absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat(file_.empty() ? path_ : file_, ":", node.line, ": ", what));
  }

  absl::Status Parse(const std::string& path, YamlNode& root) {
    file_ = path;
    absl::StatusOr<std::string> text = ReadScriptText(path);
    if (!text.ok()) return text.status();
    TextFault fault;
    if (!ParseYaml(*text, root, fault)) {
      return absl::InvalidArgumentError(absl::StrCat(path, ":", fault.line, ": ", fault.what));
    }
    if (const YamlNode* key = FindRepeatedKey(root); key != nullptr) {
      return Refuse(*key, absl::StrCat("a map has the key ", key->scalar, " twice"));
    }
    return absl::OkStatus();
  }

  // The train YAML that an experiment's defaults name.
  absl::Status ReadDefaults() {
    const YamlNode* defaults = Child(root_, "defaults");
    for (const YamlNode& each : defaults == nullptr ? std::vector<YamlNode>() : defaults->items) {
      const YamlNode* name = Child(each, "train");
      if (name == nullptr) continue;
      if (!std::all_of(name->scalar.begin(), name->scalar.end(), [](char c) {
            return absl::ascii_isalnum(c) || absl::StrContains("_.-", c);
          })) {
        return Refuse(*name, "the name of a train YAML of a form that is not read");
      }
      const fs::path file =
          fs::path(path_).parent_path() / "train" / absl::StrCat(name->scalar, ".yaml");
      return Parse(file, train_file_);
    }
    return absl::InvalidArgumentError(absl::StrCat(
        path_,
        ": neither a train YAML of FlagScale (system, model and data) nor an experiment YAML "
        "whose defaults name one"));
  }

  absl::Status TakeArguments(const YamlNode& train, Launch& launch) {
    if (const YamlNode* defaults = Child(train, "defaults");
        defaults != nullptr && &train != &root_) {
      return Refuse(*defaults, "defaults of a train YAML are not read");
    }
    // Later sections replace keys of earlier ones, where those stand.
    std::vector<std::pair<std::string, const YamlNode*>> merged;
    for (const char* section : {"system", "model", "data"}) {
      const YamlNode* node = Child(train, section);
      if (node == nullptr || node->kind != YamlNode::Kind::kMap) {
        return Refuse(train, absl::StrCat("FlagScale asks for system, model and data; ", section,
                                          " is missing"));
      }
      for (size_t i = 0; i < node->keys.size(); ++i) {
        const std::string& key = node->keys[i].scalar;
        const auto known = std::find_if(merged.begin(), merged.end(),
                                        [&key](const auto& entry) { return entry.first == key; });
        if (known == merged.end()) {
          merged.emplace_back(key, &node->items[i]);
        } else {
          known->second = &node->items[i];
        }
      }
    }
    for (const auto& [key, node] : merged) {
      if (absl::Status status = Flatten(key, *node, launch); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status Flatten(const std::string& key, const YamlNode& node, Launch& launch) {
    if (std::find(std::begin(kIgnored), std::end(kIgnored), key) != std::end(kIgnored)) {
      return absl::OkStatus();
    }
    if (key == "enable_hetero" && absl::EqualsIgnoreCase(node.scalar, "true")) {
      return Refuse(node,
                    "its heterogeneous layout is what hapmoe decides: take enable_hetero and the "
                    "hetero_* keys out, and keep the rest");
    }
    const std::string flag = absl::StrCat("--", absl::StrReplaceAll(key, {{"_", "-"}}));
    if (node.kind == YamlNode::Kind::kMap) {
      for (size_t i = 0; i < node.keys.size(); ++i) {
        absl::Status status = Flatten(node.keys[i].scalar, node.items[i], launch);
        if (!status.ok()) return status;
      }
      return absl::OkStatus();
    }
    if (node.kind == YamlNode::Kind::kSequence) {
      launch.arguments.push_back(flag);
      for (const YamlNode& item : node.items) {
        if (item.kind == YamlNode::Kind::kMap || item.kind == YamlNode::Kind::kSequence) {
          return Refuse(item, "a list in a list is not read");
        }
        absl::StatusOr<std::string> text = Text(item);
        if (!text.ok()) return text.status();
        launch.arguments.push_back(*std::move(text));
      }
      return absl::OkStatus();
    }
    absl::StatusOr<std::string> text = Text(node);
    if (!text.ok()) return text.status();
    // Python's words for truth come from YAML's alone, also where they are named elsewhere.
    if (*text == "False" && is_bool_) return absl::OkStatus();
    launch.arguments.push_back(flag);
    if (!(*text == "True" && is_bool_)) launch.arguments.push_back(*std::move(text));
    return absl::OkStatus();
  }

  // A scalar as Python prints it, interpolations resolved.
  absl::StatusOr<std::string> Text(const YamlNode& node, int depth = 0) {
    is_bool_ = false;
    if (node.kind == YamlNode::Kind::kNull) return std::string("None");
    std::string text = node.scalar;
    if (absl::StrContains(text, "${")) return Interpolate(node, text, depth);
    if (node.quoted) return text;
    const std::string lower = absl::AsciiStrToLower(text);
    if (lower == "true" || lower == "yes" || lower == "on") {
      is_bool_ = true;
      return std::string("True");
    }
    if (lower == "false" || lower == "no" || lower == "off") {
      is_bool_ = true;
      return std::string("False");
    }
    if (lower == "null" || text == "~") return std::string("None");
    const bool numeric = !text.empty() &&
                         text.find_first_not_of("0123456789+-.eE_") == std::string::npos &&
                         text.find_first_of("0123456789") != std::string::npos;
    if (!numeric) return text;
    int64_t integer = 0;
    if (absl::SimpleAtoi(text, &integer)) {
      if (text.size() > 1 && absl::StartsWith(text, "0")) {
        return Refuse(node, "a number with a leading 0 may be octal");
      }
      return absl::StrCat(integer);
    }
    double number = 0;
    const bool point = absl::StrContains(text, '.') || absl::StrContains(lower, 'e');
    if (point && !absl::StrContains(text, '_') && absl::SimpleAtod(text, &number) &&
        std::isfinite(number)) {
      return PythonFloat(number);
    }
    return text;
  }

  absl::StatusOr<std::string> Interpolate(const YamlNode& node, const std::string& text,
                                          int depth) {
    if (depth >= kMaxInterpolations) return Refuse(node, "interpolations nested too deep");
    std::string result;
    size_t at = 0;
    while (true) {
      const size_t start = text.find("${", at);
      absl::StrAppend(&result, text.substr(at, start == std::string::npos ? start : start - at));
      if (start == std::string::npos) break;
      const size_t end = text.find('}', start);
      const std::string name = text.substr(start + 2, end - start - 2);
      if (end == std::string::npos || name.find_first_of("{:$[") != std::string::npos) {
        return Refuse(node, absl::StrCat("\"", text, "\" is not read"));
      }
      const YamlNode* target = &root_;
      for (const absl::string_view key : absl::StrSplit(name, '.')) {
        if (target != nullptr) target = Child(*target, key);
      }
      if (target == nullptr || target->kind == YamlNode::Kind::kMap ||
          target->kind == YamlNode::Kind::kSequence) {
        return Refuse(node, absl::StrCat("${", name, "} is not in ", path_,
                                         "; give the experiment YAML, or write the value"));
      }
      absl::StatusOr<std::string> value = Text(*target, depth + 1);
      if (!value.ok()) return value;
      const bool whole = start == 0 && end + 1 == text.size();
      if (whole) return value;  // is_bool_ is the target's.
      absl::StrAppend(&result, *value);
      at = end + 1;
    }
    is_bool_ = false;
    return result;
  }

  void TakeExperiment(const YamlNode& experiment, Launch& launch) {
    const YamlNode* task = Child(experiment, "task");
    const YamlNode* entry = task == nullptr ? nullptr : Child(*task, "entrypoint");
    if (entry != nullptr && !entry->scalar.empty()) launch.entry = entry->scalar;
    if (const YamlNode* envs = Child(experiment, "envs"); envs != nullptr) {
      for (size_t i = 0; i < envs->keys.size(); ++i) {
        const std::string& name = envs->keys[i].scalar;
        if (envs->items[i].kind == YamlNode::Kind::kScalar && MattersToLaunch(name)) {
          launch.environment[name] = envs->items[i].scalar;
        }
      }
    }
    const YamlNode* runner = Child(experiment, "runner");
    if (runner == nullptr) return;
    int64_t nodes = 0;
    int64_t each = 0;
    for (const auto& [key, number] : {std::pair{"nnodes", &nodes}, {"nproc_per_node", &each}}) {
      const YamlNode* node = Child(*runner, key);
      if (node == nullptr || !absl::SimpleAtoi(node->scalar, number)) return;
    }
    if (nodes > 0 && each > 0 && nodes < (1 << 20) && each < (1 << 20)) {
      launch.world_size = nodes * each;
    }
  }

  std::string path_;
  std::string file_;
  YamlNode root_;
  YamlNode train_file_;
  bool is_bool_ = false;
};

}  // namespace

bool IsYamlFile(const std::string& path) {
  return absl::EndsWith(path, ".yaml") || absl::EndsWith(path, ".yml");
}

absl::StatusOr<ScriptRun> ReadFlagScaleFile(const std::string& path) {
  return FlagScaleReader(path).Read();
}

std::vector<std::string> TakeFlagScaleOnly(std::vector<std::string>& arguments) {
  std::vector<std::string> kept;
  std::vector<std::string> taken;
  bool taking = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (absl::StartsWith(arguments[i], "--")) {
      // FlagScale's own tokenizers end so.
      const bool own_tokenizer = arguments[i] == "--tokenizer-type" && i + 1 < arguments.size() &&
                                 absl::EndsWith(arguments[i + 1], "FS");
      taking = own_tokenizer || std::find(std::begin(kFlagScaleOnly), std::end(kFlagScaleOnly),
                                          arguments[i]) != std::end(kFlagScaleOnly);
    }
    (taking ? taken : kept).push_back(arguments[i]);
  }
  arguments = std::move(kept);
  return taken;
}

}  // namespace hapmoe::client
