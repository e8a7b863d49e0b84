// The text of FlagScale's launch.sh.
#ifndef HAPMOE_CORE_ENGINE_FLAGSCALE_SCRIPT_H_
#define HAPMOE_CORE_ENGINE_FLAGSCALE_SCRIPT_H_

#include <string>

namespace hapmoe::engine {

// `backend` must be confirmed before anything starts, and `needs` says why; both empty: nothing.
// Passes shellcheck.
std::string RenderFlagScaleScript(const std::string& backend, const std::string& needs);

}  // namespace hapmoe::engine

#endif  // HAPMOE_CORE_ENGINE_FLAGSCALE_SCRIPT_H_
