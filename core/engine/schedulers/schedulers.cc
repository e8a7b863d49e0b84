#include "core/engine/schedulers/schedulers.h"

#include "absl/algorithm/container.h"
#include "absl/status/status.h"

namespace hapmoe::engine {

absl::StatusOr<Artifact> RenderScheduler(const LauncherInput& input,
                                         const SchedulerOptions& options,
                                         const std::vector<Artifact>& launcher) {
  const auto script = absl::c_find_if(
      launcher, [](const Artifact& artifact) { return artifact.name == "launch.sh"; });
  if (script == launcher.end()) return absl::InternalError("The launcher has no launch.sh.");
  switch (options.scheduler) {
    case Scheduler::kSlurm:
      return RenderSlurm(input, options);
    case Scheduler::kJobSet:
      return RenderJobSet(input, options, *script);
    case Scheduler::kVolcano:
      return RenderVolcano(input, options, *script);
  }
  return absl::InternalError("The scheduler has no renderer.");
}

std::vector<std::string> SubmitCommand(Scheduler scheduler) {
  switch (scheduler) {
    case Scheduler::kSlurm:
      return {"sbatch", "{}/job.sbatch", "{}"};
    case Scheduler::kJobSet:
      return {"kubectl", "apply", "--server-side", "--filename", "{}/jobset.yaml"};
    case Scheduler::kVolcano:
      return {"kubectl", "apply", "--server-side", "--filename", "{}/volcano.yaml"};
  }
  return {};
}

}  // namespace hapmoe::engine
