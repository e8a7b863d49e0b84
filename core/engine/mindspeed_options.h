// A job under a plan as the arguments of MindSpeed-LLM, which differ from Megatron-LM's.
#ifndef HAPMOE_CORE_ENGINE_MINDSPEED_OPTIONS_H_
#define HAPMOE_CORE_ENGINE_MINDSPEED_OPTIONS_H_

#include "core/base/violation.h"
#include "core/engine/arguments.h"
#include "core/engine/rendered_arguments.h"
#include "core/plan/plan.h"

namespace hapmoe::engine {

// What of a job MindSpeed-LLM c77308a1 on Megatron-LM core_v0.12.1 does not take:
// "mindspeed_knows_option" (it would stop on every process), "mindspeed_layer_pattern",
// "mindspeed_context_communication".
Violations CheckMindSpeedOptions(const Arguments& arguments);

// As PlanArguments, for a plan that keeps the rules of plan::kMindSpeedLlm. Assumes a job without
// violations of CheckMindSpeedOptions.
PlannedArguments PlanMindSpeedArguments(const Arguments& arguments, const plan::Plan& plan);

}  // namespace hapmoe::engine

#endif  // HAPMOE_CORE_ENGINE_MINDSPEED_OPTIONS_H_
