#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/commands.h"
#include "client/job_request.h"
#include "client/launch.h"
#include "client/launch_kind.h"
#include "client/text.h"

namespace hapmoe::client {

ExitCode RunArgs(const Options& options, const Console& console) {
  if (options.script.empty()) {
    return ReportUsage(absl::InvalidArgumentError("args reads a script: give --script FILE"),
                       console);
  }
  absl::StatusOr<ScriptRun> run = ReadLaunches(options, console);
  if (!run.ok()) return ReportUsage(run.status(), console);
  for (const std::string& note : run->notes) {
    console.err << "hapmoe: " << options.script << ": " << Printable(note) << "\n";
  }
  std::vector<std::string> items;
  for (const Launch& launch : run->launches) items.push_back(LaunchJson(launch, RefusalOf(launch)));
  if (items.empty()) {
    console.out << "[]\n";
    return kRefused;
  }
  console.out << "[\n" << absl::StrJoin(items, ",\n") << "\n]\n";
  return kDone;
}

}  // namespace hapmoe::client
