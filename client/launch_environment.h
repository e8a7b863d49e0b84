// Which variables of a launch matter to training.
#ifndef HAPMOE_CLIENT_LAUNCH_ENVIRONMENT_H_
#define HAPMOE_CLIENT_LAUNCH_ENVIRONMENT_H_

#include "absl/strings/string_view.h"

namespace hapmoe::client {

// Whether a variable of this name may change what Megatron-LM, PyTorch, a collective library or a
// driver does. README.md tells users the list. Keys of services are never among them.
bool MattersToLaunch(absl::string_view name);

}  // namespace hapmoe::client

#endif  // HAPMOE_CLIENT_LAUNCH_ENVIRONMENT_H_
