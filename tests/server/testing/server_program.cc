#include "tests/server/testing/server_program.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

namespace hapmoe::server {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(30);

}  // namespace

ServerProgram::ServerProgram(std::string path, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), std::move(path));
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  child_ = fork();
  if (child_ == 0) {
    const int log = open(log_path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
}

ServerProgram::~ServerProgram() {
  if (child_ <= 0) return;
  kill(child_, SIGKILL);
  waitpid(child_, nullptr, 0);
}

void ServerProgram::Signal(int signal) const { kill(child_, signal); }

int ServerProgram::Wait() {
  for (const auto end = Clock::now() + kPatience; Clock::now() < end;) {
    int status = 0;
    if (waitpid(child_, &status, WNOHANG) == child_) {
      child_ = -1;
      return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }
    std::this_thread::sleep_for(milliseconds(1));
  }
  return -1;
}

std::string ServerProgram::Log() const {
  std::stringstream text;
  text << std::ifstream(log_path_).rdbuf();
  return text.str();
}

int ServerProgram::Serving(const std::string& field) const {
  for (const auto end = Clock::now() + kPatience; Clock::now() < end;) {
    const std::string log = Log();
    const size_t serving = log.find("\"event\":\"serving\"");
    const size_t port = log.find(field, serving == std::string::npos ? log.size() : serving);
    if (port != std::string::npos) return std::stoi(log.substr(port + field.size()));
    std::this_thread::sleep_for(milliseconds(10));
  }
  return 0;
}

}  // namespace hapmoe::server
