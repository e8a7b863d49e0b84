// A job under a plan as Primus' configuration: keys of its YAML, and what processes add to it.
#ifndef HAPMOE_CORE_ENGINE_PRIMUS_OPTIONS_H_
#define HAPMOE_CORE_ENGINE_PRIMUS_OPTIONS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/violation.h"
#include "core/engine/arguments.h"
#include "core/engine/rendered_arguments.h"
#include "core/plan/plan.h"

namespace hapmoe::engine {

// A key of modules.pre_trainer.overrides and its value as YAML.
using PrimusOverride = std::pair<std::string, std::string>;

struct PrimusOverrides {
  std::vector<PrimusOverride> presets;  // Of Primus', set back to Megatron-LM's defaults.
  std::vector<PrimusOverride> job;
  std::vector<PrimusOverride> plan;
  // Of the command line, "key=value", by kind of recomputation as in PlannedArguments.
  std::vector<Words> recompute;
  std::vector<int64_t> stage_recompute;
  std::vector<Withdrawn> withdrawn;
};

// Options of the job that Primus fd1eeabb is not known to take: it would drop them without a word.
// "primus_knows_option".
Violations CheckPrimusOptions(const Arguments& arguments);

// Fails with InvalidArgument if a value holds "${", which Primus reads, or a control character.
absl::StatusOr<PrimusOverrides> PrimusOverridesOf(const Arguments& arguments,
                                                  const plan::Plan& plan);

}  // namespace hapmoe::engine

#endif  // HAPMOE_CORE_ENGINE_PRIMUS_OPTIONS_H_
