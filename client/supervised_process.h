// Runs one program that is not trusted to end, and collects what it writes.
#ifndef HAPMOE_CLIENT_SUPERVISED_PROCESS_H_
#define HAPMOE_CLIENT_SUPERVISED_PROCESS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace hapmoe::client {

// What a program and its descendants may use together. They are looked at every few milliseconds,
// so that all of this is passed a little before it is noticed; on a busy machine that can be late.
// Whoever runs a program that may fork without end must also have the kernel limit its processes.
struct ProcessLimits {
  absl::Duration time = absl::Seconds(10);
  int processes = 128;
  int64_t memory_bytes = int64_t{512} << 20;
  int64_t file_bytes = int64_t{16} << 20;  // Size of one file that it writes.
};

struct ProcessResult {
  enum class End { kExited, kTime, kProcesses, kMemory, kStopped };
  End end = End::kExited;
  int exit_status = 0;   // 128 plus the signal that ended it.
  std::string messages;  // The last 4 KiB of its standard output and error.
};

// Descriptor that the program writes its records to.
inline constexpr int kRecordDescriptor = 198;
// Descriptors from here on up hold the input texts, for reading.
inline constexpr int kInputDescriptor = 190;

// Runs `command` (its first word is a path) with an empty standard input and no other descriptors
// than the above. `on_record` gets what is written to kRecordDescriptor and returns false to stop
// the program. When this returns, the program has ended; it must end its descendants when it is
// killed, as the init of a PID namespace does. At most 8 inputs. UNAVAILABLE when it cannot start.
absl::StatusOr<ProcessResult> RunSupervised(
    const std::vector<std::string>& command, const std::vector<std::string>& inputs,
    const ProcessLimits& limits, const std::function<bool(absl::string_view)>& on_record);

}  // namespace hapmoe::client

#endif  // HAPMOE_CLIENT_SUPERVISED_PROCESS_H_
