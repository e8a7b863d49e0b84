// Plans that schedulers are tested with, and how to render one.
#ifndef HAPMOE_TESTS_CORE_ENGINE_SCHEDULERS_SCHEDULER_CASES_H_
#define HAPMOE_TESTS_CORE_ENGINE_SCHEDULERS_SCHEDULER_CASES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/engine/schedulers/scheduler_options.h"
#include "core/engine/schedulers/schedulers.h"
#include "tests/core/engine/launcher_cases.h"

namespace hapmoe::engine {

// One pool; two types of one vendor; two vendors; nodes of unequal size; named hosts of a pool to
// which the pipeline returns, and stages that are started by process.
std::vector<LauncherCase> SchedulerCases();

// A case for each further engine whose launcher runs on every node.
std::vector<LauncherCase> EngineCases();

// The case of LauncherCases with this name.
LauncherCase LauncherCaseOf(const std::string& name);

// What a site would say for all of them, for the pools of one of them.
SchedulerOptions OptionsFor(Scheduler scheduler, const cluster::Cluster& cluster);

// The launcher's files and, last, the scheduler's.
absl::StatusOr<RenderedCase> RenderWithScheduler(const LauncherCase& launcher_case,
                                                 const SchedulerOptions& options);

}  // namespace hapmoe::engine

#endif  // HAPMOE_TESTS_CORE_ENGINE_SCHEDULERS_SCHEDULER_CASES_H_
