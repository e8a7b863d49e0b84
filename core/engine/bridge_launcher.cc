#include "core/engine/bridge_launcher.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "core/engine/bridge_overrides.h"
#include "core/engine/node_launcher.h"
#include "core/engine/shell_quote.h"

namespace hapmoe::engine {
namespace {

constexpr char kOwnRecipe[] = R"BASH(
# A recipe of your own instead of the job's options; the plan's are laid over it.
if [[ -n ${BRIDGE_RECIPE:-} ]]; then job_arguments=(--recipe "$BRIDGE_RECIPE" --mode pretrain); fi
)BASH";

constexpr char kNeedsRecipe[] = R"BASH(
# The model needs a recipe of its own; the plan's overrides are laid over it.
if [[ -n ${BRIDGE_RECIPE:-} ]]; then
  job_arguments=(--recipe "$BRIDGE_RECIPE" --mode pretrain)
else
  ((dry_run)) || die "$recipe_needed"
  warn "$recipe_needed"
fi
)BASH";

}  // namespace

absl::StatusOr<std::vector<Artifact>> RenderBridgeLauncher(const LauncherInput& input) {
  HAPMOE_RETURN_IF_ERROR(CheckNodeInput(input));
  HAPMOE_ASSIGN_OR_RETURN(BridgeOverrides overrides,
                          BridgeOverridesOf(input.arguments, input.plan));
  NodeProgram program{"Megatron-Bridge", "scripts/training/run_recipe.py",
                      std::move(overrides.arguments)};
  if (overrides.beyond_recipe.empty()) {
    absl::StrAppend(&program.preparation, kOwnRecipe);
  } else {
    const std::string needed =
        absl::StrCat("the recipe ", kBridgeRecipe,
                     " cannot be this job: ", absl::StrJoin(overrides.beyond_recipe, "; "),
                     ". Set BRIDGE_RECIPE to a recipe of the same model.");
    absl::StrAppend(&program.preparation, "readonly recipe_needed=", ShellQuote(needed), "\n",
                    kNeedsRecipe);
  }
  return RenderNodeLauncher(input, program);
}

}  // namespace hapmoe::engine
