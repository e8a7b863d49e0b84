// hapmoe, the command line of the planner.
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "client/commands.h"

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const hapmoe::client::Console console{std::cin, std::cout, std::cerr, isatty(STDERR_FILENO) == 1,
                                        [](const char* name) -> std::optional<std::string> {
                                          const char* value = std::getenv(name);
                                          if (value == nullptr) return std::nullopt;
                                          return value;
                                        }};
  const int code = hapmoe::client::RunHapmoe(arguments, console);
  // A pipe that closed early, or a full disk, must not pass for success.
  std::cout.flush();
  return std::cout ? code : hapmoe::client::kRefused;
}
