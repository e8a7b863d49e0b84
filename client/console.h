// What a command talks to: the standard streams and the environment, so that tests can stand in
// for them, and the exit codes.
#ifndef HAPMOE_CLIENT_CONSOLE_H_
#define HAPMOE_CLIENT_CONSOLE_H_

#include <functional>
#include <istream>
#include <optional>
#include <ostream>
#include <string>

namespace hapmoe::client {

// What scripts that call hapmoe may rely on; `hapmoe help` and README.md name them too.
enum ExitCode : int {
  kDone = 0,
  kRefused = 1,       // Infeasible, or refused by the server or by a file that cannot be written.
  kUsage = 2,         // The command line or a file that it names is wrong.
  kServerFailed = 3,  // Unreachable, overloaded, too late, or failing.
};

struct Console {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
  // Whether a progress line may overwrite itself.
  bool err_is_terminal = false;
  // Value of an environment variable, if it is set.
  std::function<std::optional<std::string>(const char* name)> environment;
};

}  // namespace hapmoe::client

#endif  // HAPMOE_CLIENT_CONSOLE_H_
