#include "tests/fuzz/targets.h"

namespace hapmoe::fuzz {

absl::Span<const Target> Targets() {
  static constexpr Target kTargets[] = {
      {"arguments", ReadArguments},
      {"argument_text", ReadArgumentText},
      {"cluster_file", ReadClusterFile},
      {"scheduler_file", ReadSchedulerFile},
      {"measured_files", ReadMeasuredFiles},
      {"layer_times", ReadLayerTimes},
      {"script", ReadScript},
      {"flagscale", ReadFlagScale},
      {"plan_request", ReadPlanRequests},
      {"profile", ReadProfile},
  };
  return kTargets;
}

const Target* FindTarget(absl::string_view name) {
  for (const Target& target : Targets()) {
    if (name == target.name) return &target;
  }
  return nullptr;
}

}  // namespace hapmoe::fuzz
