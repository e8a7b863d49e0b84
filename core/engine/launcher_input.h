// What every engine's launcher is written from, and what it consists of.
#ifndef HAPMOE_CORE_ENGINE_LAUNCHER_INPUT_H_
#define HAPMOE_CORE_ENGINE_LAUNCHER_INPUT_H_

#include <string>
#include <vector>

#include "core/cluster/cluster.h"
#include "core/engine/arguments.h"
#include "core/plan/node_assignment.h"
#include "core/plan/plan.h"

namespace hapmoe::engine {

// A file to run or to read.
struct Artifact {
  std::string name;  // Relative file name.
  std::string description;
  std::string content;
  bool executable = false;
  bool read_at_start = false;  // By launch.sh, which looks for it in its own folder.
};

struct EnvironmentVariable {
  std::string name;     // Upper case letters, digits and '_'.
  std::string value;    // Any bytes but NUL.
  bool forced = false;  // Set whatever the caller of the script has set; otherwise his value wins.
};

// What the processes on one pool's accelerators need.
struct PoolEnvironment {
  // Megatron-LM wants CUDA_DEVICE_MAX_CONNECTIONS=1 here with tp > 1 or cp > 1: NVIDIA before
  // Blackwell, and AMD. The launcher sets it where the job's options ask for it; an entry of that
  // name in `variables` is only the default where they do not.
  bool single_connection = true;
  std::vector<EnvironmentVariable> variables;
  std::string visible_devices = {};  // The variable that lists a process's accelerators.
};

// Something that the nodes must have beside the published engine.
struct EngineRequirement {
  std::string backend;  // What the user confirms, "flagcx".
  std::string needs;    // Continues "The plan needs ".
};

// What the user confirms, the backends joined by ','; empty where nothing is required.
std::string ConfirmedBackends(const std::vector<EngineRequirement>& requirements);
// The sentence that asks for it.
std::string ConfirmationText(const std::vector<EngineRequirement>& requirements);

// Everything that a launcher depends on. References must outlive the call.
struct LauncherInput {
  const Arguments& arguments;
  const plan::Plan& plan;
  const cluster::Cluster& cluster;
  const plan::NodeAssignment& nodes;  // AssignNodes(plan, cluster).
  std::string entry = "pretrain_gpt.py";
  std::vector<PoolEnvironment> environments;  // By pool; missing ones are default.
  std::vector<EngineRequirement>
      requirements;          // All must be confirmed; the backends joined by ','.
  std::string backend = {};  // Of collectives, where the engine is told; empty for its default.
};

}  // namespace hapmoe::engine

#endif  // HAPMOE_CORE_ENGINE_LAUNCHER_INPUT_H_
