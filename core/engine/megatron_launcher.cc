#include "core/engine/megatron_launcher.h"

#include "core/base/status_macros.h"
#include "core/engine/node_launcher.h"
#include "core/engine/rendered_arguments.h"

namespace hapmoe::engine {

absl::StatusOr<std::vector<Artifact>> RenderMegatronLauncher(const LauncherInput& input) {
  HAPMOE_RETURN_IF_ERROR(CheckNodeInput(input));
  return RenderNodeLauncher(
      input, {"Megatron-LM", EntryWord(input), PlanArguments(input.arguments, input.plan)});
}

}  // namespace hapmoe::engine
