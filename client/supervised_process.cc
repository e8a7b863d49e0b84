#include "client/supervised_process.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"

namespace hapmoe::client {
namespace {

constexpr int kTickMilliseconds = 10;
constexpr size_t kMaxMessageBytes = 4096;

// Owns the descriptors of a run.
class Descriptors {
 public:
  ~Descriptors() {
    for (const int fd : all_) close(fd);
  }
  int Add(int fd) {
    if (fd >= 0) all_.push_back(fd);
    return fd;
  }
  void Close(int fd) {
    all_.erase(std::find(all_.begin(), all_.end(), fd));
    close(fd);
  }

 private:
  std::vector<int> all_;
};

absl::Status SystemFailure(absl::string_view what) {
  const int error = errno;
  return absl::UnavailableError(absl::StrCat(what, ": ", strerror(error)));
}

// A process as /proc shows it.
struct ProcessUse {
  pid_t parent;
  int64_t resident_bytes;
};

bool ReadProcess(const char* pid, ProcessUse& use) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  std::string line;
  if (!std::getline(file, line)) return false;
  // The name, in parentheses, may hold anything; fields are counted from behind it.
  const size_t end = line.rfind(')');
  if (end == std::string::npos) return false;
  const std::vector<absl::string_view> fields =
      absl::StrSplit(absl::string_view(line).substr(end + 1), ' ', absl::SkipEmpty());
  int64_t pages = 0;
  if (fields.size() < 22 || !absl::SimpleAtoi(fields[1], &use.parent) ||
      !absl::SimpleAtoi(fields[21], &pages)) {
    return false;
  }
  use.resident_bytes = pages * sysconf(_SC_PAGESIZE);
  return true;
}

// What `root` and its descendants use. Orphans of a PID namespace belong to its init, which stays a
// descendant.
struct TreeUse {
  int processes = 0;
  int64_t resident_bytes = 0;
};

TreeUse MeasureTree(pid_t root) {
  std::map<pid_t, ProcessUse> all;
  DIR* directory = opendir("/proc");
  if (directory == nullptr) return {};
  while (const dirent* entry = readdir(directory)) {
    pid_t pid = 0;
    ProcessUse use;
    if (absl::ascii_isdigit(entry->d_name[0]) && absl::SimpleAtoi(entry->d_name, &pid) &&
        ReadProcess(entry->d_name, use)) {
      all[pid] = use;
    }
  }
  closedir(directory);
  TreeUse tree;
  for (const auto& [pid, use] : all) {
    pid_t ancestor = pid;
    // Bounded, for a snapshot taken while processes come and go may hold a circle.
    for (size_t steps = 0; steps < all.size() && ancestor != root; ++steps) {
      const auto parent = all.find(ancestor);
      if (parent == all.end()) break;
      ancestor = parent->second.parent;
    }
    if (ancestor != root) continue;
    ++tree.processes;
    tree.resident_bytes += use.resident_bytes;
  }
  return tree;
}

void SetLimit(int resource, int64_t value) {
  const rlimit limit{static_cast<rlim_t>(value), static_cast<rlim_t>(value)};
  setrlimit(static_cast<__rlimit_resource>(resource), &limit);
}

// Between fork and exec: calls nothing that takes a lock.
[[noreturn]] void BecomeProgram(char* const* argv, const ProcessLimits& limits,
                                const std::vector<int>& inputs, int null, int messages,
                                int records) {
  // Sources move out of the way of the targets first.
  const auto place = [](int from, int to) {
    if (dup2(from, to) < 0) _exit(127);
  };
  place(null, STDIN_FILENO);
  place(messages, STDOUT_FILENO);
  place(messages, STDERR_FILENO);
  place(records, kRecordDescriptor);
  for (size_t i = 0; i < inputs.size(); ++i) {
    place(inputs[i], kInputDescriptor + static_cast<int>(i));
  }
  close_range(3, kInputDescriptor - 1, 0);
  close_range(kInputDescriptor + static_cast<unsigned>(inputs.size()), kRecordDescriptor - 1, 0);
  close_range(kRecordDescriptor + 1, ~0u, 0);
  SetLimit(RLIMIT_CORE, 0);
  SetLimit(RLIMIT_FSIZE, limits.file_bytes);
  SetLimit(RLIMIT_CPU, absl::ToInt64Seconds(limits.time) + 1);
  SetLimit(RLIMIT_AS, limits.memory_bytes);
  // The supervisor must not starve where the program spins.
  setpriority(PRIO_PROCESS, 0, 10);
  signal(SIGPIPE, SIG_DFL);
  char* const environment[] = {nullptr};
  execve(argv[0], argv, environment);
  _exit(127);
}

// Reads what there is. False at the end of the pipe.
bool Drain(int fd, const std::function<bool(absl::string_view)>& use, bool& stop) {
  char buffer[1 << 16];
  const ssize_t size = read(fd, buffer, sizeof(buffer));
  if (size < 0) return errno == EINTR || errno == EAGAIN;
  if (size == 0) return false;
  if (!use(absl::string_view(buffer, static_cast<size_t>(size)))) stop = true;
  return true;
}

}  // namespace

absl::StatusOr<ProcessResult> RunSupervised(
    const std::vector<std::string>& command, const std::vector<std::string>& inputs,
    const ProcessLimits& limits, const std::function<bool(absl::string_view)>& on_record) {
  Descriptors descriptors;
  // Above every descriptor that the program gets, so that placing one does not close another.
  const auto high = [&descriptors](int fd) {
    const int moved = fcntl(fd, F_DUPFD_CLOEXEC, kRecordDescriptor + 1);
    close(fd);
    return descriptors.Add(moved);
  };
  int records[2];
  int messages[2];
  if (pipe2(records, O_CLOEXEC) != 0) return SystemFailure("cannot make a pipe");
  for (int& fd : records) fd = high(fd);
  if (pipe2(messages, O_CLOEXEC) != 0) return SystemFailure("cannot make a pipe");
  for (int& fd : messages) fd = high(fd);
  const int null = high(open("/dev/null", O_RDONLY | O_CLOEXEC));
  std::vector<int> input_files;
  for (const std::string& text : inputs) {
    const int file = high(memfd_create("input", MFD_CLOEXEC));
    if (file < 0 || write(file, text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
        lseek(file, 0, SEEK_SET) != 0) {
      return SystemFailure("cannot hold a file in memory");
    }
    input_files.push_back(file);
  }
  std::vector<char*> argv;
  argv.reserve(command.size() + 1);
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);

  const pid_t child = fork();
  if (child < 0) return SystemFailure("cannot start a process");
  if (child == 0) {
    BecomeProgram(argv.data(), limits, input_files, null, messages[1], records[1]);
  }
  descriptors.Close(records[1]);
  descriptors.Close(messages[1]);

  ProcessResult result;
  const auto on_message = [&result](absl::string_view text) {
    result.messages.append(text.data(), text.size());
    if (result.messages.size() > kMaxMessageBytes) {
      result.messages.erase(0, result.messages.size() - kMaxMessageBytes);
    }
    return true;
  };
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  const auto time = absl::ToChronoNanoseconds(limits.time);
  Clock::time_point next_measure = start;
  bool exited = false;
  int wait_status = 0;
  pollfd polled[2] = {{records[0], POLLIN, 0}, {messages[0], POLLIN, 0}};
  using End = ProcessResult::End;
  while (!exited && result.end == End::kExited) {
    poll(polled, 2, kTickMilliseconds);
    exited = waitpid(child, &wait_status, WNOHANG) == child;
    bool stop = false;
    // A negative descriptor is passed over by poll.
    if (polled[0].revents != 0 && !Drain(records[0], on_record, stop)) polled[0].fd = -1;
    if (polled[1].revents != 0 && !Drain(messages[0], on_message, stop)) polled[1].fd = -1;
    if (stop) result.end = End::kStopped;
    if (Clock::now() - start > time) result.end = End::kTime;
    // A flood of output must not make the looks at the processes more frequent.
    if (exited || Clock::now() < next_measure) continue;
    next_measure = Clock::now() + std::chrono::milliseconds(kTickMilliseconds);
    const TreeUse use = MeasureTree(child);
    if (use.resident_bytes > limits.memory_bytes) result.end = End::kMemory;
    if (use.processes > limits.processes) result.end = End::kProcesses;
  }
  if (!exited) {
    kill(child, SIGKILL);
    while (waitpid(child, &wait_status, 0) < 0 && errno == EINTR) {
    }
  }
  // What was written before the end. Not blocking: a descendant may hold the other end.
  bool stop = false;
  for (const int fd : {records[0], messages[0]}) {
    fcntl(fd, F_SETFL, O_NONBLOCK);
    pollfd last{fd, POLLIN, 0};
    while (!stop && poll(&last, 1, 0) > 0 && (last.revents & POLLIN) != 0 &&
           (fd == records[0] ? Drain(fd, on_record, stop) : Drain(fd, on_message, stop))) {
    }
  }
  result.exit_status =
      WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
  return result;
}

}  // namespace hapmoe::client
