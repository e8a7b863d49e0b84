#include "client/slurm_options.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace hapmoe::client {
namespace {

struct SlurmOption {
  const char* short_name;
  const char* long_name;
  const char* variables;  // Separated by spaces.
};

constexpr SlurmOption kOptions[] = {
    {"-N", "--nodes", "SLURM_NNODES SLURM_JOB_NUM_NODES"},
    {"-n", "--ntasks", "SLURM_NTASKS SLURM_NPROCS"},
    {"", "--ntasks-per-node", "SLURM_NTASKS_PER_NODE"},
    {"", "--gpus-per-node", "SLURM_GPUS_PER_NODE"},
    {"-c", "--cpus-per-task", "SLURM_CPUS_PER_TASK"},
    {"-J", "--job-name", "SLURM_JOB_NAME"},
};

int64_t NumberOf(const std::map<std::string, std::string>& variables, const char* name) {
  const auto it = variables.find(name);
  int64_t number = 0;
  if (it == variables.end() || !absl::SimpleAtoi(it->second, &number) || number < 1) return 0;
  return number;
}

}  // namespace

std::vector<std::string> BatchDirectives(absl::string_view script) {
  std::vector<std::string> words;
  for (absl::string_view line : absl::StrSplit(script, '\n')) {
    if (absl::ConsumePrefix(&line, "#SBATCH")) {
      line = line.substr(0, line.find(" #"));
      for (const absl::string_view word :
           absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty())) {
        words.emplace_back(word);
      }
    } else if (!absl::StripLeadingAsciiWhitespace(line).empty() &&
               !absl::StartsWith(absl::StripLeadingAsciiWhitespace(line), "#")) {
      break;
    }
  }
  return words;
}

std::map<std::string, std::string> SlurmVariables(absl::Span<const std::string> options) {
  std::map<std::string, std::string> variables = {
      {"SLURM_JOB_ID", "1"},  {"SLURM_JOBID", "1"},  {"SLURM_JOB_NODELIST", "localhost"},
      {"SLURM_NODEID", "0"},  {"SLURM_PROCID", "0"}, {"SLURM_NODELIST", "localhost"},
      {"SLURM_LOCALID", "0"},
  };
  for (size_t i = 0; i < options.size(); ++i) {
    const absl::string_view word = options[i];
    for (const SlurmOption& option : kOptions) {
      absl::string_view value = word;
      const absl::string_view short_name = option.short_name;
      if (word == option.long_name || (!short_name.empty() && word == short_name)) {
        value = i + 1 < options.size() ? absl::string_view(options[i + 1]) : "";
      } else if (!absl::ConsumePrefix(&value, absl::StrCat(option.long_name, "=")) &&
                 (short_name.empty() || !absl::ConsumePrefix(&value, short_name))) {
        continue;
      }
      // "2-4" nodes are at least 2; "gpu:8" are 8.
      if (absl::StrContains(option.variables, "NODES")) value = value.substr(0, value.find('-'));
      if (absl::StrContains(option.variables, "GPUS")) value = value.substr(value.rfind(':') + 1);
      if (value.empty()) continue;
      for (const absl::string_view variable : absl::StrSplit(option.variables, ' ')) {
        variables[std::string(variable)] = std::string(value);
      }
    }
  }
  return variables;
}

int64_t SlurmTasks(const std::map<std::string, std::string>& variables) {
  if (const int64_t tasks = NumberOf(variables, "SLURM_NTASKS"); tasks > 0) return tasks;
  const int64_t nodes = NumberOf(variables, "SLURM_NNODES");
  const int64_t each = NumberOf(variables, "SLURM_NTASKS_PER_NODE");
  return each > 0 ? nodes * each : nodes;
}

}  // namespace hapmoe::client
