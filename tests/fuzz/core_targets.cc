#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "core/engine/megatron_job.h"
#include "core/engine/megatron_job_checks.h"
#include "tests/fuzz/expect.h"
#include "tests/fuzz/targets.h"

namespace hapmoe::fuzz {

// A job without a fault has a layout, which holds all its layers.
void ReadArguments(absl::string_view input) {
  const std::vector<std::string> argv = absl::StrSplit(input, '\n', absl::SkipEmpty());
  Violations violations;
  const engine::MegatronJob job = engine::ParseMegatronJob(argv, violations);
  for (const int64_t world_size : {int64_t{1}, int64_t{8}, int64_t{48}, int64_t{4096}}) {
    const Violations more = engine::CheckMegatronJob(job, {.world_size = world_size});
    if (!violations.empty() || !more.empty()) continue;
    const plan::Plan plan = engine::PlanFromJob(job, world_size);
    Expect(plan.world_size() == world_size);
    int64_t layers = 0;
    for (const plan::Stage& stage : plan.meshes[0].stages) layers += stage.layers();
    Expect(layers == job.model.layers);
  }
}

}  // namespace hapmoe::fuzz
