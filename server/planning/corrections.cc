#include "server/planning/corrections.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/cost/evaluate.h"
#include "core/feedback/narrow_band.h"
#include "server/planning/problem_reader.h"
#include "server/wire/to_wire.h"

namespace hapmoe::server {

void Correct(std::shared_ptr<const CorrectedProfiles> corrections, ReadProblem& read) {
  if (corrections == nullptr) return;
  read.uncorrected = read.problem.profiles;
  for (auto& profile : read.problem.profiles) {
    const auto type = corrections->types.find(profile);
    if (type != corrections->types.end()) profile = type->second.corrected;
  }
  read.corrections = std::move(corrections);
}

v1::Prediction CorrectedToWire(const ReadProblem& read, const plan::Plan& plan,
                               cost::Prediction prediction) {
  if (read.corrections == nullptr) return PredictionToWire(prediction);
  std::vector<const feedback::TypeCalibration*> calibrations;
  for (const auto& profile : read.uncorrected) {
    const auto type = read.corrections->types.find(profile);
    calibrations.push_back(type == read.corrections->types.end() ? nullptr
                                                                 : &type->second.calibration);
  }
  std::set<std::string> names;
  int64_t reports = 0;
  for (const plan::Mesh& mesh : plan.meshes) {
    const auto pool = static_cast<size_t>(mesh.pool);
    if (calibrations[pool] == nullptr) continue;
    names.insert(read.uncorrected[pool]->name);
    reports = std::max(reports, calibrations[pool]->reports);
  }
  if (names.empty()) return PredictionToWire(prediction);
  cost::Problem uncorrected = read.problem;
  uncorrected.profiles = read.uncorrected;
  uncorrected.products = nullptr;  // Those of the corrected profiles.
  // A search predicts without some overlap that the job asks for; its own time is scaled.
  const auto with = cost::Evaluate(read.problem, plan);
  const auto without = cost::Evaluate(uncorrected, plan);
  feedback::NarrowBand(read.problem, plan, calibrations, prediction);
  if (!with.ok() || !without.ok()) return PredictionToWire(prediction);
  const double seconds =
      prediction.iteration_seconds * without->iteration_seconds / with->iteration_seconds;
  prediction.assumptions.push_back(absl::StrFormat(
      "Iterations that were measured on %s correct this: without their reports it would be %.4g s.",
      absl::StrJoin(names, ", "), seconds));
  v1::Prediction wire = PredictionToWire(prediction);
  wire.mutable_correction()->set_reports(reports);
  wire.mutable_correction()->set_uncorrected_iteration_seconds(seconds);
  return wire;
}

}  // namespace hapmoe::server
