#include "core/engine/schedulers/scheduler_options.h"

#include <algorithm>

#include "core/engine/schedulers/words.h"

namespace hapmoe::engine {

absl::string_view SchedulerName(Scheduler scheduler) {
  switch (scheduler) {
    case Scheduler::kSlurm:
      return "slurm";
    case Scheduler::kJobSet:
      return "jobset";
    case Scheduler::kVolcano:
      return "volcano";
  }
  return "";
}

std::optional<Scheduler> ParseScheduler(absl::string_view name) {
  for (const Scheduler scheduler : {Scheduler::kSlurm, Scheduler::kJobSet, Scheduler::kVolcano}) {
    if (name == SchedulerName(scheduler)) return scheduler;
  }
  return std::nullopt;
}

std::vector<std::string> SchedulerNames() { return {"slurm", "jobset", "volcano"}; }

const std::string& ImageOf(const SchedulerOptions& options, int64_t pool) {
  const std::string& own = options.pools[static_cast<size_t>(pool)].image;
  return own.empty() ? options.image : own;
}

int64_t RestartsOf(const SchedulerOptions& options, const Arguments& arguments) {
  if (options.max_restarts.has_value()) return *options.max_restarts;
  const Argument* save = arguments.Find("save");
  const Argument* load = arguments.Find("load");
  // A job that is told to forget its optimizer or its iteration is started from a checkpoint of
  // another job, and would do so again.
  const bool resumes = save != nullptr && load != nullptr && save->values == load->values &&
                       arguments.Find("no_load_optim") == nullptr &&
                       arguments.Find("finetune") == nullptr;
  return resumes ? options.restarts_of_resuming_jobs : 0;
}

std::string SignalOf(const SchedulerOptions& options, const Arguments& arguments) {
  if (!options.signal.empty()) return options.signal;
  const bool saves =
      arguments.Find("exit_signal_handler") != nullptr && arguments.Find("exit_signal") == nullptr;
  return saves ? options.signal_of_saving_jobs : "";
}

}  // namespace hapmoe::engine
