// Which options of a Megatron-LM job FlagScale is given under a plan, and by which keys.
#ifndef HAPMOE_CORE_ENGINE_FLAGSCALE_OPTIONS_H_
#define HAPMOE_CORE_ENGINE_FLAGSCALE_OPTIONS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/violation.h"
#include "core/engine/arguments.h"
#include "core/engine/megatron_options.h"
#include "core/engine/rendered_arguments.h"
#include "core/plan/plan.h"

namespace hapmoe::engine {

// FlagScale turns a key into an option: "disable_bias_linear" becomes "--disable-bias-linear". The
// key of an option as it was written or, where the Megatron-LM that FlagScale da4935ec builds on
// does not know this spelling, of another of its spellings; empty if it knows none.
std::string FlagScaleKey(const MegatronOption& option, absl::string_view flag);

// Options of the job that this Megatron-LM does not know: it would stop on every rank. They are not
// left out for the caller, because they may shape the model. "flagscale_knows_option".
Violations CheckFlagScaleOptions(const Arguments& arguments);

// As OptionsThatStay, and without what does not run with stages of their own degrees. Of an option
// that is repeated the last one alone stays: a key stands once.
JobOptions FlagScaleOptions(const Arguments& arguments, const plan::Plan& plan);

}  // namespace hapmoe::engine

#endif  // HAPMOE_CORE_ENGINE_FLAGSCALE_OPTIONS_H_
