// Tells launches whose arguments are Megatron-LM's from others.
#ifndef HAPMOE_CLIENT_LAUNCH_KIND_H_
#define HAPMOE_CLIENT_LAUNCH_KIND_H_

#include <string>

#include "client/launch.h"

namespace hapmoe::client {

// Why a launch cannot be planned from its arguments: which program it starts that takes others, and
// what to give instead. Empty where nothing speaks against it. Pure.
std::string RefusalOf(const Launch& launch);

// Whether its arguments are those of a Megatron-LM training: a launch of a data preparation, say,
// is neither refused nor one of these.
bool IsTraining(const Launch& launch);

}  // namespace hapmoe::client

#endif  // HAPMOE_CLIENT_LAUNCH_KIND_H_
