#include "core/engine/schedulers/schedulers.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/plan/engine_traits.h"

namespace hapmoe::engine {

absl::StatusOr<Artifact> RenderScheduler(const LauncherInput& input,
                                         const SchedulerOptions& options,
                                         const std::vector<Artifact>& launcher) {
  const plan::EngineTraits* engine = plan::FindEngine(input.plan.engine);
  if (engine == nullptr || engine->starts_other_hosts) {
    return absl::InternalError(
        absl::StrCat("launch.sh of ", input.plan.engine, " is not run on every node"));
  }
  switch (options.scheduler) {
    case Scheduler::kSlurm:
      return RenderSlurm(input, options);
    case Scheduler::kJobSet:
      return RenderJobSet(input, options, launcher);
    case Scheduler::kVolcano:
      return RenderVolcano(input, options, launcher);
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
