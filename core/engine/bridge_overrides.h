// A job under a plan as overrides of Megatron-Bridge's configuration, in the grammar of Hydra.
#ifndef HAPMOE_CORE_ENGINE_BRIDGE_OVERRIDES_H_
#define HAPMOE_CORE_ENGINE_BRIDGE_OVERRIDES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/engine/arguments.h"
#include "core/engine/rendered_arguments.h"
#include "core/plan/plan.h"

namespace hapmoe::engine {

// The recipe of Megatron-Bridge whose defaults are those of Megatron-LM's pretrain_gpt.py.
inline constexpr char kBridgeRecipe[] = "vanilla_gpt_pretrain_config";

struct BridgeOverrides {
  // Options of scripts/training/run_recipe.py. `job` selects kBridgeRecipe and makes it the job;
  // `plan` and `recompute` say all that a plan decides, whatever recipe they are laid over.
  PlannedArguments arguments;
  // What of the job kBridgeRecipe cannot be made to do: sentences without a dot. Where there are
  // any, the job needs a recipe of its own.
  std::vector<std::string> beyond_recipe;
};

// Megatron-Bridge 067f987d. Fails with InvalidArgument if a value holds what Hydra would read: a
// quote, a backslash, an interpolation, or a control character.
absl::StatusOr<BridgeOverrides> BridgeOverridesOf(const Arguments& arguments,
                                                  const plan::Plan& plan);

}  // namespace hapmoe::engine

#endif  // HAPMOE_CORE_ENGINE_BRIDGE_OVERRIDES_H_
