#include "core/engine/primus_launcher.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/engine/node_launcher.h"
#include "core/engine/primus_options.h"

namespace hapmoe::engine {
namespace {

constexpr char kConfiguration[] = R"BASH(
# The configuration lies beside this script, on every node.
primus_yaml=$(CDPATH="" cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)/primus.yaml
[[ -f $primus_yaml ]] || die "$primus_yaml is missing; it belongs to this script."
plan_arguments=(--config "$primus_yaml")
)BASH";

void Append(const std::vector<PrimusOverride>& overrides, std::string& text) {
  for (const auto& [key, value] : overrides) {
    absl::StrAppend(&text, "      ", key, ": ", value, "\n");
  }
}

std::string Configuration(const PrimusOverrides& overrides) {
  std::string text =
      "# Written by HAPMoE for launch.sh. Keys are Megatron-LM's options.\n"
      "work_group: hapmoe\n"
      "user_name: hapmoe\n"
      "exp_name: hapmoe\n"
      "workspace: ./output\n"
      "\n"
      "modules:\n"
      "  pre_trainer:\n"
      "    framework: megatron\n"
      "    config: pre_trainer.yaml\n"
      "    model: language_model.yaml\n"
      "    overrides:\n";
  if (!overrides.presets.empty()) {
    absl::StrAppend(&text, "      # Megatron-LM's defaults, where Primus' presets are others.\n");
    Append(overrides.presets, text);
  }
  absl::StrAppend(&text, "      # The job's own options.\n");
  Append(overrides.job, text);
  absl::StrAppend(&text, "      # The plan's.\n");
  Append(overrides.plan, text);
  return text;
}

}  // namespace

absl::StatusOr<std::vector<Artifact>> RenderPrimusLauncher(const LauncherInput& input) {
  HAPMOE_RETURN_IF_ERROR(CheckNodeInput(input));
  const Violations violations = CheckPrimusOptions(input.arguments);
  if (!violations.empty()) return absl::InvalidArgumentError(violations.front().message);
  HAPMOE_ASSIGN_OR_RETURN(PrimusOverrides overrides,
                          PrimusOverridesOf(input.arguments, input.plan));
  std::string configuration = Configuration(overrides);
  NodeProgram program{"Primus", "primus/cli/main.py", {}, kConfiguration};
  program.arguments.job = {{"train", "pretrain"}};
  program.arguments.recompute = std::move(overrides.recompute);
  program.arguments.stage_recompute = std::move(overrides.stage_recompute);
  program.arguments.withdrawn = std::move(overrides.withdrawn);
  std::vector<Artifact> artifacts = RenderNodeLauncher(input, program);
  artifacts.insert(artifacts.begin() + 1,
                   {"primus.yaml", "Primus' configuration of the job under the plan.",
                    std::move(configuration), /*executable=*/false, /*read_at_start=*/true});
  return artifacts;
}

}  // namespace hapmoe::engine
