#include "server/watchdog.h"

#include <unistd.h>

#include <thread>

#include "server/log/log.h"

namespace hapmoe::server {

void EndProcessAfter(std::chrono::nanoseconds limit) {
  std::thread([limit] {
    std::this_thread::sleep_for(limit);
    LogLine(Severity::kError, "ended_by_watchdog")
        .Add("after_seconds", std::chrono::duration<double>(limit).count());
    // Without destructors: something does not end, and they would wait for it.
    _exit(1);
  }).detach();
}

}  // namespace hapmoe::server
