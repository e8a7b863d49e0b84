// A run of the server's program, hapmoed.
#ifndef HAPMOE_TESTS_SERVER_TESTING_SERVER_PROGRAM_H_
#define HAPMOE_TESTS_SERVER_TESTING_SERVER_PROGRAM_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "tests/server/testing/temporary_directory.h"

namespace hapmoe::server {

// Its log goes to a file. Killed at the end if it still runs. Used by one thread.
class ServerProgram {
 public:
  // `path`: of the program.
  ServerProgram(std::string path, std::vector<std::string> arguments);
  ~ServerProgram();
  ServerProgram(const ServerProgram&) = delete;
  ServerProgram& operator=(const ServerProgram&) = delete;

  pid_t pid() const { return child_; }
  void Signal(int signal) const;

  // Its exit status; -1 if it was killed or does not end within half a minute.
  int Wait();

  std::string Log() const;

  // The ports of the line that says that it serves; 0 if none comes, or where it serves none.
  int Port() const { return Serving("\"port\":"); }
  int MetricsPort() const { return Serving("\"metrics_port\":"); }

 private:
  int Serving(const std::string& field) const;

  const TemporaryDirectory directory_;
  const std::string log_path_ = directory_.path() + "/log";
  pid_t child_ = -1;
};

}  // namespace hapmoe::server

#endif  // HAPMOE_TESTS_SERVER_TESTING_SERVER_PROGRAM_H_
