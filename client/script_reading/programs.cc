// Programs, as the sandbox has them: launchers are recorded, wrappers go on with the command that
// they were given, and the rest does nothing. client/script_stubs.cc says the same in bash.
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/launch_environment.h"
#include "client/script_reading/file_patterns.h"
#include "client/script_reading/interpreter.h"
#include "client/script_stubs.h"
#include "client/slurm_options.h"

namespace hapmoe::client::shell {
namespace {

namespace fs = std::filesystem;

// What a wrapper goes on with.
constexpr absl::string_view kCommands[] = {
    "torchrun", "ft_launcher", "accelerate", "deepspeed", "debugpy-run", "python",
    "bash",     "sh",          "env",        "timeout",   "srun",        "sbatch",
    "mpirun",   "mpiexec",     "docker",     "apptainer", "singularity", "uv",
    "nsys",     "ncu",         "numactl",    "taskset",   "sudo",        "nohup"};
constexpr absl::string_view kLaunchers[] = {"torchrun", "ft_launcher", "accelerate", "deepspeed",
                                            "debugpy-run"};
constexpr absl::string_view kQuietModules[] = {"pip",       "venv", "virtualenv", "ensurepip",
                                               "json.tool", "site", "sysconfig"};
// Stubs that do nothing; what they would write is not known.
constexpr absl::string_view kSilent[] = {"sleep", "pip",  "pip3", "git",
                                         "curl",  "wget", "ray",  "wandb"};
// Tools that do not fail as scripts use them.
constexpr absl::string_view kSucceed[] = {"date", "uname",  "nproc", "whoami",
                                          "id",   "mktemp", "tr",    "sort"};
constexpr absl::string_view kDevices[] = {"nvidia-smi", "rocm-smi", "amd-smi", "npu-smi"};

template <class List>
bool Contains(const List& list, absl::string_view word) {
  return std::find(std::begin(list), std::end(list), word) != std::end(list);
}

std::string BaseName(absl::string_view path) {
  return std::string(path.substr(path.rfind('/') + 1));
}

bool IsPython(absl::string_view name) {
  return name == "python" || absl::StartsWith(name, "python2") || absl::StartsWith(name, "python3");
}

bool IsCommand(absl::string_view name) { return Contains(kCommands, name) || IsPython(name); }

}  // namespace

bool Interpreter::IsLauncher(absl::string_view name) {
  return Contains(kLaunchers, name) || IsPython(name);
}

void Interpreter::Record(Shell& shell, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (HasUnknown(word)) {
      const size_t option = &word - words.data();
      return FailFor(FirstUnknown(word), option > 0 && absl::StartsWith(words[option - 1], "--")
                                             ? absl::StrCat("the value of ", words[option - 1])
                                             : std::string("a word of the launch"));
    }
  }
  std::map<std::string, std::string> environment;
  for (const auto& [name, variable] : shell.variables) {
    if (!variable.exported || !variable.is_set || variable.is_array || variable.is_map) continue;
    if (HasUnknown(variable.value)) {
      if (MattersToLaunch(name)) {
        return FailFor(FirstUnknown(variable.value), absl::StrCat("the launch's ", name));
      }
      continue;
    }
    environment[name] = variable.value;
  }
  Charge(1000);
  if (!on_launch_(BaseName(words[0]), {words.begin() + 1, words.end()}, environment)) {
    endless_ = !failed();
    Fail("it launches without end");
  }
  shell.status = {};
}

void Interpreter::RunPython(Shell& shell, const std::vector<std::string>& words) {
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "-c" || word == "-" || word == "-V" || word == "--version" || word == "-h" ||
        word == "--help") {
      return Write(shell, UnknownText("a Python program"));
    }
    if (word == "-W" || word == "-X") {
      ++i;
    } else if (word == "-m") {
      if (i + 1 < words.size() && Contains(kQuietModules, words[i + 1])) return;
      return Record(shell, words);
    } else if (!absl::StartsWith(word, "-")) {
      // What a program writes is not known, but most are launched for what they do.
      Record(shell, words);
      if (shell.output != nullptr) Write(shell, UnknownText("a Python program"));
      return;
    }
  }
  if (words.size() == 1) Write(shell, UnknownText("a Python program"));
}

namespace {

// Words of a wrapper before the command that it goes on with: the command's place.
size_t CommandPlace(const std::vector<std::string>& words, const std::string& wrapper,
                    const std::function<bool(const std::string&)>& is_script) {
  for (size_t i = 1; i < words.size(); ++i) {
    if (IsCommand(BaseName(words[i])) || is_script(words[i])) return i;
    if ((wrapper == "uv" || wrapper == "poetry") && absl::EndsWith(words[i], ".py")) return i;
  }
  return words.size();
}

}  // namespace

// srun, docker and the like.
void Interpreter::RunWrapped(Shell& shell, const std::vector<std::string>& words) {
  const std::string wrapper = BaseName(words[0]);
  std::error_code error;
  const auto is_script = [&](const std::string& word) {
    if (!absl::EndsWith(word, ".sh") || HasUnknown(word)) return false;
    const std::string path = Absolute(shell, word);
    return written_.count(path) > 0 || (files_.IsShown(path) && fs::is_regular_file(path, error));
  };
  const size_t place = CommandPlace(words, wrapper, is_script);
  const std::vector<std::string> options(words.begin() + 1, words.begin() + place);
  Shell child = shell;
  const auto set = [&child](const std::string& name, const std::string& value) {
    Variable& variable = child.variables[name];
    variable = {};
    variable.is_set = variable.exported = true;
    variable.value = value;
  };
  if (wrapper == "srun") {
    std::map<std::string, std::string> all;
    for (const auto& [name, variable] : child.variables) {
      if (variable.exported && absl::StartsWith(name, "SLURM_")) all[name] = variable.value;
    }
    for (const auto& [name, value] : SlurmVariables(options)) {
      all[name] = value;
      set(name, value);
    }
    // Options of the step count before what the job was given.
    const std::map<std::string, std::string> own = SlurmVariables(options);
    if (own.count("SLURM_NTASKS") == 0 && own.count("SLURM_NTASKS_PER_NODE") > 0) {
      all.erase("SLURM_NTASKS");
    }
    if (const int64_t tasks = SlurmTasks(all); tasks > 0)
      set("SLURM_STEP_NUM_TASKS", absl::StrCat(tasks));
  }
  const bool mpi = wrapper == "mpirun" || wrapper == "mpiexec" || wrapper == "mpiexec.hydra";
  const bool container = wrapper == "docker" || wrapper == "podman" || wrapper == "nerdctl";
  for (size_t i = 0; i < options.size(); ++i) {
    const std::string next = i + 1 < options.size() ? options[i + 1] : "";
    absl::string_view value;
    absl::string_view word = options[i];
    if (mpi && (word == "-n" || word == "-np")) set("OMPI_COMM_WORLD_SIZE", next);
    if ((mpi && word == "-x") || (container && (word == "-e" || word == "--env"))) {
      value = next;
    } else if (container && absl::ConsumePrefix(&word, "--env=")) {
      value = word;
    } else if (wrapper == "srun" && absl::ConsumePrefix(&word, "--export=")) {
      for (const absl::string_view each : absl::StrSplit(word, ',')) {
        const size_t equals = each.find('=');
        if (equals != absl::string_view::npos) {
          set(std::string(each.substr(0, equals)), std::string(each.substr(equals + 1)));
        }
      }
    }
    const size_t equals = value.find('=');
    if (equals != absl::string_view::npos && equals > 0) {
      set(std::string(value.substr(0, equals)), std::string(value.substr(equals + 1)));
    }
  }
  std::vector<std::string> rest(words.begin() + place, words.end());
  if (place == words.size()) {
    const std::string& last = words.back();
    const bool command =
        words.size() > 1 && (absl::StrContains(last, "torchrun") ||
                             absl::StrContains(last, "python") || absl::StrContains(last, ".sh"));
    if (!command) {
      if (shell.output != nullptr) Write(shell, UnknownText(wrapper));
      return;
    }
    rest = {"bash", "-c", last};
  } else if (is_script(rest[0])) {
    rest.insert(rest.begin(), "bash");
  } else if (absl::EndsWith(rest[0], ".py")) {
    rest.insert(rest.begin(), "python");
  } else {
    rest[0] = BaseName(rest[0]);
  }
  RunProgram(child, std::move(rest));
  shell.status = child.status;
}

void Interpreter::RunBatch(Shell& shell, const std::vector<std::string>& words) {
  std::vector<std::string> options;
  Shell child = shell;
  std::vector<std::string> rest = {"bash", "-s"};
  for (size_t i = 1; i < words.size(); ++i) {
    absl::string_view word = words[i];
    if (absl::ConsumePrefix(&word, "--wrap=")) {
      rest = {"bash", "-c", std::string(word)};
      break;
    }
    if (word == "--wrap" && i + 1 < words.size()) {
      rest = {"bash", "-c", words[i + 1]};
      break;
    }
    std::error_code error;
    const std::string path = HasUnknown(word) ? "" : Absolute(shell, word);
    if (!absl::StartsWith(word, "-") && !path.empty() &&
        (written_.count(path) > 0 || (files_.IsShown(path) && fs::is_regular_file(path, error)))) {
      rest.assign(words.begin() + i, words.end());
      rest.insert(rest.begin(), "bash");
      break;
    }
    options.emplace_back(words[i]);
  }
  // Options count before what the batch script itself says.
  std::string text;
  if (rest.size() > 1 && rest[1] == "-s") {
    text = shell.input->text.substr(std::min(shell.input->at, shell.input->text.size()));
  } else if (rest[1] != "-c") {
    ReadText(shell, rest[1], text);
  }
  std::vector<std::string> all = BatchDirectives(text);
  all.insert(all.end(), options.begin(), options.end());
  for (const auto& [name, value] : SlurmVariables(all)) {
    Variable& variable = child.variables[name];
    variable = {};
    variable.is_set = variable.exported = true;
    variable.value = value;
  }
  child.output = nullptr;
  RunProgram(child, std::move(rest));
  shell.status = child.status;
  if (shell.output != nullptr) Write(shell, UnknownText("sbatch"));
}

void Interpreter::RunProgram(Shell& shell, std::vector<std::string> words) {
  const std::string name = BaseName(words[0]);
  if (++depth_ > 200) Fail("nested too deep");
  if (!Charge(100)) return;
  shell.status = {};
  const bool stub = Contains(SandboxStubs(), name);
  const bool tool = Contains(SandboxTools(), name);
  if (absl::StrContains(words[0], '/') && !stub && !(tool && IsOfSystem(words[0])) &&
      name != "bash") {
    const std::string path = Absolute(shell, words[0]);
    if (written_.count(path) == 0 && files_.IsShown(path) && !Touched(path) &&
        access(path.c_str(), F_OK) == 0 && access(path.c_str(), X_OK) != 0) {
      Note(absl::StrCat(words[0], " is not executable"));
      shell.status = {126, -1};
    } else if (written_.count(path) > 0 && executable_.count(path) == 0) {
      shell.status = {126, -1};
    } else {
      RunExecutable(shell, words);
    }
  } else if (Contains(kLaunchers, name)) {
    Record(shell, words);
  } else if (IsPython(name)) {
    RunPython(shell, words);
  } else if (name == "bash" || name == "sh") {
    RunBash(shell, std::move(words));
  } else if (name == "sbatch") {
    RunBatch(shell, words);
  } else if (Contains(kDevices, name)) {
    const std::string all = absl::StrJoin(words, " ");
    if (absl::StrContains(all, "-L") || absl::StrContains(all, "--list-gpus") ||
        absl::StrContains(all, "--query-gpu")) {
      for (int i = 0; i < 8; ++i) Write(shell, absl::StrCat("GPU ", i, "\n"));
    } else if (shell.output != nullptr) {
      Write(shell, UnknownText(name));
    }
  } else if (name == "scontrol") {
    if (absl::StrContains(absl::StrJoin(words, " "), "hostname")) Write(shell, "localhost\n");
  } else if (name == "hostname") {
    Write(shell, "localhost\n");
  } else if (name == "mkdir") {
    for (size_t i = 1; i < words.size(); ++i) {
      if (words[i][0] != '-' && !HasUnknown(words[i])) made_.insert(Absolute(shell, words[i]));
    }
  } else if (Contains(kSilent, name)) {
    if (shell.output != nullptr) Write(shell, UnknownText(name));
  } else if (stub) {
    RunWrapped(shell, words);
  } else if (tool) {
    if (!RunTool(shell, words)) {
      for (const std::string& word : words) {
        for (const absl::string_view launcher :
             {"torchrun", "python", "srun", "ft_launcher", "bash", "sh", "deepspeed"}) {
          if (&word != &words[0] && BaseName(word) == launcher) {
            Fail(absl::StrCat("what ", name, " starts is not followed"));
          }
        }
      }
      for (size_t i = 1; i < words.size() && (name == "sed" || name == "tee" || name == "install" ||
                                              name == "truncate" || name == "split");
           ++i) {
        if (words[i][0] != '-') Touch(shell, words[i]);
      }
      const int unknown = NewUnknown(name);
      if (!Contains(kSucceed, name)) shell.status.unknown = unknown;
      if (shell.output != nullptr) Write(shell, UnknownMark(unknown));
    }
  } else {
    // A wrapper that is not known goes on with a launcher among its words.
    const auto launcher = std::find_if(words.begin() + 1, words.end(), [](const auto& word) {
      return Contains(kLaunchers, BaseName(word)) || IsPython(BaseName(word));
    });
    if (launcher != words.end()) {
      std::vector<std::string> rest(launcher, words.end());
      rest[0] = BaseName(rest[0]);
      RunProgram(shell, std::move(rest));
    } else {
      missing_.insert(name);
      if (shell.output != nullptr) Write(shell, UnknownText(name));
    }
  }
  --depth_;
}

}  // namespace hapmoe::client::shell
