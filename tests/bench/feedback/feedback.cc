// Prints what reported iterations do to predictions of published training runs.
//
//   feedback --cases=CASES.jsonl[,CASES.jsonl...] [--settings=alone,together,...]
//
// Cases are those of tests/bench/fidelity. Runs of one release of a source that differ in nothing
// but their number of accelerators and their global batch are scales of one job. Of each job the
// smallest run is reported, and the larger ones are predicted:
//   alone     by a service that has no other report
//   site      by one that has the smallest runs of all jobs of the same family
//   newcomer  by one that has those of all jobs of the same family but this one
//   together  by one that has the smallest run of every job
//   others    by one that has those of all jobs of other families
//   outlier   as alone, with a second report, of a run of its own, of ten times the prediction
// Of several runs at the smallest scale the one of the smallest batch is reported.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/str_cat.h"
#include "core/feedback/calibration.h"
#include "tests/bench/fidelity/runs.h"
#include "tests/bench/fidelity/score.h"
#include "tests/core/feedback/predict_by.h"
#include "tests/server/testing/built_in.h"

ABSL_FLAG(std::vector<std::string>, cases, {}, "measured cases, one JSON object a line");
ABSL_FLAG(std::vector<std::string>, settings,
          (std::vector<std::string>{"alone", "together", "others", "outlier"}),
          "which services to print");
ABSL_FLAG(std::vector<std::string>, families, {}, "only these; all when left out");
ABSL_FLAG(int, list, 0, "print so many of the worst errors of each family");
ABSL_FLAG(double, most_mean, 1, "limit of the mean error of all jobs alone");
ABSL_FLAG(double, most_outlier, 1, "limit of what the outlier moves any prediction by");
ABSL_FLAG(double, run_error, hapmoe::feedback::CalibrationErrors().run, "peculiar to one run");
ABSL_FLAG(double, measurement_error, hapmoe::feedback::CalibrationErrors().measurement,
          "from one iteration to the next");
ABSL_FLAG(double, error_freedom, hapmoe::feedback::FitOptions().error_freedom, "of errors");
ABSL_FLAG(double, least, hapmoe::feedback::FitOptions().least, "logarithm of factors");
ABSL_FLAG(double, ignorance, hapmoe::feedback::FitOptions().ignorance, "of errors");
ABSL_FLAG(double, prior_freedom, hapmoe::feedback::FitOptions().prior_freedom, "of factors");

namespace hapmoe {
namespace {

using feedback::PredictBy;
using fidelity::Errors;
using fidelity::ErrorsOf;
using fidelity::ReadRuns;
using fidelity::Run;

[[noreturn]] void Die(const std::string& what) {
  std::cerr << "feedback: " << what << "\n";
  std::exit(2);
}

struct Job {
  const Run* smallest = nullptr;
  std::vector<const Run*> larger;
};

std::vector<Job> JobsOf(const std::vector<Run>& runs) {
  std::map<std::string, std::vector<const Run*>> by_job;
  for (const Run& run : runs) by_job[run.job].push_back(&run);
  std::vector<Job> jobs;
  for (const auto& [name, scales] : by_job) {
    Job job;
    const auto size = [](const Run* run) { return std::tie(run->world_size, run->global_batch); };
    job.smallest = *std::min_element(scales.begin(), scales.end(),
                                     [&](const Run* a, const Run* b) { return size(a) < size(b); });
    for (const Run* run : scales) {
      if (run->world_size > job.smallest->world_size) job.larger.push_back(run);
    }
    if (!job.larger.empty()) jobs.push_back(std::move(job));
  }
  return jobs;
}

feedback::CalibrationErrors ErrorFlags() {
  feedback::CalibrationErrors errors;
  errors.run = absl::GetFlag(FLAGS_run_error);
  errors.measurement = absl::GetFlag(FLAGS_measurement_error);
  return errors;
}

feedback::FitOptions FitFlags() {
  feedback::FitOptions options;
  options.error_freedom = absl::GetFlag(FLAGS_error_freedom);
  options.least = absl::GetFlag(FLAGS_least);
  options.ignorance = absl::GetFlag(FLAGS_ignorance);
  options.prior_freedom = absl::GetFlag(FLAGS_prior_freedom);
  return options;
}

// Errors of one service's predictions, by family.
class Tally {
 public:
  void Add(const Run& run, const cost::Prediction& prediction) {
    const double measured = *run.observation.seconds;
    const double error = prediction.iteration_seconds / measured - 1;
    for (const std::string& family : {run.family, std::string("all")}) {
      Family& of = families_[family];
      of.before.push_back(run.predicted_seconds / measured - 1);
      of.after.push_back(error);
      of.inside += measured >= prediction.low_iteration_seconds &&
                   measured <= prediction.high_iteration_seconds;
      of.worst.emplace_back(std::abs(error), absl::StrCat(run.id, ", ", run.world_size));
    }
  }

  double Print(const std::string& setting) {
    for (auto& [name, family] : families_) {
      const Errors before = ErrorsOf(family.before);
      const Errors after = ErrorsOf(family.after);
      std::printf(
          "%-9s %-30s n=%-4d before: mean %5.1f %% worst %5.1f %%  after: mean %5.1f %% bias "
          "%+5.1f %% worst %5.1f %%  over 10 %%: %d  in band %3.0f %%\n",
          setting.c_str(), name.c_str(), after.count, 100 * before.mean, 100 * before.worst,
          100 * after.mean, 100 * after.bias, 100 * after.worst,
          static_cast<int>(std::count_if(family.after.begin(), family.after.end(),
                                         [](double e) { return std::abs(e) > 0.1; })),
          100.0 * family.inside / after.count);
      std::sort(family.worst.rbegin(), family.worst.rend());
      for (size_t i = 0; i < family.worst.size(); ++i) {
        if (static_cast<int>(i) >= absl::GetFlag(FLAGS_list) || name == "all") break;
        std::printf("            %5.1f %% %s\n", 100 * family.worst[i].first,
                    family.worst[i].second.c_str());
      }
    }
    return families_.count("all") > 0 ? ErrorsOf(families_["all"].after).mean : 0;
  }

 private:
  struct Family {
    std::vector<double> before;
    std::vector<double> after;
    std::vector<std::pair<double, std::string>> worst;
    int inside = 0;
  };
  std::map<std::string, Family> families_;
};

int Main() {
  const auto profiles = server::BuiltInProfiles();
  const server::EngineCatalog engines = server::BuiltInEngines();
  const auto catalog = profiles->catalog();
  std::vector<Run> runs;
  for (const std::string& path : absl::GetFlag(FLAGS_cases)) {
    auto read = ReadRuns(path, *catalog, engines);
    if (!read.ok()) Die(std::string(read.status().message()));
    for (Run& run : *read) {
      const auto only = absl::GetFlag(FLAGS_families);
      if (only.empty() || std::find(only.begin(), only.end(), run.family) != only.end()) {
        runs.push_back(std::move(run));
      }
    }
  }
  const std::vector<Job> jobs = JobsOf(runs);
  std::printf("%zu runs, %zu jobs of several scales\n", runs.size(), jobs.size());
  const auto calibrate = [](const std::vector<feedback::Observation>& observations) {
    return feedback::Calibrate(observations, ErrorFlags(), FitFlags());
  };
  int failures = 0;
  for (const std::string& setting : absl::GetFlag(FLAGS_settings)) {
    Tally tally;
    double moved = 0;
    std::map<std::string, feedback::Calibration> shared;  // By the family that is left out.
    for (const Job& job : jobs) {
      feedback::Calibration calibration;
      if (setting == "alone" || setting == "outlier") {
        calibration = calibrate({job.smallest->observation});
      } else {
        const std::string key = setting == "together"   ? ""
                                : setting == "newcomer" ? job.smallest->id
                                                        : job.smallest->family;
        if (shared.find(key) == shared.end()) {
          std::vector<feedback::Observation> reports;
          for (const Job& other : jobs) {
            const bool kin = other.smallest->family == job.smallest->family;
            const bool itself = other.smallest == job.smallest;
            if (setting == "others"     ? !kin
                : setting == "site"     ? kin
                : setting == "newcomer" ? kin && !itself
                                        : true) {
              reports.push_back(other.smallest->observation);
            }
          }
          shared[key] = calibrate(reports);
        }
        calibration = shared[key];
      }
      if (setting == "outlier") {
        feedback::Observation wild = job.larger.front()->observation;
        wild.seconds = 10 * job.larger.front()->predicted_seconds;
        wild.run = "wild";
        const feedback::Calibration with = calibrate({job.smallest->observation, wild});
        for (const Run* run : job.larger) {
          moved = std::max(
              moved,
              std::abs(
                  PredictBy(with, run->observation, ErrorFlags()).iteration_seconds /
                      PredictBy(calibration, run->observation, ErrorFlags()).iteration_seconds -
                  1));
        }
        calibration = with;
      }
      for (const Run* run : job.larger) {
        tally.Add(*run, PredictBy(calibration, run->observation, ErrorFlags()));
      }
    }
    const double mean = tally.Print(setting);
    if (setting == "alone" && mean > absl::GetFlag(FLAGS_most_mean)) ++failures;
    if (setting == "outlier") {
      std::printf("outlier   moves predictions by at most %.2g %%\n", 100 * moved);
      if (moved > absl::GetFlag(FLAGS_most_outlier)) ++failures;
    }
    if (setting == "together") {
      for (const auto& [type, calibration] : shared[""].types) {
        std::printf("factors   %-20s n=%-3d", type->name.c_str(),
                    static_cast<int>(calibration.reports));
        for (size_t t = 0; t < profile::kTerms; ++t) {
          std::printf(" %s %.2f", profile::kTermNames[t],
                      calibration.corrections.of(static_cast<profile::Term>(t)));
        }
        std::printf("\n");
      }
    }
  }
  if (failures > 0) std::printf("LIMIT  a limit is passed\n");
  return failures > 0 ? 1 : 0;
}

}  // namespace
}  // namespace hapmoe

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  return hapmoe::Main();
}
