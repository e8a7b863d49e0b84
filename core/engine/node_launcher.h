// launch.sh, hostfile and rankfile of engines that torchrun starts node by node.
#ifndef HAPMOE_CORE_ENGINE_NODE_LAUNCHER_H_
#define HAPMOE_CORE_ENGINE_NODE_LAUNCHER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/engine/launcher_input.h"
#include "core/engine/rendered_arguments.h"

namespace hapmoe::engine {

// What every process runs.
struct NodeProgram {
  std::string engine;          // Its name for people: letters, digits, blanks and dashes.
  std::string entry;           // The program that torchrun starts.
  PlannedArguments arguments;  // Of every process.
  // Lines of bash that may change job_arguments; they stand where options are read, and must pass
  // shellcheck there.
  std::string preparation = {};
};

// Checks that the plan has stages with one set of degrees and of virtual stages, that the nodes are
// its own, and that no word, host or variable breaks out of the files. InvalidArgument.
absl::Status CheckNodeInput(const LauncherInput& input);

// launch.sh starts one node's processes with torchrun (static rendezvous). Every word that comes
// from outside stands between single quotes: no argument, value, host or entry can be anything but
// data. Where recomputation differs between stages it is chosen by node, or by process where a node
// hosts stages that differ.
//
// Assumes CheckNodeInput(input).
std::vector<Artifact> RenderNodeLauncher(const LauncherInput& input, const NodeProgram& program);

// The entry of a job for torchrun, which would read a leading dash as an option of its own.
std::string EntryWord(const LauncherInput& input);

// Variables of bash, of torchrun and of the launcher itself, which nobody else may set.
bool IsReservedVariable(absl::string_view name);

inline constexpr int64_t kMaxRankFileRanks = 4096;

}  // namespace hapmoe::engine

#endif  // HAPMOE_CORE_ENGINE_NODE_LAUNCHER_H_
