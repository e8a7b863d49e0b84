// One launch of a training script: what a launcher program was called with, taken apart.
#ifndef HAPMOE_CLIENT_LAUNCH_H_
#define HAPMOE_CLIENT_LAUNCH_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace hapmoe::client {

struct Launch {
  std::string program;                        // "torchrun", "python", ...
  std::vector<std::string> launcher_options;  // What the launcher itself takes.
  std::string entry;                          // The training script.
  std::vector<std::string> arguments;         // What the training script gets.
  // Variables exported to it that matter to training (MattersToLaunch).
  std::map<std::string, std::string> environment;
  std::optional<int64_t> world_size;  // Processes in all; none where the launch does not say.
};

// Takes the words of a launcher's command line apart: torchrun and its kin, python, accelerate,
// deepspeed. `words` excludes the program. The entry is empty where none is found. Pure.
Launch TakeApart(const std::string& program, absl::Span<const std::string> words);

// The processes of a launch: nodes times processes on each as the launcher's own options say, else
// the tasks of srun or mpirun, else WORLD_SIZE or the tasks of the Slurm job. Nothing where these
// are missing, or not numbers (`--nproc_per_node gpu`, `--nnodes 1:4`). `environment` is all that
// is exported.
std::optional<int64_t> WorldSize(const Launch& launch,
                                 const std::map<std::string, std::string>& environment);

// The JSON form of a launch: program, launcher_args, entry, args, env, world_size and refusal,
// which says why hapmoe does not plan it, or is null.
std::string LaunchJson(const Launch& launch, const std::string& refusal);

}  // namespace hapmoe::client

#endif  // HAPMOE_CLIENT_LAUNCH_H_
