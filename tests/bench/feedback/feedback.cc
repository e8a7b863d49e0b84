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
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
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
#include "absl/strings/str_join.h"
#include "core/cost/evaluate.h"
#include "core/feedback/calibration.h"
#include "core/feedback/narrow_band.h"
#include "server/planning/problem_reader.h"
#include "tests/bench/fidelity/score.h"
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

using fidelity::Errors;
using fidelity::ErrorsOf;
using google::protobuf::Struct;
using google::protobuf::Value;

[[noreturn]] void Die(const std::string& what) {
  std::cerr << "feedback: " << what << "\n";
  std::exit(2);
}

std::string TextAt(const Struct& object, const std::string& key) {
  const auto field = object.fields().find(key);
  return field == object.fields().end() ? "" : field->second.string_value();
}

// A published run that can be predicted.
struct Run {
  std::string id;
  std::string family;
  std::string job;  // Equal for all scales of a job.
  int64_t world_size = 0;
  int64_t global_batch = 0;
  feedback::Observation observation;
  double predicted_seconds = 0;
};

// The arguments but for the global batch, and the release of the source.
std::string JobOf(const Struct& c, const v1::EvaluateRequest& request) {
  std::vector<std::string> parts = {TextAt(c, "family"), request.cluster().pools(0).accelerator()};
  const std::string source = TextAt(c, "source");
  const size_t at = source.find('@');
  parts.push_back(at == std::string::npos ? "" : source.substr(at));
  for (int i = 0; i < request.job().megatron_args_size(); ++i) {
    if (request.job().megatron_args(i) == "--global-batch-size") {
      ++i;
    } else {
      parts.push_back(request.job().megatron_args(i));
    }
  }
  return absl::StrJoin(parts, " ");
}

std::vector<Run> ReadRuns(const std::string& path, const server::ProfileCatalog& profiles,
                          const server::EngineCatalog& engines) {
  std::ifstream file(path);
  if (!file) Die("cannot read " + path);
  std::vector<Run> runs;
  for (std::string line; std::getline(file, line);) {
    Struct c;
    if (!google::protobuf::util::JsonStringToMessage(line, &c).ok()) Die(path + " is not JSON");
    v1::EvaluateRequest request;
    for (const Value& word : c.fields().at("megatron_args").list_value().values()) {
      request.mutable_job()->add_megatron_args(word.string_value());
    }
    request.set_world_size(static_cast<int32_t>(c.fields().at("world_size").number_value()));
    std::string cluster;
    if (!google::protobuf::util::MessageToJsonString(c.fields().at("cluster"), &cluster).ok() ||
        !google::protobuf::util::JsonStringToMessage(cluster, request.mutable_cluster()).ok()) {
      Die("a cluster of " + path + " cannot be read");
    }
    const auto& measured = c.fields().at("measured").struct_value().fields();
    const auto seconds = measured.find("iteration_seconds");
    if (seconds == measured.end() || !(seconds->second.number_value() > 0)) continue;
    const auto layout = server::ReadEvaluateRequest(request, profiles, engines);
    if (!layout.ok()) continue;
    Run run;
    run.id = TextAt(c, "id");
    run.family = TextAt(c, "family");
    run.job = JobOf(c, request);
    run.world_size = request.world_size();
    run.global_batch = layout->plan.global_batch;
    run.observation.problem = std::make_shared<const cost::Problem>(layout->problem.problem);
    run.observation.plan = layout->plan;
    run.observation.seconds = seconds->second.number_value();
    run.observation.run = run.id;
    const auto prediction = cost::Evaluate(*run.observation.problem, run.observation.plan);
    if (!prediction.ok()) continue;
    run.predicted_seconds = prediction->iteration_seconds;
    runs.push_back(std::move(run));
  }
  return runs;
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

cost::Prediction PredictBy(const feedback::Calibration& calibration, const Run& run) {
  cost::Problem problem = *run.observation.problem;
  std::vector<const feedback::TypeCalibration*> types;
  for (auto& profile : problem.profiles) {
    const auto type = calibration.types.find(profile);
    types.push_back(type == calibration.types.end() ? nullptr : &type->second);
    if (types.back() == nullptr) continue;
    auto corrected = std::make_shared<profile::AcceleratorProfile>(*profile);
    corrected->corrections = types.back()->corrections;
    profile = std::move(corrected);
  }
  cost::Prediction prediction = cost::Evaluate(problem, run.observation.plan).value();
  feedback::NarrowBand(problem, run.observation.plan, types, prediction, ErrorFlags());
  return prediction;
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
    for (Run& run : ReadRuns(path, *catalog, engines)) {
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
          moved = std::max(moved, std::abs(PredictBy(with, *run).iteration_seconds /
                                               PredictBy(calibration, *run).iteration_seconds -
                                           1));
        }
        calibration = with;
      }
      for (const Run* run : job.larger) tally.Add(*run, PredictBy(calibration, *run));
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
