// Files that start a plan on MindSpeed-LLM, Megatron-LM's version for Ascend.
#ifndef HAPMOE_CORE_ENGINE_MINDSPEED_LAUNCHER_H_
#define HAPMOE_CORE_ENGINE_MINDSPEED_LAUNCHER_H_

#include <vector>

#include "absl/status/statusor.h"
#include "core/engine/launcher_input.h"

namespace hapmoe::engine {

// "launch.sh", "hostfile" and "rankfile" (node_launcher.h), for MindSpeed-LLM c77308a1 with its
// pretrain_gpt.py.
//
// Fails as RenderMegatronLauncher does, and with InvalidArgument for a plan that breaks a rule of
// plan::BrokenEngineRule or a job that MindSpeed-LLM does not take.
absl::StatusOr<std::vector<Artifact>> RenderMindSpeedLauncher(const LauncherInput& input);

}  // namespace hapmoe::engine

#endif  // HAPMOE_CORE_ENGINE_MINDSPEED_LAUNCHER_H_
