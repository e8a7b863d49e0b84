// What a plan must satisfy to run on FlagScale, which gives every stage degrees of its own.
//
// Snapshot FlagOpen/FlagScale da4935ec (2025-11-13) with its patches on NVIDIA/Megatron-LM
// 8479eb35. Its own checks let plans through that hang or train another model, so some rules are
// stricter than the engine; their names start with "flagscale_safe".
#ifndef HAPMOE_CORE_PLAN_FLAGSCALE_RULES_H_
#define HAPMOE_CORE_PLAN_FLAGSCALE_RULES_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "core/base/violation.h"
#include "core/model/training_spec.h"
#include "core/model/transformer_spec.h"
#include "core/plan/plan.h"

namespace hapmoe::plan {

// Where in the pipeline a stage stands, which decides what its degrees may be.
struct StagePosition {
  bool first = false;
  bool last = false;
};

// The rule that a stage with these degrees breaks whatever the other stages are; empty for none.
absl::string_view BrokenFlagScaleStageRule(const model::TransformerSpec& model,
                                           const Degrees& degrees, StagePosition position);

// Stages with these degrees may be in one plan.
bool FlagScaleDegreesMix(const model::TransformerSpec& model, const Degrees& a, const Degrees& b);

// The first and the last stage may have these degrees.
bool FlagScaleEndsMatch(const model::TransformerSpec& model, const Degrees& first,
                        const Degrees& last);

// Every rule that does not depend on degrees: what the job itself asks for.
Violations CheckFlagScaleJob(const model::TransformerSpec& model,
                             const model::TrainingSpec& training);

// Every rule, on a whole plan.
Violations CheckFlagScalePlan(const model::TransformerSpec& model,
                              const model::TrainingSpec& training, const Plan& plan);

}  // namespace hapmoe::plan

#endif  // HAPMOE_CORE_PLAN_FLAGSCALE_RULES_H_
