#include "core/engine/mindspeed_launcher.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/engine/mindspeed_options.h"
#include "core/engine/node_launcher.h"

namespace hapmoe::engine {

absl::StatusOr<std::vector<Artifact>> RenderMindSpeedLauncher(const LauncherInput& input) {
  HAPMOE_RETURN_IF_ERROR(CheckNodeInput(input));
  if (input.plan.virtual_stages() != 1) {
    return absl::InvalidArgumentError("MindSpeed-LLM is given plans without virtual stages.");
  }
  for (const plan::Mesh& mesh : input.plan.meshes) {
    for (const plan::Stage& stage : mesh.stages) {
      if (stage.recompute.granularity == model::Recompute::Granularity::kSelective) {
        return absl::InvalidArgumentError("MindSpeed-LLM recomputes whole layers by stage.");
      }
    }
  }
  const Violations violations = CheckMindSpeedOptions(input.arguments);
  if (!violations.empty()) return absl::InvalidArgumentError(violations.front().message);
  return RenderNodeLauncher(input, {"MindSpeed-LLM", EntryWord(input),
                                    PlanMindSpeedArguments(input.arguments, input.plan)});
}

}  // namespace hapmoe::engine
