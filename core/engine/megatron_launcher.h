// Files that start a plan on Megatron-LM: one script for all nodes, a host file and a rank file.
#ifndef HAPMOE_CORE_ENGINE_MEGATRON_LAUNCHER_H_
#define HAPMOE_CORE_ENGINE_MEGATRON_LAUNCHER_H_

#include <vector>

#include "absl/status/statusor.h"
#include "core/engine/launcher_input.h"

namespace hapmoe::engine {

// "launch.sh", "hostfile" and, up to kMaxRankFileRanks ranks, "rankfile" (node_launcher.h).
//
// Fails with InvalidArgument if a word holds NUL, a host holds blanks or control characters, a
// variable's name is reserved or malformed, or the meshes of the plan have different degrees or
// chunks, which Megatron-LM cannot run.
absl::StatusOr<std::vector<Artifact>> RenderMegatronLauncher(const LauncherInput& input);

}  // namespace hapmoe::engine

#endif  // HAPMOE_CORE_ENGINE_MEGATRON_LAUNCHER_H_
