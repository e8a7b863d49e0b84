// The text of launch.sh, given everything that it says.
#ifndef HAPMOE_CORE_ENGINE_LAUNCH_SCRIPT_H_
#define HAPMOE_CORE_ENGINE_LAUNCH_SCRIPT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/engine/rendered_arguments.h"
#include "core/plan/node_assignment.h"
#include "core/plan/plan.h"

namespace hapmoe::engine {

// One line of a pool's environment.
struct EnvironmentAction {
  enum class Kind {
    kForce,   // Set.
    kPrefer,  // Set where the caller has not.
    kRefuse,  // Unset where the caller has set this value.
  };
  Kind kind = Kind::kPrefer;
  std::string name;
  std::string value;
};

// Checked by CheckNodeInput: no NUL anywhere, names are identifiers.
struct LaunchScript {
  const plan::Plan& plan;
  const plan::NodeAssignment& nodes;
  const PlannedArguments& arguments;
  std::string engine;  // For people.
  std::string entry;
  std::vector<std::vector<EnvironmentAction>> environments =
      {};                        // By pool; missing ones are empty.
  std::string backend = {};      // To be confirmed before it starts; empty: nothing.
  std::string needs = {};        // The sentence that says so.
  std::string preparation = {};  // As NodeProgram::preparation.
};

// Pure. Passes shellcheck.
std::string RenderLaunchScript(const LaunchScript& script);

}  // namespace hapmoe::engine

#endif  // HAPMOE_CORE_ENGINE_LAUNCH_SCRIPT_H_
