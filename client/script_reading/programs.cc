// Programs, as the sandbox has them: launchers are recorded, wrappers go on with the command that
// they were given, and the rest does nothing. client/script_stubs.cc says the same in bash.
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/launch_environment.h"
#include "client/script_reading/file_patterns.h"
#include "client/script_reading/interpreter.h"
#include "client/script_reading/tools.h"
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

std::string Interpreter::Absolute(const Shell& shell, absl::string_view path) const {
  const fs::path joined = fs::path(shell.directory) / fs::path(std::string(path));
  std::string text = joined.lexically_normal();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

bool Interpreter::Touched(const std::string& path) const {
  for (const std::string& touched : touched_) {
    if (path == touched || absl::StartsWith(path, absl::StrCat(touched, "/"))) return true;
  }
  return false;
}

void Interpreter::Touch(const Shell& shell, absl::string_view path) {
  if (HasUnknown(path) || !Charge(path.size() + 100)) return;
  const std::string absolute = Absolute(shell, path);
  touched_.insert(absolute);
  written_.erase(absolute);
}

bool Interpreter::ReadText(const Shell& shell, const std::string& path, std::string& text) {
  const std::string absolute = Absolute(shell, path);
  if (path.empty()) return false;
  if (HasUnknown(path)) {
    FailFor(FirstUnknown(path), "the name of a file");
    return false;
  }
  if (const auto written = written_.find(absolute); written != written_.end()) {
    text = *written->second;
    if (HasUnknown(text)) FailFor(FirstUnknown(text), absl::StrCat("what is in ", path));
    return !failed();
  }
  if (Touched(absolute)) {
    Fail(absl::StrCat(path, " is changed by the script itself"));
    return false;
  }
  if (IsOfSystem(absolute)) {
    Fail(absl::StrCat(path, " is a file of the system"));
    return false;
  }
  std::error_code error;
  if (!files_.IsShown(absolute) || !fs::is_regular_file(absolute, error)) return false;
  absl::StatusOr<std::string> read = ReadScriptText(absolute);
  if (!read.ok()) {
    Fail(read.status().message());
    return false;
  }
  text = *std::move(read);
  if (text.find_first_of(std::string("\0\1\2", 3)) != std::string::npos) {
    Fail(absl::StrCat(path, " holds control characters"));
  }
  return Charge(text.size());
}

// The shell of a program that is started: it inherits what is exported.
Shell Interpreter::Child(const Shell& shell) const {
  Shell child;
  for (const auto& [name, variable] : shell.variables) {
    if (variable.exported && variable.is_set && !variable.is_array && !variable.is_map) {
      child.variables[name].is_set = true;
      child.variables[name].exported = true;
      child.variables[name].value = variable.value;
    }
  }
  child.directory = shell.directory;
  child.variables["PWD"].is_set = true;
  child.variables["PWD"].value = shell.directory;
  child.input = shell.input;
  child.output = shell.output;
  return child;
}

void Interpreter::RunChild(Shell& shell, Shell child, const std::string& text,
                           const std::string& what) {
  const int line = line_;
  if (++depth_ > 200) Fail("nested too deep");
  Charge(shell.variables.size() * 20);
  if (!failed()) {
    RunText(child, text, 1);
    const std::string trap = std::exchange(child.exit_trap, "");
    if (!trap.empty() && !failed()) RunText(child, trap, line_);
    // The line is one of that text.
    if (failed() && !absl::StrContains(fault_.what, " (in ")) {
      absl::StrAppend(&fault_.what, " (in ", what, ", run at line ", line, ")");
    }
  }
  --depth_;
  line_ = line;
  shell.status = child.status;
}

void Interpreter::RunFile(Shell& shell, const std::string& path,
                          const std::vector<std::string>& arguments) {
  std::string text;
  if (!ReadText(shell, path, text)) {
    if (!failed()) Note(absl::StrCat(path, " is not there and is passed over"));
    shell.status = {127, -1};
    return;
  }
  Shell child = Child(shell);
  child.name = path;
  child.sources = {path};
  child.arguments = arguments;
  RunChild(shell, std::move(child), text, path);
}

void Interpreter::RunBash(Shell& shell, std::vector<std::string> words) {
  Shell child = Child(shell);
  child.name = words[0];
  bool command = false;
  bool from_input = false;
  size_t at = 1;
  for (; at < words.size() && words[at].size() > 1 && (words[at][0] == '-' || words[at][0] == '+');
       ++at) {
    const std::string& word = words[at];
    if (word == "--") {
      ++at;
      break;
    }
    if (absl::StartsWith(word, "--")) continue;  // --login, --norc and the like.
    for (const char option : word.substr(1)) {
      if (option == 'c') {
        command = true;
      } else if (option == 's') {
        from_input = true;
      } else if (option == 'l' || option == 'i') {
      } else if (option == 'o' || option == 'O') {
        if (at + 1 < words.size()) RunSet(child, {"set", "-o", words[++at]});
        break;
      } else {
        RunSet(child, {"set", std::string(1, word[0]) + option});
      }
    }
  }
  if (command) {
    if (at >= words.size()) {
      shell.status = {2, -1};
      return;
    }
    const std::string text = words[at++];
    if (HasUnknown(text)) return FailFor(FirstUnknown(text), "a command");
    if (at < words.size()) child.name = words[at++];
    child.arguments.assign(words.begin() + at, words.end());
    return RunChild(shell, std::move(child), text, "a command");
  }
  if (at < words.size() && !from_input) {
    for (const auto& option : {child.exit_on_error, child.refuse_unset}) {
      if (option) return Fail("options of bash before a file are not read");
    }
    return RunFile(shell, words[at], {words.begin() + at + 1, words.end()});
  }
  child.arguments.assign(words.begin() + std::min(at, words.size()), words.end());
  const std::string text =
      shell.input->text.substr(std::min(shell.input->at, shell.input->text.size()));
  shell.input->at = shell.input->text.size();
  if (HasUnknown(text)) return FailFor(FirstUnknown(text), "what bash reads");
  child.input = std::make_shared<Input>();
  RunChild(shell, std::move(child), text, "what bash reads");
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

// A file of the job, run by its name.
void Interpreter::RunExecutable(Shell& shell, const std::vector<std::string>& words) {
  std::string text;
  if (!ReadText(shell, words[0], text)) {
    if (!failed()) Note(absl::StrCat(words[0], " is not there and is passed over"));
    shell.status = {127, -1};
    return;
  }
  const std::string first = text.substr(0, text.find('\n'));
  if (absl::StartsWith(first, "#!") && !absl::StrContains(first, "bash") &&
      !absl::EndsWith(first, "/sh")) {
    if (!absl::StrContains(first, "python")) {
      return Fail(absl::StrCat(words[0], " is no script of bash"));
    }
    std::vector<std::string> rest = words;
    rest.insert(rest.begin(), "python3");
    return RunPython(shell, rest);
  }
  if (text.compare(0, 4,
                   "\x7f"
                   "ELF") == 0)
    return Fail(absl::StrCat(words[0], " is a program"));
  if (absl::StartsWith(first, "#!") && absl::StrContains(first, " -")) {
    return Fail(absl::StrCat("options in the first line of ", words[0], " are not read"));
  }
  RunFile(shell, words[0], {words.begin() + 1, words.end()});
}

// Programs of the sandbox that are real there. False for what is not followed.
bool Interpreter::RunTool(Shell& shell, const std::vector<std::string>& words) {
  const std::string name = BaseName(words[0]);
  if (name == "env") {
    size_t at = 1;
    Shell child = shell;
    for (; at < words.size(); ++at) {
      const size_t equals = words[at].find('=');
      if (words[at] == "-u" && at + 1 < words.size()) {
        child.variables.erase(words[++at]);
      } else if (absl::StartsWith(words[at], "-")) {
        return false;
      } else if (equals == std::string::npos) {
        break;
      } else {
        Variable& variable = child.variables[words[at].substr(0, equals)];
        variable = {};
        variable.is_set = variable.exported = true;
        variable.value = words[at].substr(equals + 1);
      }
    }
    if (at == words.size()) return false;
    RunProgram(child, {words.begin() + at, words.end()});
    shell.status = child.status;
    return true;
  }
  if (name == "nohup" || name == "nice" || name == "timeout" || name == "stdbuf" ||
      name == "setsid") {
    size_t at = 1;
    for (; at < words.size() && absl::StartsWith(words[at], "-"); ++at) {
      const bool takes = (words[at] == "-n" && name == "nice") ||
                         ((words[at] == "-s" || words[at] == "-k") && name == "timeout") ||
                         (name == "stdbuf" && words[at].size() == 2);
      if (takes) ++at;
    }
    if (name == "timeout") ++at;
    if (at >= words.size()) return false;
    RunProgram(shell, {words.begin() + at, words.end()});
    return true;
  }
  std::string input = shell.input->text.substr(std::min(shell.input->at, shell.input->text.size()));
  if (name == "cat" || name == "tee") {
    std::string text;
    for (size_t i = 1; i < words.size(); ++i) {
      if (absl::StartsWith(words[i], "-") && words[i] != "-") {
        if (name == "cat") return false;
      } else if (name == "tee") {
        Touch(shell, words[i]);
      } else if (words[i] == "-") {
        text += input;
      } else if (std::string file; ReadText(shell, words[i], file)) {
        text += file;
      } else {
        if (!failed()) shell.status.code = 1;
      }
    }
    if (name == "tee" || words.size() == 1) text = std::move(input);
    if (name == "tee" || words.size() == 1) shell.input->at = shell.input->text.size();
    Write(shell, text);
    return true;
  }
  if (name == "printenv" && words.size() == 2) {
    const Variable* variable = shell.Find(words[1]);
    const bool exported = variable != nullptr && variable->exported && variable->is_set;
    if (exported) Write(shell, absl::StrCat(variable->value, "\n"));
    shell.status.code = exported ? 0 : 1;
    return true;
  }
  if (name == "readlink" || name == "realpath") {
    const bool follows = name == "realpath" || (words.size() == 3 && words[1] == "-f") ||
                         (words.size() == 3 && words[1] == "-m");
    const std::string& path = words.back();
    if (!follows || words.size() < 2 || HasUnknown(path) || path[0] == '-') return false;
    const std::string absolute = Absolute(shell, path);
    if (!files_.IsShown(absolute)) return false;
    // Where nothing on the way is a link, a path leads to itself.
    std::error_code error;
    const fs::path real = fs::weakly_canonical(absolute, error);
    const bool in_directory =
        std::any_of(files_.directories().begin(), files_.directories().end(),
                    [&](const std::string& directory) {
                      return fs::weakly_canonical(directory, error).string() +
                                 absolute.substr(std::min(directory.size(), absolute.size())) ==
                             real.string();
                    });
    if (!in_directory && real != absolute) return false;
    Write(shell, absl::StrCat(absolute, "\n"));
    return true;
  }
  if (name == "rm" || name == "rmdir" || name == "cp" || name == "mv" || name == "ln" ||
      name == "touch") {
    for (size_t i = 1; i < words.size(); ++i) {
      if (words[i].empty() || words[i][0] == '-') continue;
      if (name != "cp" || i + 1 == words.size()) Touch(shell, words[i]);
    }
    shell.status.unknown = NewUnknown(name);
    // These fail for what is not there, and a launch does not wait for them.
    const bool forced = name == "rm" && words.size() > 1 && absl::StrContains(words[1], "f");
    if (forced || name == "touch") shell.status.unknown = -1;
    return true;
  }
  if (name == "chmod") {
    for (size_t i = 2; i < words.size(); ++i) {
      if (words[1].find_first_of("x57") != std::string::npos && !HasUnknown(words[i])) {
        executable_.insert(Absolute(shell, words[i]));
      }
    }
    return true;
  }
  if (name == "test") return false;
  if (std::any_of(words.begin(), words.end(), HasUnknown)) return false;
  const ToolResult known = RunTextTool(words, HasUnknown(input) ? "" : input);
  if (!known.known) return false;
  const bool reads = name != "basename" && name != "dirname" && name != "seq";
  if (reads) shell.input->at = shell.input->text.size();
  Write(shell, reads && HasUnknown(input) ? UnknownMark(FirstUnknown(input)) : known.text);
  return true;
}

}  // namespace hapmoe::client::shell
