// FlagScale's YAML files as an input: the arguments that FlagScale would give to Megatron-LM.
#ifndef HAPMOE_CLIENT_FLAGSCALE_FILE_H_
#define HAPMOE_CLIENT_FLAGSCALE_FILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/script_run.h"

namespace hapmoe::client {

// Whether a path names a YAML file.
bool IsYamlFile(const std::string& path);

// Reads a train YAML (system, model and data), or an experiment YAML whose defaults name one in
// train/ beside it. Sections are flattened, a_b becomes --a-b, true a flag, false nothing, a list
// several words, as FlagScale does; ${a.b} is replaced by what it names. INVALID_ARGUMENT, with the
// line: another backend, a heterogeneous layout (which hapmoe itself plans), and all that is not
// read exactly.
absl::StatusOr<ScriptRun> ReadFlagScaleFile(const std::string& path);

// Takes out of a launch's arguments what FlagScale's Megatron-LM knows and NVIDIA's does not, and
// returns it. None of it bears on a plan.
std::vector<std::string> TakeFlagScaleOnly(std::vector<std::string>& arguments);

}  // namespace hapmoe::client

#endif  // HAPMOE_CLIENT_FLAGSCALE_FILE_H_
