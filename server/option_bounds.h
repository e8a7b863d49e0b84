// Which options of a server make sense.
#ifndef HAPMOE_SERVER_OPTION_BOUNDS_H_
#define HAPMOE_SERVER_OPTION_BOUNDS_H_

#include "absl/status/status.h"
#include "server/server.h"

namespace hapmoe::server {

// InvalidArgument, naming the flag and its bounds: an address is none, or a number would not do
// what it says but fail later or exhaust the machine.
absl::Status CheckOptionBounds(const ServerOptions& options);

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_OPTION_BOUNDS_H_
