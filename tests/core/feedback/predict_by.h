// What profiles predict once reports have corrected them.
#ifndef HAPMOE_TESTS_CORE_FEEDBACK_PREDICT_BY_H_
#define HAPMOE_TESTS_CORE_FEEDBACK_PREDICT_BY_H_

#include "core/cost/prediction.h"
#include "core/feedback/calibration.h"

namespace hapmoe::feedback {

// Of the plan of an observation, with the band that is left.
cost::Prediction PredictBy(const Calibration& calibration, const Observation& run,
                           const CalibrationErrors& errors = {});

}  // namespace hapmoe::feedback

#endif  // HAPMOE_TESTS_CORE_FEEDBACK_PREDICT_BY_H_
