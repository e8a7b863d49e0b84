// Files that start a plan on Megatron-Bridge, as overrides of one of its recipes.
#ifndef HAPMOE_CORE_ENGINE_BRIDGE_LAUNCHER_H_
#define HAPMOE_CORE_ENGINE_BRIDGE_LAUNCHER_H_

#include <vector>

#include "absl/status/statusor.h"
#include "core/engine/launcher_input.h"

namespace hapmoe::engine {

// "launch.sh", "hostfile" and "rankfile" (node_launcher.h), for Megatron-Bridge 067f987d.
//
// launch.sh starts scripts/training/run_recipe.py of the checkout that it is run in with the recipe
// vanilla_gpt_pretrain_config and overrides that make it the job; each process has the
// recomputation of its stage. BRIDGE_RECIPE names a recipe of the user's own instead, which gets
// the plan's overrides alone; a job that the first recipe cannot be starts with one only.
// `input.entry` is not used.
//
// Fails as RenderMegatronLauncher does, and with InvalidArgument where a value holds what Hydra
// would read.
absl::StatusOr<std::vector<Artifact>> RenderBridgeLauncher(const LauncherInput& input);

}  // namespace hapmoe::engine

#endif  // HAPMOE_CORE_ENGINE_BRIDGE_LAUNCHER_H_
