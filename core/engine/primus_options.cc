#include "core/engine/primus_options.h"

#include <cstdint>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "core/base/status_macros.h"
#include "core/engine/value_translation.h"

namespace hapmoe::engine {
namespace {

bool IsMissing(absl::string_view dest) {
  static const auto& missing = *new absl::flat_hash_set<absl::string_view>{
#include "core/engine/primus_missing_options.inc"
  };
  return missing.contains(dest);
}

// An option that Primus' presets set to something else than Megatron-LM's default.
struct Preset {
  absl::string_view dest;
  absl::string_view value;  // Megatron-LM's, as YAML.
};
constexpr Preset kPresets[] = {
#include "core/engine/primus_presets.inc"
};

// Attributes that the newest Megatron-LM calls otherwise than Primus'.
std::string KeyOf(absl::string_view dest) {
  if (dest == "layernorm_epsilon") return "norm_epsilon";
  if (dest == "layernorm_zero_centered_gamma") return "apply_layernorm_1p";
  if (dest == "use_gloo_process_groups") return "enable_gloo_process_groups";
  return std::string(dest);
}

// A float that YAML 1.1 reads as one: with a point, and with a sign in the exponent.
std::string Float(absl::string_view text) {
  const size_t e = text.find_first_of("eE");
  std::string mantissa(text.substr(0, e));
  if (!absl::StrContains(mantissa, '.')) mantissa += ".0";
  if (e == absl::string_view::npos) return mantissa;
  const absl::string_view exponent = text.substr(e + 1);
  const bool sign = absl::StartsWith(exponent, "-") || absl::StartsWith(exponent, "+");
  return absl::StrCat(mantissa, "e", sign ? "" : "+", exponent);
}

absl::StatusOr<std::string> Scalar(const Argument& argument, const std::string& text) {
  int64_t integer = 0;
  if (argument.option->type == ValueType::kInt && ParsePythonInt(text, &integer)) {
    return absl::StrCat(integer);
  }
  if (argument.option->type == ValueType::kFloat && IsPlainFloat(text)) {
    return Float(text);
  }
  // A frequency is a number, a pattern text.
  if (argument.option->type == ValueType::kLayerPattern && ParsePythonInt(text, &integer)) {
    return absl::StrCat(integer);
  }
  if (absl::StrContains(text, "${") ||
      absl::c_any_of(text, [](unsigned char c) { return c < ' ' || c == 127; })) {
    return absl::InvalidArgumentError(absl::StrCat(
        "The value of ", argument.flag, " holds what Primus would read: ", Quoted(text)));
  }
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "''"}}), "'");
}

// As words of Primus' command line, which reads numbers and lists of Python.
Words RecomputeOverrides(const Words& options) {
  Words words;
  for (size_t i = 0; i < options.size(); ++i) {
    const std::string key = absl::StrReplaceAll(options[i].substr(2), {{"-", "_"}});
    if (key == "distribute_saved_activations") {
      words.push_back(absl::StrCat(key, "=true"));
    } else if (key == "recompute_modules") {
      const std::vector<std::string> modules(options.begin() + static_cast<long>(i) + 1,
                                             options.end());
      words.push_back(absl::StrCat(key, "=['", absl::StrJoin(modules, "','"), "']"));
      break;
    } else if (i + 1 < options.size()) {
      words.push_back(absl::StrCat(key, "=", options[++i]));
    }
  }
  return words;
}

}  // namespace

Violations CheckPrimusOptions(const Arguments& arguments) {
  Violations violations;
  for (const Argument& argument : arguments.all()) {
    if (arguments.Find(argument.option->dest) != &argument) continue;
    if (IsReplacedByPlan(argument.option->dest) || !IsMissing(argument.option->dest)) continue;
    violations.push_back(
        {"primus_knows_option", argument.flag,
         absl::StrCat("The Megatron-LM of Primus fd1eeabb is not known to take ", argument.flag,
                      ", and Primus drops what it does not know; leave it out for "
                      "this engine.")});
  }
  return violations;
}

absl::StatusOr<PrimusOverrides> PrimusOverridesOf(const Arguments& arguments,
                                                  const plan::Plan& plan) {
  PlannedArguments planned = PlanArguments(arguments, plan);
  PrimusOverrides result;
  result.withdrawn = std::move(planned.withdrawn);
  result.stage_recompute = std::move(planned.stage_recompute);
  absl::flat_hash_set<std::string> said;
  const auto add = [&said](const Argument& argument,
                           std::vector<PrimusOverride>& to) -> absl::Status {
    HAPMOE_ASSIGN_OR_RETURN(std::string value, TranslatedValue(argument, Scalar, ", "));
    const std::string key = KeyOf(argument.option->dest);
    said.insert(key);
    to.emplace_back(key, std::move(value));
    return absl::OkStatus();
  };
  for (const Words& words : planned.job) {
    const Argument argument = ArgumentOf(words);
    // A key stands once: of an option that is repeated the last one counts.
    if (said.contains(KeyOf(argument.option->dest))) continue;
    HAPMOE_RETURN_IF_ERROR(add(*arguments.Find(argument.option->dest), result.job));
  }
  for (const Words& words : planned.plan) {
    HAPMOE_RETURN_IF_ERROR(add(ArgumentOf(words), result.plan));
  }
  const PrimusOverride rest[] = {
      {"sequence_parallel", "false"},
      {"micro_batch_size", absl::StrCat(plan.micro_batch)},
      {"global_batch_size", absl::StrCat(plan.global_batch)},
  };
  for (const PrimusOverride& one : rest) {
    if (said.insert(one.first).second) result.plan.push_back(one);
  }
  // Primus writes neither log unless it is told to.
  if (arguments.Find("tensorboard_dir") != nullptr) {
    result.job.emplace_back("disable_tensorboard", "false");
  }
  if (arguments.Find("wandb_project") != nullptr) result.job.emplace_back("disable_wandb", "false");
  for (const Preset& preset : kPresets) {
    if (said.contains(KeyOf(preset.dest))) continue;
    result.presets.emplace_back(KeyOf(preset.dest), std::string(preset.value));
  }
  for (const Words& words : planned.recompute) {
    result.recompute.push_back(RecomputeOverrides(words));
  }
  return result;
}

}  // namespace hapmoe::engine
