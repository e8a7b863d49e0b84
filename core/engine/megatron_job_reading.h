// The steps of ParseMegatronJob; use megatron_job.h.
#ifndef HAPMOE_CORE_ENGINE_MEGATRON_JOB_READING_H_
#define HAPMOE_CORE_ENGINE_MEGATRON_JOB_READING_H_

#include "core/base/violation.h"
#include "core/engine/megatron_job.h"
#include "core/engine/option_values.h"

namespace hapmoe::engine {

// Each fills its part of the job. Model comes first: the others read it.
void ReadModel(OptionValues& values, MegatronJob& job, Violations& violations);
void ReadTraining(OptionValues& values, MegatronJob& job);
void ReadParallel(OptionValues& values, MegatronJob& job);

// Options that contradict each other whatever the plan, and features that cannot be costed.
void CheckOptions(const OptionValues& values, const MegatronJob& job, Violations& violations);

}  // namespace hapmoe::engine

#endif  // HAPMOE_CORE_ENGINE_MEGATRON_JOB_READING_H_
