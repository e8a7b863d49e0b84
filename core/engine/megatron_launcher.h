// Files that start a plan on Megatron-LM: one script for all nodes, a host file and a rank file.
#ifndef HAPMOE_CORE_ENGINE_MEGATRON_LAUNCHER_H_
#define HAPMOE_CORE_ENGINE_MEGATRON_LAUNCHER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/cluster/cluster.h"
#include "core/engine/arguments.h"
#include "core/engine/rendered_arguments.h"
#include "core/plan/node_assignment.h"
#include "core/plan/plan.h"

namespace hapmoe::engine {

// A file to run or to read.
struct Artifact {
  std::string name;  // Relative file name.
  std::string description;
  std::string content;
  bool executable = false;
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

// "launch.sh", "hostfile" and, up to kMaxRankFileRanks ranks, "rankfile".
//
// launch.sh starts one node's processes with torchrun (static rendezvous). Every word that comes
// from outside stands between single quotes: no argument, value, host or entry can be anything but
// data. Where recomputation differs between stages it is chosen by node, or by process where a node
// hosts stages that differ.
//
// Fails with InvalidArgument if a word holds NUL, a host holds blanks or control characters, a
// variable's name is reserved or malformed, or the meshes of the plan have different degrees or
// chunks, which Megatron-LM cannot run.
absl::StatusOr<std::vector<Artifact>> RenderMegatronLauncher(const LauncherInput& input);

inline constexpr int64_t kMaxRankFileRanks = 4096;

// Variables of bash, of torchrun and of the launcher itself, which nobody else may set.
bool IsReservedVariable(absl::string_view name);

}  // namespace hapmoe::engine

#endif  // HAPMOE_CORE_ENGINE_MEGATRON_LAUNCHER_H_
