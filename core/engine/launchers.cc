#include "core/engine/launchers.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/engine/bridge_launcher.h"
#include "core/engine/bridge_overrides.h"
#include "core/engine/flagscale_launcher.h"
#include "core/engine/flagscale_options.h"
#include "core/engine/megatron_launcher.h"
#include "core/engine/mindspeed_launcher.h"
#include "core/engine/mindspeed_options.h"
#include "core/engine/primus_launcher.h"
#include "core/engine/primus_options.h"
#include "core/plan/engine_traits.h"

namespace hapmoe::engine {
namespace {

struct Launcher {
  absl::string_view engine;
  absl::StatusOr<std::vector<Artifact>> (*render)(const LauncherInput&);
  Violations (*check)(const Arguments&);  // Null: nothing of its own.
  // Whether values can be written in the engine's own language; null where it takes words.
  absl::Status (*translate)(const Arguments&, const plan::Plan&) = nullptr;
};

template <typename Overrides,
          absl::StatusOr<Overrides> (*overrides)(const Arguments&, const plan::Plan&)>
absl::Status Translate(const Arguments& arguments, const plan::Plan& plan) {
  return overrides(arguments, plan).status();
}

// Enough of a plan to translate the job's own options.
plan::Plan SmallestPlan() {
  plan::Plan plan;
  plan::Stage stage;
  stage.chunks.emplace_back();
  plan.meshes.push_back({.pool = 0, .degrees = {}, .stages = {stage}});
  return plan;
}

const Launcher* FindLauncher(absl::string_view engine) {
  // Not constexpr: under sanitizers GCC takes no name's address for a constant.
  static const Launcher kLaunchers[] = {
      {plan::kMegatronLm, RenderMegatronLauncher, nullptr},
      {plan::kMegatronBridge, RenderBridgeLauncher, nullptr,
       Translate<BridgeOverrides, BridgeOverridesOf>},
      {plan::kPrimus, RenderPrimusLauncher, CheckPrimusOptions,
       Translate<PrimusOverrides, PrimusOverridesOf>},
      {plan::kMindSpeedLlm, RenderMindSpeedLauncher, CheckMindSpeedOptions},
      {plan::kFlagScale, RenderFlagScaleLauncher, CheckFlagScaleOptions},
  };
  for (const Launcher& launcher : kLaunchers) {
    if (launcher.engine == engine) return &launcher;
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<std::vector<Artifact>> RenderLauncher(const LauncherInput& input) {
  const Launcher* launcher = FindLauncher(input.plan.engine);
  if (launcher == nullptr) {
    return absl::InternalError(absl::StrCat("no launcher is written for ", input.plan.engine));
  }
  return launcher->render(input);
}

Violations CheckEngineOptions(absl::string_view engine, const Arguments& arguments) {
  const Launcher* launcher = FindLauncher(engine);
  if (launcher == nullptr) return {};
  Violations violations;
  if (launcher->check != nullptr) violations = launcher->check(arguments);
  if (launcher->translate == nullptr) return violations;
  if (const absl::Status status = launcher->translate(arguments, SmallestPlan()); !status.ok()) {
    violations.push_back(
        {"engine_takes_value", "job.megatron_args", std::string(status.message())});
  }
  return violations;
}

std::vector<std::string> LauncherNotes(const Arguments& arguments, const plan::Plan& plan,
                                       const plan::NodeAssignment& nodes) {
  std::vector<std::string> notes;
  const JobOptions options = plan.engine == plan::kFlagScale ? FlagScaleOptions(arguments, plan)
                                                             : OptionsThatStay(arguments, plan);
  for (const Withdrawn& option : options.withdrawn) {
    notes.push_back(absl::StrCat(option.flag, " is left out: ", option.reason));
  }
  if (plan.engine == plan::kMegatronBridge) {
    const auto overrides = BridgeOverridesOf(arguments, plan);
    if (overrides.ok() && !overrides->beyond_recipe.empty()) {
      notes.push_back(
          absl::StrCat("launch.sh needs BRIDGE_RECIPE, a recipe of this model: ", kBridgeRecipe,
                       " cannot be it, for ", absl::StrJoin(overrides->beyond_recipe, "; "), "."));
    }
  }
  if (plan::FindEngine(plan.engine)->starts_other_hosts && !nodes.hosts_named) {
    notes.push_back(absl::StrCat(
        "The cluster names no hosts for every pool, and launch.sh reaches all of them over ssh: "
        "name them, or put them into the hostfile in place of ",
        nodes.nodes.front().host, " and the like."));
  }
  return notes;
}

}  // namespace hapmoe::engine
