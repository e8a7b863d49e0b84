// Files that start a plan on Primus, AMD's trainer around Megatron-LM.
#ifndef HAPMOE_CORE_ENGINE_PRIMUS_LAUNCHER_H_
#define HAPMOE_CORE_ENGINE_PRIMUS_LAUNCHER_H_

#include <vector>

#include "absl/status/statusor.h"
#include "core/engine/launcher_input.h"

namespace hapmoe::engine {

// "launch.sh", "primus.yaml", "hostfile" and "rankfile" (node_launcher.h), for Primus fd1eeabb.
//
// launch.sh starts primus/cli/main.py of the checkout that it is run in, with primus.yaml beside
// it; each process has the recomputation of its stage. Options that Primus' presets set otherwise
// than Megatron-LM are set back. `input.entry` is not used.
//
// Fails as RenderMegatronLauncher does, and with InvalidArgument where Primus would read a value or
// does not know an option.
absl::StatusOr<std::vector<Artifact>> RenderPrimusLauncher(const LauncherInput& input);

}  // namespace hapmoe::engine

#endif  // HAPMOE_CORE_ENGINE_PRIMUS_LAUNCHER_H_
