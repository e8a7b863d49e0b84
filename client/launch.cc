#include "client/launch.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"

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
    launch.launcher_options.push_back(absl::StrCat("-m ", words.Take()));
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
  } else if (absl::StartsWith(program, "python") || program == "debugpy-run") {
    TakePython(words, launch);
  } else {
    TakeByFileName(words, launch);
  }
  return launch;
}

}  // namespace hapmoe::client
