// One launch of a training script: what a launcher program was called with, taken apart.
#ifndef HAPMOE_CLIENT_LAUNCH_H_
#define HAPMOE_CLIENT_LAUNCH_H_

#include <map>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace hapmoe::client {

struct Launch {
  std::string program;                             // "torchrun", "python", ...
  std::vector<std::string> launcher_options;       // What the launcher itself takes.
  std::string entry;                               // The training script.
  std::vector<std::string> arguments;              // What the training script gets.
  std::map<std::string, std::string> environment;  // What the script exported.
};

// Takes the words of a launcher's command line apart: torchrun and its kin, python, accelerate,
// deepspeed. `words` excludes the program. The entry is empty where none is found. Pure.
Launch TakeApart(const std::string& program, absl::Span<const std::string> words);

}  // namespace hapmoe::client

#endif  // HAPMOE_CLIENT_LAUNCH_H_
