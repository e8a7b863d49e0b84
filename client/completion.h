// What shells complete on the command line, from the tables of commands and options.
#ifndef HAPMOE_CLIENT_COMPLETION_H_
#define HAPMOE_CLIENT_COMPLETION_H_

#include <string>

namespace hapmoe::client {

// A script for bash, which defines the function _hapmoe and completes hapmoe by it. Completes
// commands, their first words, options and the values of options that name them, and files. Behind
// "--" stand words of the job: files again. Passes shellcheck.
std::string BashCompletion();

}  // namespace hapmoe::client

#endif  // HAPMOE_CLIENT_COMPLETION_H_
