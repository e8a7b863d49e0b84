// Prints how far predictions are from published training runs that had no part in the fit.
//
//   cross_validate --cases=CASES.jsonl[,CASES.jsonl...] [--most_mean=0.16]
//
// Cases are those of tests/bench/fidelity: runs of current stacks whose source does not contradict
// itself. Of each family in turn nothing is known: what its accelerator types have from published
// runs (a figure's source says so) is taken back, guessed as the mean of other architectures, and
// fitted to the runs that other families have of these types, as the service fits reports. What
// measured operations say stays. A type that no other family ran keeps the guesses.
//
// Not left out: the shape of the model, what was assumed where runs alone could tell (contention,
// imbalance), and the host's time to issue operators, which only small models show.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/match.h"
#include "core/feedback/calibration.h"
#include "tests/bench/fidelity/runs.h"
#include "tests/bench/fidelity/score.h"
#include "tests/core/feedback/predict_by.h"
#include "tests/server/testing/built_in.h"

ABSL_FLAG(std::vector<std::string>, cases, {}, "measured cases, one JSON object a line");
ABSL_FLAG(double, most_mean, 1, "limit of the mean error of the families of a file, left out");

namespace hapmoe::fidelity {
namespace {

using server::ProfileEntry;
using server::ProfileEntryPtr;
using ProfilePtr = std::shared_ptr<const profile::AcceleratorProfile>;

// Of a family with thousands of runs so many say what all do.
constexpr size_t kMostRunsOfAFamily = 60;

[[noreturn]] void Die(const std::string& what) {
  std::cerr << "cross_validate: " << what << "\n";
  std::exit(2);
}

bool FromRuns(const std::string& source) {
  return absl::StrContains(source, "published training runs");
}

// Means over profiles of what may be fitted to runs.
class Guesses {
 public:
  void Add(const v1::AcceleratorProfile& profile) {
    Add("memory", profile.efficiency().memory_ratio().value());
    Add("scale_up", profile.efficiency().scale_up_ratio().value());
    for (const v1::OperationTable& table : profile.tables()) {
      if (FromRuns(table.sustained_source())) Add(NameOf(table), table.sustained_ratio());
    }
  }

  // The profile without what runs say of it.
  v1::AcceleratorProfile Instead(v1::AcceleratorProfile profile) const {
    for (const auto& [name, figure] :
         {std::pair{"memory", profile.mutable_efficiency()->mutable_memory_ratio()},
          std::pair{"scale_up", profile.mutable_efficiency()->mutable_scale_up_ratio()}}) {
      if (FromRuns(figure->source())) figure->set_value(Mean(name).value_or(figure->value()));
    }
    for (v1::OperationTable& table : *profile.mutable_tables()) {
      if (!FromRuns(table.sustained_source())) continue;
      table.set_sustained_ratio(Mean(NameOf(table)).value_or(1));
    }
    return profile;
  }

 private:
  // Formats of 16 bit share their tables.
  static std::string NameOf(const v1::OperationTable& table) {
    const bool low = table.precision() == v1::PRECISION_FP8;
    return v1::OperationKind_Name(table.kind()) + (low ? " fp8" : "");
  }
  void Add(const std::string& name, double value) {
    auto& [sum, count] = sums_[name];
    sum += value;
    ++count;
  }
  std::optional<double> Mean(const std::string& name) const {
    const auto found = sums_.find(name);
    if (found == sums_.end()) return std::nullopt;
    return found->second.first / found->second.second;
  }

  std::map<std::string, std::pair<double, double>> sums_;  // Sum and count.
};

// The profiles of some types as they would be had runs never said anything of their architectures.
std::map<std::string, ProfilePtr> Unfitted(const std::set<std::string>& types) {
  const auto store = server::BuiltInProfiles();
  const auto catalog = store->catalog();
  std::set<std::string> architectures;
  for (const std::string& type : types) {
    architectures.insert(catalog->Find(type)->core->architecture);
  }
  Guesses guesses;
  for (const std::string& name : catalog->Names()) {
    const ProfileEntryPtr entry = catalog->Find(name);
    if (architectures.count(entry->core->architecture) == 0) guesses.Add(entry->wire);
  }
  for (const std::string& type : types) {
    const auto version = store->Put(guesses.Instead(catalog->Find(type)->wire));
    if (!version.ok()) Die(std::string(version.status().message()));
  }
  std::map<std::string, ProfilePtr> profiles;
  for (const std::string& type : types) profiles[type] = store->catalog()->Find(type)->core;
  return profiles;
}

// What the fit may move, and how far from a guess: what was fitted, and nothing else.
feedback::CalibrationErrors ErrorsOfGuesses() {
  feedback::CalibrationErrors errors;
  errors.terms = {.measured = 0.2,
                  .interpolated = 0.2,
                  .analytic = 0.2,
                  .communication = 0.01,
                  .launch = 0.01,
                  .routing = 0.01,
                  .common = 0.01};
  // Runs of one family have its releases and clusters in common.
  errors.run = 0.1;
  return errors;
}

bool RunsOn(const Run& run, const std::set<std::string>& types) {
  const auto& profiles = run.observation.problem->profiles;
  return std::all_of(profiles.begin(), profiles.end(),
                     [&](const ProfilePtr& profile) { return types.count(profile->name) > 0; });
}

Run WithProfiles(Run run, const std::map<std::string, ProfilePtr>& profiles) {
  cost::Problem problem = *run.observation.problem;
  for (ProfilePtr& profile : problem.profiles) profile = profiles.at(profile->name);
  problem.products = nullptr;  // Of the other profiles.
  run.observation.problem = std::make_shared<const cost::Problem>(std::move(problem));
  return run;
}

// Runs of all families but one on types of that one, thinned evenly.
std::vector<feedback::Observation> OfOthers(const std::map<std::string, std::vector<Run>>& families,
                                            const std::string& left_out,
                                            const std::set<std::string>& types,
                                            const std::map<std::string, ProfilePtr>& profiles) {
  std::vector<feedback::Observation> observations;
  for (const auto& [family, runs] : families) {
    if (family == left_out) continue;
    std::vector<const Run*> on_types;
    for (const Run& run : runs) {
      if (RunsOn(run, types)) on_types.push_back(&run);
    }
    const size_t taken = std::min(on_types.size(), kMostRunsOfAFamily);
    for (size_t i = 0; i < taken; ++i) {
      observations.push_back(
          WithProfiles(*on_types[i * on_types.size() / taken], profiles).observation);
      observations.back().run = family;
    }
  }
  return observations;
}

void Print(const std::string& name, const std::vector<double>& shipped,
           const std::vector<double>& left_out, const std::string& of_others) {
  const Errors before = ErrorsOf(shipped);
  const Errors after = ErrorsOf(left_out);
  std::printf(
      "%-30s n=%-4d mean %5.1f %%  median %5.1f %%  bias %+6.1f %%  left out: mean %5.1f %%  "
      "median %5.1f %%  bias %+6.1f %%  %s\n",
      name.c_str(), after.count, 100 * before.mean, 100 * before.median, 100 * before.bias,
      100 * after.mean, 100 * after.median, 100 * after.bias, of_others.c_str());
}

int Main() {
  const auto profiles = server::BuiltInProfiles();
  const server::EngineCatalog engines = server::BuiltInEngines();
  const auto catalog = profiles->catalog();
  std::map<std::string, std::vector<Run>> families;
  std::map<std::string, std::string> file_of;  // Of a family.
  for (const std::string& path : absl::GetFlag(FLAGS_cases)) {
    auto read = ReadRuns(path, *catalog, engines);
    if (!read.ok()) Die(std::string(read.status().message()));
    for (Run& run : *read) {
      if (!run.current || !run.consistent) continue;
      file_of[run.family] = path.substr(path.rfind('/') + 1);
      families[run.family].push_back(std::move(run));
    }
  }
  const feedback::CalibrationErrors errors = ErrorsOfGuesses();
  std::map<std::string, std::pair<std::vector<double>, std::vector<double>>> all;  // By file.
  for (const auto& [family, runs] : families) {
    std::set<std::string> types;
    for (const Run& run : runs) {
      for (const ProfilePtr& profile : run.observation.problem->profiles)
        types.insert(profile->name);
    }
    const auto unfitted = Unfitted(types);
    const auto observations = OfOthers(families, family, types, unfitted);
    const feedback::Calibration calibration = feedback::Calibrate(observations, errors);
    std::vector<double> shipped;
    std::vector<double> left_out;
    for (const Run& run : runs) {
      const double measured = *run.observation.seconds;
      shipped.push_back(run.predicted_seconds / measured - 1);
      const Run blind = WithProfiles(run, unfitted);
      left_out.push_back(
          feedback::PredictBy(calibration, blind.observation, errors).iteration_seconds / measured -
          1);
    }
    Print(family, shipped, left_out,
          "by " + std::to_string(observations.size()) + " runs of others");
    auto& [all_shipped, all_left_out] = all[file_of[family]];
    all_shipped.insert(all_shipped.end(), shipped.begin(), shipped.end());
    all_left_out.insert(all_left_out.end(), left_out.begin(), left_out.end());
  }
  int failures = 0;
  for (const auto& [file, all_errors] : all) {
    Print(file, all_errors.first, all_errors.second, "");
    const double mean = ErrorsOf(all_errors.second).mean;
    if (mean <= absl::GetFlag(FLAGS_most_mean)) continue;
    std::printf("LIMIT  the mean error of families left out is %.4f\n", mean);
    ++failures;
  }
  return failures > 0 ? 1 : 0;
}

}  // namespace
}  // namespace hapmoe::fidelity

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  return hapmoe::fidelity::Main();
}
