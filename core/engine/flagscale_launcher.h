// Files that start a plan on FlagScale, whose stages have degrees of their own.
#ifndef HAPMOE_CORE_ENGINE_FLAGSCALE_LAUNCHER_H_
#define HAPMOE_CORE_ENGINE_FLAGSCALE_LAUNCHER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/engine/launcher_input.h"

namespace hapmoe::engine {

// "launch.sh", "experiment.yaml", "train/job.yaml" and "hostfile", for FlagScale da4935ec.
//
// Every pipeline stage is a process mesh of its own. `input.plan` must keep the rules of
// plan::CheckFlagScalePlan; `input.entry` is not used, FlagScale has its own.
//
// FlagScale pastes its configuration into shell scripts between double quotes, so values that a
// shell would read there cannot be passed.
//
// Fails with InvalidArgument if a value, path or host holds such characters, if a value looks like
// an option, if FlagScale's Megatron-LM does not know an option of the job, or if the plan is none
// that FlagScale can run.
absl::StatusOr<std::vector<Artifact>> RenderFlagScaleLauncher(const LauncherInput& input);

// The name in hostfile and in hetero_device_types of every stage's devices: that of its pool, with
// the first stage's number behind it where the pipeline comes back to the pool, because FlagScale
// orders ranks by name.
std::vector<std::string> FlagScaleDeviceTypes(const plan::Plan& plan,
                                              const cluster::Cluster& cluster);

}  // namespace hapmoe::engine

#endif  // HAPMOE_CORE_ENGINE_FLAGSCALE_LAUNCHER_H_
