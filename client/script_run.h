// What both ways to read a script share: what is asked, what is answered, and how launches are put
// together.
#ifndef HAPMOE_CLIENT_SCRIPT_RUN_H_
#define HAPMOE_CLIENT_SCRIPT_RUN_H_

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/launch.h"

namespace hapmoe::client {

struct ScriptRequest {
  std::string script;  // A path, as the user would give it to bash.
  std::vector<std::string> arguments;
  std::vector<std::string> environment;  // NAME=VALUE
  std::string home = "/tmp";             // Value of HOME; an empty directory for the script.
};

// What became of a reading.
struct ScriptRun {
  std::vector<Launch> launches;    // In order; a launch that repeats another is left out.
  std::vector<std::string> notes;  // What a reader should know: programs missing, limits passed.
};

// The environment that a script starts in, as NAME=VALUE: what the request says, and where the
// script has #SBATCH lines, what Slurm would set.
std::vector<std::string> InitialEnvironment(const ScriptRequest& request, absl::string_view text);

std::string MissingProgramsNote(const std::set<std::string>& programs);

class LaunchList {
 public:
  // Takes a launch apart and keeps it, but for what repeats another one or trains nothing.
  // `environment` is all that is exported. False when there are more than any honest script has.
  bool Add(const std::string& program, absl::Span<const std::string> words,
           const std::map<std::string, std::string>& environment);

  std::vector<Launch> Take() { return std::move(launches_); }

 private:
  std::vector<Launch> launches_;
  size_t count_ = 0;
};

}  // namespace hapmoe::client

#endif  // HAPMOE_CLIENT_SCRIPT_RUN_H_
