// Files that hand a plan to a scheduler, beside the launcher that they start on every node.
#ifndef HAPMOE_CORE_ENGINE_SCHEDULERS_SCHEDULERS_H_
#define HAPMOE_CORE_ENGINE_SCHEDULERS_SCHEDULERS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/engine/launcher_input.h"
#include "core/engine/schedulers/scheduler_options.h"

namespace hapmoe::engine {

// "job.sbatch", "jobset.yaml" or "volcano.yaml".
//
// `launcher` is what RenderLauncher(input) gave, for an engine whose launch.sh runs on every node:
// it is what is started, with the node's rank in the plan. `options` has no fault that
// CheckSchedulerOptions finds. The job asks for whole nodes, also where the plan leaves some
// accelerators of a node idle. Pure.
//
// Fails with InvalidArgument if the scheduler cannot hold the plan: Slurm's heterogeneous jobs have
// at most 128 components, a ConfigMap of Kubernetes at most 1 MiB.
absl::StatusOr<Artifact> RenderScheduler(const LauncherInput& input,
                                         const SchedulerOptions& options,
                                         const std::vector<Artifact>& launcher);

// Words of the command that submits it; "{}" in a word stands for the folder of the files.
std::vector<std::string> SubmitCommand(Scheduler scheduler);

// One file for each scheduler.
absl::StatusOr<Artifact> RenderSlurm(const LauncherInput& input, const SchedulerOptions& options);
absl::StatusOr<Artifact> RenderJobSet(const LauncherInput& input, const SchedulerOptions& options,
                                      const std::vector<Artifact>& launcher);
absl::StatusOr<Artifact> RenderVolcano(const LauncherInput& input, const SchedulerOptions& options,
                                       const std::vector<Artifact>& launcher);

}  // namespace hapmoe::engine

#endif  // HAPMOE_CORE_ENGINE_SCHEDULERS_SCHEDULERS_H_
