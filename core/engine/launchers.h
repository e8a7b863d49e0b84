// The launcher of whichever engine a plan is for.
#ifndef HAPMOE_CORE_ENGINE_LAUNCHERS_H_
#define HAPMOE_CORE_ENGINE_LAUNCHERS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/violation.h"
#include "core/engine/arguments.h"
#include "core/engine/launcher_input.h"
#include "core/plan/node_assignment.h"
#include "core/plan/plan.h"

namespace hapmoe::engine {

// The files that start the plan on its engine. Fails as the engine's own launcher does; an engine
// that has none is an internal error.
absl::StatusOr<std::vector<Artifact>> RenderLauncher(const LauncherInput& input);

// Options of a job that the engine does not take, whatever the plan; none for Megatron-LM, whose
// own rules have told.
Violations CheckEngineOptions(absl::string_view engine, const Arguments& arguments);

// What a reader should know of the launcher: options of the job that are left out, and why, and
// what the engine needs from him. Sentences.
std::vector<std::string> LauncherNotes(const Arguments& arguments, const plan::Plan& plan,
                                       const plan::NodeAssignment& nodes);

}  // namespace hapmoe::engine

#endif  // HAPMOE_CORE_ENGINE_LAUNCHERS_H_
