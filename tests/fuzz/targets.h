// What is fuzzed: everything that reads what somebody else wrote.
#ifndef HAPMOE_TESTS_FUZZ_TARGETS_H_
#define HAPMOE_TESTS_FUZZ_TARGETS_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace hapmoe::fuzz {

// Reads `input` as the parser's users would have it read; ends the program where a promise of the
// parser does not hold. Its corpus is the folder of its name.
struct Target {
  const char* name;
  void (*run)(absl::string_view input);
};
absl::Span<const Target> Targets();

// Null: there is none.
const Target* FindTarget(absl::string_view name);

void ReadArguments(absl::string_view input);      // Of a job, separated by line feeds.
void ReadArgumentText(absl::string_view input);   // --args-file
void ReadClusterFile(absl::string_view input);    // --cluster
void ReadSchedulerFile(absl::string_view input);  // --scheduler-file
void ReadMeasuredFiles(absl::string_view input);  // --plan, --measured, --router-stats
void ReadLayerTimes(absl::string_view input);     // profiles import
void ReadScript(absl::string_view input);         // --script, read statically
void ReadFlagScale(absl::string_view input);      // --script of YAML
void ReadPlanRequests(absl::string_view input);   // PlanRequest, in text form
void ReadProfile(absl::string_view input);        // Profile files, JSON

}  // namespace hapmoe::fuzz

#endif  // HAPMOE_TESTS_FUZZ_TARGETS_H_
