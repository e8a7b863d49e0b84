// Runs emitted scripts under bash with stand-ins for torchrun and python.
#ifndef HAPMOE_TESTS_CORE_ENGINE_LAUNCHER_HARNESS_H_
#define HAPMOE_TESTS_CORE_ENGINE_LAUNCHER_HARNESS_H_

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/engine/shell_quote.h"
#include "gtest/gtest.h"
#include "tests/core/engine/launcher_cases.h"

namespace hapmoe::engine {

namespace fs = std::filesystem;

// Reads its options as torchrun does and starts that many workers with their ranks. The first rank
// of the node, which rendezvous would tell, comes from the test.
inline constexpr char kTorchrun[] = R"BASH(#!/usr/bin/env bash
printf '%s\0' "$@" >"$STUB_OUT/torchrun"
python=1
while [[ $1 == -* ]]; do
  case $1 in
    --no_python) python=0; shift ;;
    --nproc_per_node) processes=$2; shift 2 ;;
    *) shift 2 ;;
  esac
done
printf '%s' "$processes" >"$STUB_OUT/processes"
for ((i = 0; i < processes; ++i)); do
  export RANK=$((STUB_FIRST_RANK + i)) LOCAL_RANK=$i WORLD_SIZE=$STUB_WORLD
  if ((python)); then "${0%/*}/python3" -u "$@"; else "$@"; fi || exit
done
)BASH";

inline constexpr char kPython[] = R"BASH(#!/usr/bin/env bash
printf '%s\0' "$@" >"$STUB_OUT/rank.$RANK"
printf '%s' "${CUDA_DEVICE_MAX_CONNECTIONS-unset}" >"$STUB_OUT/connections.$RANK"
printf '%s' "${STUB_VARIABLE-unset}" >"$STUB_OUT/variable.$RANK"
printf '%s' "${CUDA_VISIBLE_DEVICES-unset}" >"$STUB_OUT/devices.$RANK"
printf '%s' "${HAPMOE_WORKER-unset}" >"$STUB_OUT/worker.$RANK"
)BASH";

struct Outcome {
  int exit_code = -1;
  std::string out;
  std::string error;
};

class LauncherHarness : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "hapmoe launcher XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;  // Its blanks are meant.
    fs::create_directory(directory_ / "bin");
    fs::create_directory(directory_ / "work");
    WriteProgram("bin/torchrun", kTorchrun);
    WriteProgram("bin/python3", kPython);
  }
  void TearDown() override { fs::remove_all(directory_); }

  void WriteProgram(const std::string& name, const std::string& content) {
    std::ofstream(directory_ / name, std::ios::binary) << content;
    chmod((directory_ / name).c_str(), 0755);
  }

  std::string ReadFile(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream content;
    content << file.rdbuf();
    return content.str();
  }

  std::vector<std::string> ReadWords(const std::string& name) {
    std::string text = ReadFile(directory_ / "out" / name);
    if (text.empty()) return {};
    text.pop_back();  // The NUL that ends the last word.
    return absl::StrSplit(text, '\0');
  }

  // Runs launch.sh with these variables and options; what the stand-ins saw is in out/.
  Outcome Run(const std::map<std::string, std::string>& environment,
              const std::vector<std::string>& options = {}) {
    fs::remove_all(directory_ / "out");
    fs::create_directory(directory_ / "out");
    std::string command =
        absl::StrCat("cd ", ShellQuote((directory_ / "work").string()),
                     " && env -i PATH=", ShellQuote((directory_ / "bin").string()),
                     ":/usr/bin:/bin STUB_OUT=", ShellQuote((directory_ / "out").string()));
    for (const auto& [name, value] : environment) {
      absl::StrAppend(&command, " ", name, "=", ShellQuote(value));
    }
    absl::StrAppend(&command, " bash ../launch.sh ", ShellQuote(absl::MakeConstSpan(options)),
                    " >../stdout 2>../stderr </dev/null");
    Outcome outcome;
    outcome.exit_code = WEXITSTATUS(std::system(command.c_str()));
    outcome.out = ReadFile(directory_ / "stdout");
    outcome.error = ReadFile(directory_ / "stderr");
    return outcome;
  }

  LauncherCase CaseOf(absl::string_view name) {
    for (LauncherCase& launcher_case : LauncherCases()) {
      if (launcher_case.name == name) return launcher_case;
    }
    ADD_FAILURE() << "no case " << name;
    return {};
  }

  // Whether a script is clean; true where shellcheck is not installed.
  bool PassesShellcheck(const std::string& name) {
    if (std::system("command -v shellcheck >/dev/null 2>&1") != 0) return true;
    return std::system(
               absl::StrCat("shellcheck ", ShellQuote((directory_ / name).string())).c_str()) == 0;
  }

  fs::path directory_;
};

}  // namespace hapmoe::engine

#endif  // HAPMOE_TESTS_CORE_ENGINE_LAUNCHER_HARNESS_H_
