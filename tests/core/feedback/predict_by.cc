#include "tests/core/feedback/predict_by.h"

#include <memory>
#include <utility>
#include <vector>

#include "core/cost/evaluate.h"
#include "core/feedback/narrow_band.h"

namespace hapmoe::feedback {

cost::Prediction PredictBy(const Calibration& calibration, const Observation& run,
                           const CalibrationErrors& errors) {
  cost::Problem problem = *run.problem;
  std::vector<const TypeCalibration*> types;
  for (auto& profile : problem.profiles) {
    const auto type = calibration.types.find(profile);
    types.push_back(type == calibration.types.end() ? nullptr : &type->second);
    if (types.back() == nullptr) continue;
    auto corrected = std::make_shared<profile::AcceleratorProfile>(*profile);
    corrected->corrections = types.back()->corrections;
    profile = std::move(corrected);
  }
  cost::Prediction prediction = cost::Evaluate(problem, run.plan).value();
  NarrowBand(problem, run.plan, types, prediction, errors);
  return prediction;
}

}  // namespace hapmoe::feedback
