// Finds out what a launch script launches, by running it where it can do nothing else.
//
// The script is run by bash in a sandbox (bubblewrap) with an empty environment. It sees the files
// of its own directory and of the current one, hidden ones left out, read-only; what it writes goes
// to small file systems in memory. It has no network, no devices, and a limit on time, processes
// and memory. Launchers, Python and cluster commands are stubs that record how they were called; of
// the real programs only the likes of sed are there.
#ifndef HAPMOE_CLIENT_SCRIPT_CAPTURE_H_
#define HAPMOE_CLIENT_SCRIPT_CAPTURE_H_

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/launch.h"
#include "client/script_run.h"
#include "client/supervised_process.h"

namespace hapmoe::client {

class ScriptCapture {
 public:
  explicit ScriptCapture(ProcessLimits limits = {}) : limits_(limits) {}

  // INVALID_ARGUMENT: the script cannot be read. UNAVAILABLE: there is no bash or no sandbox here,
  // and what to do instead. A script that fails or passes a limit is a result, with a note.
  absl::StatusOr<ScriptRun> Run(const ScriptRequest& request) const;

 private:
  ProcessLimits limits_;
};

// Puts the lines that stubs write together to launches.
class LaunchRecorder {
 public:
  // Takes some more of what was written. False when there is more than any honest script writes.
  bool Feed(absl::string_view text);

  std::vector<Launch> TakeLaunches() { return launches_.Take(); }
  const std::set<std::string>& missing_programs() const { return missing_; }

 private:
  // A launch of which not all lines have come.
  struct Partial {
    std::string program;
    std::vector<std::string> words;
    std::vector<std::string> environment;
    std::string* last = nullptr;
  };

  void TakeLine(absl::string_view line);
  bool Finish(const Partial& partial);

  std::string pending_;
  size_t bytes_ = 0;
  bool full_ = false;
  std::map<std::string, Partial> partial_;
  LaunchList launches_;
  std::set<std::string> missing_;
};

}  // namespace hapmoe::client

#endif  // HAPMOE_CLIENT_SCRIPT_CAPTURE_H_
