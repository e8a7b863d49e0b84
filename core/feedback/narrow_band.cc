#include "core/feedback/narrow_band.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "core/cost/band.h"
#include "core/cost/evaluate.h"

namespace hapmoe::feedback {
namespace {

constexpr double kNudge = 0.01;

// Slopes of the logarithm of the time over those of one type's factors, by difference.
std::vector<double> Slopes(const cost::Problem& problem, const plan::Plan& plan,
                           const std::shared_ptr<const profile::AcceleratorProfile>& type,
                           double seconds) {
  std::vector<double> slopes(profile::kTerms, 0);
  for (size_t i = 0; i < static_cast<size_t>(profile::Term::kActivations); ++i) {
    const auto term = static_cast<profile::Term>(i);
    auto nudged = std::make_shared<profile::AcceleratorProfile>(*type);
    nudged->corrections.set(term, type->corrections.of(term) * std::exp(kNudge));
    cost::Problem changed = problem;
    changed.products = nullptr;  // Those of other profiles.
    for (auto& profile : changed.profiles) {
      if (profile == type) profile = nudged;
    }
    const auto prediction = cost::Evaluate(changed, plan);
    if (prediction.ok()) slopes[i] = std::log(prediction->iteration_seconds / seconds) / kNudge;
  }
  return slopes;
}

}  // namespace

void NarrowBand(const cost::Problem& problem, const plan::Plan& plan,
                const std::vector<const TypeCalibration*>& types, cost::Prediction& prediction,
                const CalibrationErrors& errors) {
  std::map<std::shared_ptr<const profile::AcceleratorProfile>, const TypeCalibration*> used;
  bool reported = false;
  for (const plan::Mesh& mesh : plan.meshes) {
    const auto pool = static_cast<size_t>(mesh.pool);
    used.emplace(problem.profiles[pool], types[pool]);
    reported |= types[pool] != nullptr;
  }
  if (!reported) return;
  // What the caller predicted may differ in what the engine overlaps; slopes hardly do.
  const auto base = cost::Evaluate(problem, plan);
  if (!base.ok()) return;
  double before = 0;
  double after = 0;
  double spread = 1;
  for (const auto& [type, calibration] : used) {
    const std::vector<double> slopes = Slopes(problem, plan, type, base->iteration_seconds);
    const Matrix prior = calibration == nullptr ? PriorOf(*type, errors) : calibration->prior;
    if (calibration != nullptr) spread = std::max(spread, calibration->spread);
    before += prior.Form(slopes);
    after += calibration == nullptr ? prior.Form(slopes) : calibration->posterior.Form(slopes);
  }
  if (before <= 0) return;
  const double explained = 1 - after / before;
  const double deviation =
      cost::DeviationOf({prediction.low_iteration_seconds, prediction.high_iteration_seconds});
  const double peculiar =
      spread * spread * (errors.run * errors.run + errors.measurement * errors.measurement);
  const double variance = deviation * deviation * (1 - explained) +
                          std::max(0.0, explained) * std::min(peculiar, deviation * deviation);
  const cost::Band band = cost::BandAround(prediction.iteration_seconds, std::sqrt(variance));
  prediction.low_iteration_seconds = band.low_seconds;
  prediction.high_iteration_seconds = band.high_seconds;
}

}  // namespace hapmoe::feedback
