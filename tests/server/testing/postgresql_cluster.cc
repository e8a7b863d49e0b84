#include "tests/server/testing/postgresql_cluster.h"

#include <fcntl.h>
#include <grp.h>
#include <libpq-fe.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <thread>
#include <vector>

namespace hapmoe::server {
namespace {

namespace fs = std::filesystem;

// Where Debian keeps the programs of a server, of the latest version that is there.
std::string ProgramsDirectory() {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator version("/usr/lib/postgresql", error), end; !error && version != end;
       version.increment(error)) {
    const fs::path programs = version->path() / "bin";
    if (fs::exists(programs / "initdb", error) && fs::exists(programs / "postgres", error)) {
      found.push_back(programs.string());
    }
  }
  return found.empty() ? "" : *std::max_element(found.begin(), found.end());
}

// The user that the server runs as, where this is root.
const passwd* ServerUser() {
  const passwd* user = getpwnam("postgres");
  return user != nullptr ? user : getpwnam("nobody");
}

[[noreturn]] void Fail(const std::string& what) {
  std::cerr << "PostgreSQL for a test: " << what << std::endl;
  std::abort();
}

pid_t Spawn(std::vector<std::string> arguments, const std::string& log) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const passwd* const user = geteuid() == 0 ? ServerUser() : nullptr;
  const pid_t child = fork();
  if (child != 0) return child;
  const int file = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  dup2(file, STDOUT_FILENO);
  dup2(file, STDERR_FILENO);
  if (user != nullptr && (setgroups(0, nullptr) != 0 || setgid(user->pw_gid) != 0 ||
                          setuid(user->pw_uid) != 0 || chdir("/") != 0)) {
    _exit(126);
  }
  prctl(PR_SET_PDEATHSIG, SIGQUIT);  // An immediate shutdown.
  setenv("LC_ALL", "C", 1);
  execv(argv[0], argv.data());
  _exit(127);
}

}  // namespace

std::string PostgresqlCluster::Missing() {
  if (ProgramsDirectory().empty()) {
    return "PostgreSQL's server is not installed (Debian's package postgresql)";
  }
  return "";
}

PostgresqlCluster::PostgresqlCluster() {
  if (chmod(directory_.path().c_str(), 0755) != 0) Fail("chmod");
  const std::string log = directory_.path() + "/initdb.log";
  if (mkdir(data_.c_str(), 0700) != 0) Fail("mkdir");
  if (geteuid() == 0) {
    const passwd* const user = ServerUser();
    if (user == nullptr || chown(data_.c_str(), user->pw_uid, user->pw_gid) != 0) Fail("chown");
  }
  const pid_t initdb = Spawn({ProgramsDirectory() + "/initdb", "-D", data_, "-U", "hapmoe", "-A",
                              "trust", "--no-sync", "--encoding=UTF8", "--locale=C"},
                             log);
  int status = 0;
  waitpid(initdb, &status, 0);
  if (status != 0) {
    std::cerr << std::ifstream(log).rdbuf();
    Fail("initdb");
  }
  Start();
}

PostgresqlCluster::~PostgresqlCluster() { Kill(); }

std::string PostgresqlCluster::Uri(const std::string& database) const {
  return "postgresql:///" + database + "?user=hapmoe&host=" + data_;
}

void PostgresqlCluster::Start() {
  const std::string log = directory_.path() + "/postgres.log";
  postmaster_ =
      Spawn({ProgramsDirectory() + "/postgres", "-D", data_, "-k", data_, "-c",
             "listen_addresses=", "-c", "max_connections=40", "-c", "shared_buffers=16MB"},
            log);
  for (int i = 0; i < 600; ++i) {
    if (PQping(Uri("postgres").c_str()) == PQPING_OK) return;
    if (waitpid(postmaster_, nullptr, WNOHANG) == postmaster_) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  std::cerr << std::ifstream(log).rdbuf();
  Fail("it does not start");
}

void PostgresqlCluster::Kill() {
  if (postmaster_ <= 0) return;
  Continue();
  kill(postmaster_, SIGQUIT);
  waitpid(postmaster_, nullptr, 0);
  postmaster_ = -1;
}

void PostgresqlCluster::SignalAll(int signal) const {
  // The postmaster's children, which are in process groups of their own.
  std::ifstream children("/proc/" + std::to_string(postmaster_) + "/task/" +
                         std::to_string(postmaster_) + "/children");
  kill(postmaster_, signal);
  for (pid_t child = 0; children >> child;) kill(child, signal);
}

void PostgresqlCluster::Pause() { SignalAll(SIGSTOP); }

void PostgresqlCluster::Continue() { SignalAll(SIGCONT); }

std::string PostgresqlCluster::NewDatabase() {
  const std::string name = "test" + std::to_string(++databases_);
  PGconn* const connection = PQconnectdb(Uri("postgres").c_str());
  PGresult* const result = PQexec(connection, ("CREATE DATABASE " + name).c_str());
  if (PQresultStatus(result) != PGRES_COMMAND_OK) Fail(PQerrorMessage(connection));
  PQclear(result);
  PQfinish(connection);
  return Uri(name);
}

}  // namespace hapmoe::server
