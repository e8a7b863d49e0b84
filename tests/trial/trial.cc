// Trials of the whole server: trial NAME..., or all but the soak without a name. See README.md
// beside this.
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/time/time.h"
#include "tests/trial/trials.h"

ABSL_FLAG(std::string, hapmoed, "", "The server's program. Empty: hapmoed beside this one.");
ABSL_FLAG(
    bool, strict, false,
    "Whether times are held to the limits of the acceptance, which only a machine that nobody "
    "else uses keeps.");
ABSL_FLAG(absl::Duration, soak, absl::Minutes(1), "How long the soak takes.");

namespace hapmoe::trial {
namespace {

struct Named {
  const char* name;
  void (*run)(const TrialOptions&, Verdict&);
};
constexpr Named kTrials[] = {
    {"overload", Overload}, {"shed", Shed},       {"cancel", Cancel},
    {"drain", Drain},       {"clock", ClockJump}, {"soak", Soak},
};

int Run(const std::string& self, const std::vector<std::string>& names) {
  TrialOptions options;
  options.program = absl::GetFlag(FLAGS_hapmoed);
  if (options.program.empty()) {
    options.program = std::filesystem::path(self).replace_filename("hapmoed").string();
  }
  options.soak = absl::ToChronoSeconds(absl::GetFlag(FLAGS_soak));
  Verdict verdict(absl::GetFlag(FLAGS_strict));
  for (const std::string& name : names) {
    const Named* found = nullptr;
    for (const Named& trial : kTrials) found = trial.name == name ? &trial : found;
    if (found == nullptr) {
      std::fprintf(stderr, "trial: there is no trial \"%s\"\n", name.c_str());
      return 2;
    }
    verdict.Tell("== " + name);
    found->run(options, verdict);
  }
  verdict.Tell(verdict.holds() ? "all holds" : "BROKEN");
  return verdict.holds() ? 0 : 1;
}

}  // namespace
}  // namespace hapmoe::trial

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Tries to break the server. See tests/trial/README.md.");
  const std::vector<char*> rest = absl::ParseCommandLine(argc, argv);
  std::vector<std::string> names(std::next(rest.begin()), rest.end());
  if (names.empty()) names = {"overload", "shed", "cancel", "drain", "clock"};
  std::error_code error;
  return hapmoe::trial::Run(std::filesystem::read_symlink("/proc/self/exe", error).string(), names);
}
