#include "client/script_run.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/launch_environment.h"
#include "client/slurm_options.h"

namespace hapmoe::client {
namespace {

constexpr size_t kMaxLaunches = 64;

}  // namespace

std::vector<std::string> InitialEnvironment(const ScriptRequest& request, absl::string_view text) {
  std::vector<std::string> environment = {"PATH=/usr/bin:/bin", "TERM=dumb",
                                          absl::StrCat("HOME=", request.home)};
  if (const std::vector<std::string> directives = BatchDirectives(text); !directives.empty()) {
    for (const auto& [name, value] : SlurmVariables(directives)) {
      environment.push_back(absl::StrCat(name, "=", value));
    }
  }
  environment.insert(environment.end(), request.environment.begin(), request.environment.end());
  return environment;
}

std::string MissingProgramsNote(const std::set<std::string>& programs) {
  return absl::StrCat("these programs are not known here and did nothing: ",
                      absl::StrJoin(programs, " "));
}

bool LaunchList::Add(const std::string& program, absl::Span<const std::string> words,
                     const std::map<std::string, std::string>& environment) {
  if (++count_ > kMaxLaunches) return false;
  Launch launch = TakeApart(program, words);
  // A launcher that was only asked for its version, for example.
  if (launch.entry.empty()) return true;
  const bool known = std::any_of(launches_.begin(), launches_.end(), [&launch](const Launch& l) {
    return l.entry == launch.entry && l.arguments == launch.arguments;
  });
  if (known) return true;
  launch.world_size = WorldSize(launch, environment);
  for (const auto& [name, value] : environment) {
    if (MattersToLaunch(name)) launch.environment[name] = value;
  }
  launches_.push_back(std::move(launch));
  return true;
}

}  // namespace hapmoe::client
