// What Slurm sets for what it starts, as its options say.
#ifndef HAPMOE_CLIENT_SLURM_OPTIONS_H_
#define HAPMOE_CLIENT_SLURM_OPTIONS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace hapmoe::client {

// Words of the #SBATCH lines before the first command of a batch script.
std::vector<std::string> BatchDirectives(absl::string_view script);

// Variables that sbatch and srun set for their options: numbers of nodes and tasks, and others that
// scripts compute with. The first node is called localhost, and the present task is the first.
// Options that come later count. The words of a command that follows must not be among them.
std::map<std::string, std::string> SlurmVariables(absl::Span<const std::string> options);

// The number of tasks that srun starts with these variables; 0 where they do not say.
int64_t SlurmTasks(const std::map<std::string, std::string>& variables);

}  // namespace hapmoe::client

#endif  // HAPMOE_CLIENT_SLURM_OPTIONS_H_
