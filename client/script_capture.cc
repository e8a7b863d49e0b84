#include "client/script_capture.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "client/script_files.h"
#include "client/script_stubs.h"

namespace hapmoe::client {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxRecordBytes = 4 << 20;
constexpr size_t kMaxEntries = 400;  // Of a directory; each is a mount.
constexpr size_t kMaxMessageLines = 8;
constexpr char kScratchBytes[] = "16777216";
constexpr char kInstead[] =
    "\nRead the script without running it, with --script-reading static, or write the job's "
    "arguments to a file and give it with --args-file.";

// The kernel exempts root from its limit on processes, also inside of a user namespace. Where
// hapmoe runs as root, the script therefore runs as this user, that nothing else runs as.
constexpr char kScriptUser[] = "64037";

// The command line of bubblewrap, in the making.
class Sandbox {
 public:
  Sandbox(const std::string& bubblewrap, bool root) : command_{bubblewrap}, root_(root) {
    if (root) {
      Add({"--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts",
           "--unshare-cgroup-try", "--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add",
           "CAP_SETGID"});
    } else {
      Add({"--unshare-all", "--cap-drop", "ALL"});
    }
    Add({"--die-with-parent", "--new-session", "--hostname", "localhost", "--clearenv"});
    for (const char* library : {"/usr/lib", "/usr/lib32", "/usr/lib64", "/lib", "/lib64"}) {
      std::error_code error;
      AddParents(library);
      if (fs::is_symlink(library, error)) {
        Add({"--symlink", fs::read_symlink(library, error).string(), library});
      } else {
        Add({"--ro-bind-try", library, library});
      }
    }
    Bind("--ro-bind-try", "/etc/ld.so.cache");
  }

  void Add(std::initializer_list<std::string> words) {
    command_.insert(command_.end(), words.begin(), words.end());
  }

  // Binds a program of the host under its own name, or under `path`.
  void AddTool(absl::string_view name, std::string path = "") {
    for (const char* directory : {"/usr/bin/", "/bin/"}) {
      const std::string source = absl::StrCat(directory, name);
      if (access(source.c_str(), X_OK) != 0) continue;
      if (path.empty()) path = absl::StrCat("/usr/bin/", name);
      AddParents(path);
      return Add({"--ro-bind", source, path});
    }
  }

  // A file that holds one of the inputs.
  void AddInput(int number, const std::string& path, const std::string& mode) {
    AddParents(path);
    Add({"--perms", mode, "--ro-bind-data", absl::StrCat(kInputDescriptor + number), path});
  }

  void AddPrograms() {
    AddTool("bash");
    for (const absl::string_view tool : SandboxTools()) AddTool(tool);
    for (const char* tool : {"mkdir", "sleep"}) {
      AddTool(tool, absl::StrCat("/run/hapmoe/real/", tool));
    }
    if (root_) AddTool("setpriv", "/run/hapmoe/real/setpriv");
    Add({"--symlink", "usr/bin", "/bin"});
    AddInput(0, "/run/hapmoe/stub", "0555");
    AddInput(1, "/run/hapmoe/start", "0444");
    AddInput(2, "/run/hapmoe/run", "0444");
    for (const absl::string_view stub : SandboxStubs()) {
      Add({"--symlink", "/run/hapmoe/stub", absl::StrCat("/usr/bin/", stub)});
    }
    Add({"--proc", "/proc", "--dev", "/dev", "--remount-ro", "/dev"});
  }

  // An empty directory that can be written to.
  void AddScratch(const std::string& path) {
    if (!scratch_.insert(path).second) return;
    AddParents(path);
    Add({"--perms", "1777", "--size", kScratchBytes, "--tmpfs", path});
  }

  // A directory whose present files can be read, and new ones written. Hidden files stay out: they
  // hold credentials more often than configuration.
  void AddDirectory(const fs::path& directory, const std::set<std::string>& left_out) {
    std::error_code error;
    std::vector<fs::path> entries;
    for (fs::directory_iterator it(directory, error), end; !error && it != end;
         it.increment(error)) {
      if (absl::StartsWith(it->path().filename().string(), ".")) continue;
      if (left_out.count(it->path()) == 0) entries.push_back(it->path());
      if (entries.size() > kMaxEntries) return Bind("--ro-bind", directory);
    }
    AddScratch(directory);
    for (const fs::path& entry : entries) {
      if (fs::is_symlink(entry, error)) {
        // As a link, it leads only to what is in the sandbox.
        Add({"--symlink", fs::read_symlink(entry, error).string(), entry});
      } else if (fs::is_directory(entry, error) || fs::is_regular_file(entry, error)) {
        Bind("--ro-bind-try", entry);
      }
    }
  }

  // The stub under a path of its own.
  void AddStub(const std::string& path) {
    AddParents(path);
    Add({"--symlink", "/run/hapmoe/stub", path});
  }

  std::vector<std::string> Finish(const std::vector<std::string>& tail) {
    Add({"--remount-ro", "/", "--"});
    if (root_) {
      Add({"/run/hapmoe/real/setpriv", "--reuid", kScriptUser, "--regid", kScriptUser,
           "--clear-groups", "--no-new-privs"});
    }
    command_.insert(command_.end(), tail.begin(), tail.end());
    return std::move(command_);
  }

 private:
  void Bind(const std::string& how, const std::string& path) {
    AddParents(path);
    Add({how, path, path});
  }

  // bubblewrap would make missing directories for their owner alone.
  void AddParents(const fs::path& path) {
    fs::path parent;
    for (const fs::path& part : path.parent_path()) {
      parent /= part;
      if (parent != "/" && parents_.insert(parent).second)
        Add({"--perms", "0755", "--dir", parent});
    }
  }

  std::vector<std::string> command_;
  bool root_;
  std::set<std::string> scratch_;
  std::set<std::string> parents_;
};

// What a script takes to be there and is not: directories that it enters or writes to, files that
// it writes anew, launchers that it calls by their paths.
struct Missing {
  std::set<std::string> directories;
  std::set<std::string> rewritten;
  std::set<std::string> launchers;
  size_t entered = 0;  // How many of the directories are entered.

  size_t size() const { return directories.size() + rewritten.size() + launchers.size(); }
};

bool IsOfMachine(const fs::path& path) { return !IsProjectDirectory(path, "/"); }

// Notes a path of which bash said that it cannot be written, entered or run.
void AddMissing(const ScriptFiles& files, const std::string& given, bool entered,
                Missing& missing) {
  // Without a slash at the end.
  const fs::path path = (fs::path(files.current()) / given / ".").lexically_normal().parent_path();
  const absl::Span<const absl::string_view> stubs = SandboxStubs();
  const std::string name = path.filename();
  if (!entered && std::find(stubs.begin(), stubs.end(), name) != stubs.end()) {
    if (given[0] == '/' && !IsOfMachine(path.parent_path())) missing.launchers.insert(path);
    return;
  }
  const fs::path directory = entered ? path : path.parent_path();
  if (IsOfMachine(directory)) return;
  const std::vector<std::string>& shown = files.directories();
  if (std::find(shown.begin(), shown.end(), directory.string()) != shown.end()) {
    if (!entered && path != files.script()) missing.rewritten.insert(path);
    return;
  }
  // Inside of what is shown, and so cannot be written, it needs a place that can.
  std::error_code error;
  fs::path there = directory;
  while (there != "/" && !fs::exists(there, error)) there = there.parent_path();
  const bool inside = std::any_of(shown.begin(), shown.end(), [&there](const std::string& each) {
    return absl::StartsWith(there.string(), absl::StrCat(each, "/"));
  });
  if (inside) missing.directories.insert(there);
  if (missing.directories.insert(directory).second && entered) ++missing.entered;
}

// Launchers that a script calls by their paths, as far as these are written out: what bash says of
// them may go to a log file.
void FindLaunchers(const ScriptFiles& files, absl::string_view text, Missing& missing) {
  constexpr absl::string_view kPath =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-/";
  for (size_t at = 0; (at = text.find('/', at)) != absl::string_view::npos;) {
    const bool starts = at == 0 || !absl::StrContains(kPath, text[at - 1]);
    const size_t end = std::min(text.find_first_not_of(kPath, at), text.size());
    const std::string path(text.substr(at, end - at));
    at = end;
    const absl::string_view name = absl::string_view(path).substr(path.rfind('/') + 1);
    const absl::Span<const absl::string_view> stubs = SandboxStubs();
    if (starts && missing.size() < 16 && !files.IsShown(path) &&
        std::find(stubs.begin(), stubs.end(), name) != stubs.end()) {
      AddMissing(files, path, false, missing);
    }
  }
}

// Reads bash's messages: "FILE: line N: PATH: No such file or directory".
void FindMissing(const ScriptFiles& files, absl::string_view messages, Missing& missing) {
  for (absl::string_view line : absl::StrSplit(messages, '\n')) {
    const size_t start = line.find(": line ");
    if (start == absl::string_view::npos) continue;
    line.remove_prefix(start + 7);
    while (!line.empty() && absl::ascii_isdigit(line[0])) line.remove_prefix(1);
    if (!absl::ConsumePrefix(&line, ": ")) continue;
    bool failed = false;
    for (const char* reason :
         {": No such file or directory", ": Read-only file system", ": Permission denied"}) {
      failed |= absl::ConsumeSuffix(&line, reason);
    }
    const bool entered = absl::ConsumePrefix(&line, "cd: ");
    if (failed && !line.empty() && missing.size() < 16) {
      AddMissing(files, std::string(line), entered, missing);
    }
  }
}

std::vector<std::string> SandboxCommand(const std::string& bubblewrap, const ScriptRequest& request,
                                        const std::vector<std::string>& environment,
                                        const ScriptFiles& files, const Missing& missing,
                                        int processes) {
  Sandbox sandbox(bubblewrap, geteuid() == 0);
  sandbox.AddPrograms();
  sandbox.AddScratch("/tmp");
  if (IsProjectDirectory(request.home, "/tmp")) sandbox.AddScratch(request.home);
  for (const std::string& directory : files.directories())
    sandbox.AddDirectory(directory, missing.rewritten);
  for (const std::string& directory : missing.directories) sandbox.AddScratch(directory);
  for (const std::string& launcher : missing.launchers) sandbox.AddStub(launcher);
  if (!files.IsShown(files.current()) && files.current() != "/") {
    sandbox.Add({"--dir", files.current()});
  }
  // Last, and from memory: the script is there also where its directory is not.
  sandbox.AddInput(3, files.script(), "0444");
  sandbox.Add({"--chdir", files.current()});
  for (const std::string& variable : environment) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(variable, absl::MaxSplits('=', 1));
    sandbox.Add({"--setenv", parts.first, parts.second});
  }
  std::vector<std::string> tail = {"/bin/bash", "/run/hapmoe/run", absl::StrCat(processes),
                                   request.script};
  tail.insert(tail.end(), request.arguments.begin(), request.arguments.end());
  return sandbox.Finish(tail);
}

std::string FindBubblewrap() {
  for (const char* path : {"/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap"}) {
    if (access(path, X_OK) == 0) return path;
  }
  return "";
}

// Why there may be no more launches than those recorded.
std::string EndNote(const ProcessResult& result, const ProcessLimits& limits) {
  using End = ProcessResult::End;
  switch (result.end) {
    case End::kTime:
      return absl::StrCat("stopped after ", absl::FormatDuration(limits.time));
    case End::kProcesses:
      return absl::StrCat("stopped: more than ", limits.processes, " processes");
    case End::kMemory:
      return absl::StrCat("stopped: more than ", limits.memory_bytes >> 20, " MiB of memory");
    case End::kStopped:
      return "stopped: it launches without end";
    case End::kExited:
      break;
  }
  return result.exit_status == 0 ? "" : absl::StrCat("ended with status ", result.exit_status);
}

std::string Unescape(absl::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size()) {
      ++i;
      result.push_back(text[i] == 'n' ? '\n' : text[i]);
    } else {
      result.push_back(text[i]);
    }
  }
  return result;
}

}  // namespace

bool LaunchRecorder::Feed(absl::string_view text) {
  bytes_ += text.size();
  if (bytes_ > kMaxRecordBytes) return false;
  absl::StrAppend(&pending_, text);
  size_t start = 0;
  for (size_t end; (end = pending_.find('\n', start)) != std::string::npos; start = end + 1) {
    TakeLine(absl::string_view(pending_).substr(start, end - start));
  }
  pending_.erase(0, start);
  return !full_;
}

void LaunchRecorder::TakeLine(absl::string_view line) {
  const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(' ', 2));
  if (parts.size() < 2 || parts[1].size() != 1) return;
  const absl::string_view text = parts.size() == 3 ? parts[2] : "";
  Partial& partial = partial_[std::string(parts[0])];
  switch (parts[1][0]) {
    case 'p':
      partial = {};
      partial.program = std::string(text);
      partial.last = &partial.program;
      break;
    case 'a':
      partial.last = &partial.words.emplace_back(text);
      break;
    case 'e':
      partial.last = &partial.environment.emplace_back(text);
      break;
    case '+':
      if (partial.last != nullptr) absl::StrAppend(partial.last, text);
      break;
    case '?':
      missing_.insert(std::string(text));
      break;
    case '!':
      full_ |= !Finish(partial);
      partial_.erase(std::string(parts[0]));
      break;
    default:
      break;
  }
}

bool LaunchRecorder::Finish(const Partial& partial) {
  if (partial.program.empty()) return true;
  std::vector<std::string> words;
  for (const std::string& word : partial.words) words.push_back(Unescape(word));
  std::map<std::string, std::string> environment;
  for (const std::string& raw : partial.environment) {
    environment.insert(absl::StrSplit(Unescape(raw), absl::MaxSplits('=', 1)));
  }
  return launches_.Add(Unescape(partial.program), words, environment);
}

absl::StatusOr<ScriptRun> ScriptCapture::Run(const ScriptRequest& request) const {
  absl::StatusOr<std::string> script = ReadScriptText(request.script);
  if (!script.ok()) return script.status();
  const std::string bubblewrap = FindBubblewrap();
  if (bubblewrap.empty()) {
    return absl::UnavailableError(absl::StrCat(
        "a script is only run in a sandbox, and bubblewrap (bwrap) is not installed.", kInstead));
  }
  std::vector<std::string> environment = InitialEnvironment(request, *script);
  environment.emplace_back("BASH_ENV=/run/hapmoe/start");
  const ScriptFiles files(request.script, request.home);

  const auto run_once = [&](const Missing& missing, std::string& messages,
                            bool& ended) -> absl::StatusOr<ScriptRun> {
    LaunchRecorder recorder;
    absl::StatusOr<ProcessResult> result = RunSupervised(
        // Twice the limit, so that passing the limit itself is seen and told.
        SandboxCommand(bubblewrap, request, environment, files, missing, 2 * limits_.processes),
        {std::string(StubText()), std::string(ShellStartText()), std::string(RunnerText()),
         *script},
        limits_, [&recorder](absl::string_view text) { return recorder.Feed(text); });
    if (!result.ok()) return result.status();
    // bubblewrap itself speaks before the script does.
    if (absl::StartsWith(result->messages, "bwrap: ") ||
        absl::StartsWith(result->messages, "setpriv: ")) {
      return absl::UnavailableError(
          absl::StrCat("a script is only run in a sandbox, and none can be made here (are "
                       "namespaces permitted?):\n  ",
                       absl::StripTrailingAsciiWhitespace(result->messages), kInstead));
    }
    messages = result->messages;
    ended = result->end == ProcessResult::End::kExited;
    ScriptRun run;
    run.launches = recorder.TakeLaunches();
    if (!recorder.missing_programs().empty()) {
      run.notes.push_back(MissingProgramsNote(recorder.missing_programs()));
    }
    if (const std::string note = EndNote(*result, limits_); !note.empty()) {
      run.notes.push_back(note);
    }
    return run;
  };

  Missing missing;
  FindLaunchers(files, *script, missing);
  std::string messages;
  bool ended = false;
  absl::StatusOr<ScriptRun> run = run_once(missing, messages, ended);
  if (!run.ok()) return run;
  // What a cluster has and this machine has not must not hide a launch: it is added, empty, where
  // that loses none.
  for (int attempt = 0; ended && attempt < 3; ++attempt) {
    const size_t before = missing.size();
    const size_t entered = missing.entered;
    FindMissing(files, messages, missing);
    if (missing.size() == before) break;
    std::string next_messages;
    absl::StatusOr<ScriptRun> next = run_once(missing, next_messages, ended);
    if (!next.ok()) break;
    // A directory that cannot be entered leaves a script in another one, with launches that are as
    // many but hold the wrong paths.
    const bool more = next->launches.size() > run->launches.size();
    if (more || (missing.entered > entered && next->launches.size() == run->launches.size())) {
      run = std::move(next);
      std::vector<std::string> there(missing.directories.begin(), missing.directories.end());
      there.insert(there.end(), missing.launchers.begin(), missing.launchers.end());
      if (!there.empty()) {
        run->notes.push_back(absl::StrCat("taken to be there: ", absl::StrJoin(there, " ")));
      }
    }
    messages = std::move(next_messages);
  }
  if (run->launches.empty()) {
    std::vector<absl::string_view> lines = absl::StrSplit(messages, '\n', absl::SkipWhitespace());
    if (lines.size() > kMaxMessageLines) lines.erase(lines.begin(), lines.end() - kMaxMessageLines);
    for (const absl::string_view line : lines) {
      run->notes.push_back(absl::StrCat("it said: ", line.substr(0, 200)));
    }
  }
  return run;
}

}  // namespace hapmoe::client
