// How sure a predicted time is, from what it rests on.
#ifndef HAPMOE_CORE_COST_BAND_H_
#define HAPMOE_CORE_COST_BAND_H_

#include "core/cost/prediction.h"

namespace hapmoe::cost {

// The measured time is expected between low_seconds and high_seconds four times out of five.
struct Band {
  double low_seconds = 0;
  double high_seconds = 0;
};

// Relative standard errors of one second of each kind. Errors of one kind go together (a table is
// too fast as a whole), those of different kinds do not: kinds add up in squares. What no table
// knows (clocks, cooling, the release of the software) is common to all of them; seconds that
// depend on routing vary with it and with the dispatcher, from release to release by a quarter.
struct BandErrors {
  double measured = 0.03;
  double interpolated = 0.06;
  double analytic = 0.14;
  double communication = 0.10;
  double launch = 0.33;
  double routing = 0.23;
  double common = 0.07;
};

// Of `iteration_seconds`, whose busy seconds rest on `evidence`. Waiting, which the schedule
// derives from busy seconds, is as sure as they are.
Band BandOf(const Evidence& evidence, double iteration_seconds, const BandErrors& errors = {});

// The band of a relative standard error, and the error of a band.
Band BandAround(double iteration_seconds, double deviation);
double DeviationOf(const Band& band);

}  // namespace hapmoe::cost

#endif  // HAPMOE_CORE_COST_BAND_H_
