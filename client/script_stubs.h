// The programs that a launch script finds in its sandbox, as data.
#ifndef HAPMOE_CLIENT_SCRIPT_STUBS_H_
#define HAPMOE_CLIENT_SCRIPT_STUBS_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace hapmoe::client {

// Real programs of the host that scripts compute with. None of them leads out of the sandbox, and
// what they start is found there again.
absl::Span<const absl::string_view> SandboxTools();

// Names under which the stub stands in: launchers, whose command lines are recorded; wrappers,
// which go on with the command that they were given; and programs that only do nothing.
absl::Span<const absl::string_view> SandboxStubs();

// Bash. The stub itself, told apart by its name. It writes records to descriptor 198 in lines of
// less than PIPE_BUF bytes, so that concurrent stubs do not mix within a line:
//   PID p TEXT   program      PID a TEXT   the next argument
//   PID e TEXT   NAME=VALUE   PID + TEXT   more of the text before
//   PID !        end of the launch         PID ? TEXT   a program that is missing
// In TEXT, a newline is "\n" and a backslash is "\\".
absl::string_view StubText();

// Bash, sourced by every shell of the sandbox: what is not there does nothing, and is noted.
absl::string_view ShellStartText();

// Bash, the sandbox's first process. Its arguments are a number of processes, that the kernel then
// enforces, a script, and the script's arguments. Waits a moment for what the script leaves behind.
absl::string_view RunnerText();

}  // namespace hapmoe::client

#endif  // HAPMOE_CLIENT_SCRIPT_STUBS_H_
