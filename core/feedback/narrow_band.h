// How sure a corrected prediction is.
#ifndef HAPMOE_CORE_FEEDBACK_NARROW_BAND_H_
#define HAPMOE_CORE_FEEDBACK_NARROW_BAND_H_

#include <vector>

#include "core/cost/prediction.h"
#include "core/cost/problem.h"
#include "core/feedback/calibration.h"
#include "core/plan/plan.h"

namespace hapmoe::feedback {

// Makes the band of a prediction by corrected profiles as wide as reports left it: the share of its
// variance that they explain, of the terms that matter to this plan, gives way to what is peculiar
// to a run. `types` holds the calibration of each pool's profile, or null. Evaluates the plan about
// ten times for each type; changes nothing where no type has reports.
void NarrowBand(const cost::Problem& problem, const plan::Plan& plan,
                const std::vector<const TypeCalibration*>& types, cost::Prediction& prediction,
                const CalibrationErrors& errors = {});

}  // namespace hapmoe::feedback

#endif  // HAPMOE_CORE_FEEDBACK_NARROW_BAND_H_
