// Finds out what a launch script launches without running it.
#ifndef HAPMOE_CLIENT_SCRIPT_READING_STATIC_READING_H_
#define HAPMOE_CLIENT_SCRIPT_READING_STATIC_READING_H_

#include "absl/status/statusor.h"
#include "client/script_run.h"

namespace hapmoe::client {

// Reads a script as the sandbox would run it, and starts no process. INVALID_ARGUMENT: the script
// cannot be read, or holds what is not read exactly; the message names the line and the reason.
// Work and memory are limited.
absl::StatusOr<ScriptRun> ReadScriptStatically(const ScriptRequest& request);

}  // namespace hapmoe::client

#endif  // HAPMOE_CLIENT_SCRIPT_READING_STATIC_READING_H_
