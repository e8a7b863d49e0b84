// The end of a process that does not end by itself.
#ifndef HAPMOE_SERVER_WATCHDOG_H_
#define HAPMOE_SERVER_WATCHDOG_H_

#include <chrono>

namespace hapmoe::server {

// Ends this process with status 1 once `limit` has passed, whatever else it does then, and logs
// that it had to. A process that ends before is not held up. Returns at once.
void EndProcessAfter(std::chrono::nanoseconds limit);

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_WATCHDOG_H_
