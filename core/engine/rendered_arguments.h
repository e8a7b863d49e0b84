// The arguments of a Megatron-LM job under a plan: the job's own, with only parallelism, layout and
// recomputation replaced.
#ifndef HAPMOE_CORE_ENGINE_RENDERED_ARGUMENTS_H_
#define HAPMOE_CORE_ENGINE_RENDERED_ARGUMENTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/engine/arguments.h"
#include "core/plan/plan.h"

namespace hapmoe::engine {

// An option of the job that Megatron-LM refuses under the plan, and is therefore left out.
struct Withdrawn {
  std::string flag;
  std::string reason;  // One sentence, of our own words only.
};

// The options of a job that stay under a plan, in the job's order.
struct JobOptions {
  std::vector<const Argument*> kept;
  std::vector<Withdrawn> withdrawn;
};

// Leaves out what the plan replaces, and, by name, what Megatron-LM refuses under it. The result
// refers to `arguments`.
JobOptions OptionsThatStay(const Arguments& arguments, const plan::Plan& plan);

// Whether the plan's dispatcher of tokens to experts is another one than the job's.
bool SetsDispatcher(const Arguments& arguments, const plan::Plan& plan);

// Options that a plan speaks for: what the job says is replaced.
bool IsReplacedByPlan(absl::string_view dest);

// One option and its values, as words of an argument list.
using Words = std::vector<std::string>;

// The option that these words are, which PlanArguments has made.
Argument ArgumentOf(const Words& words);

// The arguments of all stages, in the three parts whose concatenation is one process's list.
struct PlannedArguments {
  std::vector<Words> job;   // The job's options that stay, in their order.
  std::vector<Words> plan;  // What the plan sets: sizes, layout, batch, sequence parallelism.
  // Recomputation. Stage i takes recompute[stage_recompute[i]]; entries differ from each other, and
  // one of them may be empty.
  std::vector<Words> recompute;
  std::vector<int64_t> stage_recompute;

  std::vector<Withdrawn> withdrawn;  // In the job's order.
};

// Assumes a plan that is valid for Megatron-LM: all meshes have the same degrees, all stages the
// same number of chunks. Pure; cost linear in arguments and layers.
//
// The job's values are kept byte for byte. A single value that starts with '-' is attached to its
// option ("--lr=-1"), which argparse reads whatever the value is.
PlannedArguments PlanArguments(const Arguments& arguments, const plan::Plan& plan);

// The argument list of every process of one stage.
std::vector<std::string> RenderedArguments(const Arguments& arguments, const plan::Plan& plan,
                                           int64_t stage);

// "Et*7|t*9|t*9|t*7L": --pipeline-model-parallel-layout without groups. Virtual stage i is chunk
// i / pp of stage i % pp.
std::string LayoutArgument(const plan::Plan& plan);

}  // namespace hapmoe::engine

#endif  // HAPMOE_CORE_ENGINE_RENDERED_ARGUMENTS_H_
