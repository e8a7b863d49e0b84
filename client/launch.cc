#include "client/launch.h"

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "client/json_object.h"

namespace hapmoe::client {
namespace {

// Options of torchrun (torch.distributed.run of PyTorch 2.x) that take no value. All others take
// one; torchrun reads "_" and "-" in them alike.
constexpr absl::string_view kTorchrunSwitches[] = {"--standalone",        "--module",   "-m",
                                                   "--no-python",         "--run-path", "--use-env",
                                                   "--virtual-local-rank"};

// Options of python that take a value.
constexpr absl::string_view kPythonValues[] = {"-W", "-X", "--check-hash-based-pycs"};

template <size_t n>
bool Contains(const absl::string_view (&list)[n], absl::string_view word) {
  return std::find(std::begin(list), std::end(list), word) != std::end(list);
}

// Reads words from the front.
class Words {
 public:
  explicit Words(absl::Span<const std::string> words) : words_(words) {}
  bool empty() const { return words_.empty(); }
  const std::string& front() const { return words_.front(); }
  std::string Take() {
    std::string word = words_.front();
    words_.remove_prefix(1);
    return word;
  }
  std::vector<std::string> TakeAll() {
    std::vector<std::string> all(words_.begin(), words_.end());
    words_ = {};
    return all;
  }

 private:
  absl::Span<const std::string> words_;
};

void TakeEntry(Words& words, bool module, Launch& launch) {
  if (!words.empty() && words.front() == "--") words.Take();
  if (words.empty()) return;
  launch.entry = absl::StrCat(module ? "-m " : "", words.Take());
  launch.arguments = words.TakeAll();
}

void TakeTorchrun(Words& words, Launch& launch) {
  bool module = false;
  while (!words.empty() && absl::StartsWith(words.front(), "-") && words.front() != "--") {
    const std::string option = words.Take();
    launch.launcher_options.push_back(option);
    const std::string name = absl::StrReplaceAll(option, {{"_", "-"}});
    if (name == "-m" || name == "--module") module = true;
    const bool has_value = !absl::StrContains(option, "=") && !Contains(kTorchrunSwitches, name);
    if (has_value && !words.empty()) launch.launcher_options.push_back(words.Take());
  }
  TakeEntry(words, module, launch);
}

// Other launchers' options are not known one by one: the entry is the first Python file.
void TakeByFileName(Words& words, Launch& launch) {
  while (!words.empty() && !absl::EndsWith(words.front(), ".py")) {
    launch.launcher_options.push_back(words.Take());
  }
  TakeEntry(words, false, launch);
}

// The value of a launcher's option; its name is written with "_" or "-".
std::optional<std::string> ValueOf(const Launch& launch,
                                   std::initializer_list<absl::string_view> names) {
  std::optional<std::string> value;
  const std::vector<std::string>& options = launch.launcher_options;
  for (size_t i = 0; i < options.size(); ++i) {
    const size_t equals = options[i].find('=');
    const std::string name = absl::StrReplaceAll(options[i].substr(0, equals), {{"_", "-"}});
    if (std::find(names.begin(), names.end(), name) == names.end()) continue;
    if (equals != std::string::npos) {
      value = options[i].substr(equals + 1);
    } else if (i + 1 < options.size()) {
      value = options[i + 1];
    }
  }
  return value;
}

std::optional<int64_t> Number(const std::optional<std::string>& text) {
  int64_t number = 0;
  // More than this is no world, and its product must not overflow.
  constexpr int64_t kMost = 1 << 24;
  if (!text.has_value() || !absl::SimpleAtoi(*text, &number) || number < 1 || number > kMost) {
    return std::nullopt;
  }
  return number;
}

void TakePython(Words& words, Launch& launch) {
  while (!words.empty() && absl::StartsWith(words.front(), "-") && words.front() != "-m" &&
         words.front() != "--") {
    const std::string option = words.Take();
    launch.launcher_options.push_back(option);
    if (Contains(kPythonValues, option) && !words.empty()) {
      launch.launcher_options.push_back(words.Take());
    }
  }
  if (words.empty() || words.front() != "-m") return TakeEntry(words, false, launch);
  words.Take();
  if (words.empty()) return;
  if (words.front() == "torch.distributed.run" || words.front() == "torch.distributed.launch") {
    launch.launcher_options.emplace_back("-m");
    launch.launcher_options.push_back(words.Take());
    if (!words.empty() && words.front() == "--") words.Take();
    return TakeTorchrun(words, launch);
  }
  TakeEntry(words, true, launch);
}

}  // namespace

Launch TakeApart(const std::string& program, absl::Span<const std::string> arguments) {
  Launch launch;
  launch.program = program;
  Words words(arguments);
  if (program == "torchrun" || program == "ft_launcher") {
    TakeTorchrun(words, launch);
  } else if (program == "debugpy-run") {
    // Its own options come first: a port, say.
    while (!words.empty() && (words.front() == "-p" || words.front() == "-P")) {
      launch.launcher_options.push_back(words.Take());
      if (!words.empty()) launch.launcher_options.push_back(words.Take());
    }
    TakePython(words, launch);
  } else if (absl::StartsWith(program, "python")) {
    TakePython(words, launch);
  } else {
    TakeByFileName(words, launch);
  }
  return launch;
}

std::optional<int64_t> WorldSize(const Launch& launch,
                                 const std::map<std::string, std::string>& environment) {
  const auto variable = [&environment](const char* name) {
    const auto it = environment.find(name);
    return it == environment.end() ? std::nullopt : std::optional<std::string>(it->second);
  };
  const bool module = std::any_of(
      launch.launcher_options.begin(), launch.launcher_options.end(),
      [](const std::string& option) { return absl::StartsWith(option, "torch.distributed."); });
  if (launch.program == "torchrun" || launch.program == "ft_launcher" || module) {
    // torchrun takes what it is not given from PET_*, else 1.
    std::optional<std::string> nodes = ValueOf(launch, {"--nnodes"});
    if (!nodes.has_value()) nodes = variable("PET_NNODES");
    std::optional<std::string> each = ValueOf(launch, {"--nproc-per-node"});
    if (!each.has_value()) each = variable("PET_NPROC_PER_NODE");
    // "2:2" is two nodes.
    if (nodes.has_value()) {
      const std::pair<std::string, std::string> range =
          absl::StrSplit(*nodes, absl::MaxSplits(':', 1));
      if (range.first == range.second) nodes = range.first;
    }
    const std::optional<int64_t> n = Number(nodes.value_or("1"));
    const std::optional<int64_t> p = Number(each.value_or("1"));
    return n.has_value() && p.has_value() ? std::optional<int64_t>(*n * *p) : std::nullopt;
  }
  if (launch.program == "accelerate") return Number(ValueOf(launch, {"--num-processes"}));
  if (launch.program == "deepspeed") {
    const std::optional<int64_t> nodes = Number(ValueOf(launch, {"--num-nodes"}));
    const std::optional<int64_t> each = Number(ValueOf(launch, {"--num-gpus"}));
    if (nodes.has_value() && each.has_value()) return *nodes * *each;
    return std::nullopt;
  }
  for (const char* name :
       {"SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE", "WORLD_SIZE", "SLURM_NTASKS"}) {
    if (const std::optional<std::string> tasks = variable(name); tasks.has_value()) {
      return Number(tasks);
    }
  }
  return std::nullopt;
}

std::string LaunchJson(const Launch& launch, const std::string& refusal) {
  const auto list = [](const std::vector<std::string>& words) {
    std::vector<std::string> items;
    items.reserve(words.size());
    for (const std::string& word : words) items.push_back(JsonString(word));
    return absl::StrCat("[", absl::StrJoin(items, ", "), "]");
  };
  JsonObject environment;
  for (const auto& [name, value] : launch.environment) environment.AddString(name, value);
  return JsonObject()
      .AddString("program", launch.program)
      .Add("launcher_args", list(launch.launcher_options))
      .AddString("entry", launch.entry)
      .Add("args", list(launch.arguments))
      .Add("env", environment.Text())
      .Add("world_size", launch.world_size.has_value() ? absl::StrCat(*launch.world_size) : "null")
      .Add("refusal", refusal.empty() ? "null" : JsonString(refusal))
      .Text();
}

}  // namespace hapmoe::client
