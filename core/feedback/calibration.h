// Corrections of profiles from measured iterations: what they say of each accelerator type.
#ifndef HAPMOE_CORE_FEEDBACK_CALIBRATION_H_
#define HAPMOE_CORE_FEEDBACK_CALIBRATION_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/interrupter.h"
#include "core/cost/band.h"
#include "core/cost/problem.h"
#include "core/feedback/robust_fit.h"
#include "core/plan/plan.h"
#include "core/profile/corrections.h"

namespace hapmoe::feedback {

// One measured iteration of a plan. The problem's profiles are without corrections, and the plan is
// valid for the problem, its precision supported.
struct Observation {
  std::shared_ptr<const cost::Problem> problem;
  plan::Plan plan;
  std::optional<double> seconds;
  std::optional<double> allocated_bytes;  // The most of any rank.
  std::optional<double> reserved_bytes;
  double age_days = 0;
  // What was run: reports of the same share what is peculiar to it, so that many of them say little
  // more than one.
  std::string run;
};

// Standard errors, relative. Priors of factors are those of the band: what the model's predictions
// of published runs were found to miss by.
struct CalibrationErrors {
  cost::BandErrors terms;
  double activations = 0.10;
  double slack = 0.50;
  double run = 0.05;          // What is peculiar to one run, in time.
  double measurement = 0.02;  // From one iteration to the next, in time.
  double memory = 0.02;       // The same of memory, both together.
  double year = 0.10;         // Drift of software in a year; grows with the root of age.
};

// What is known of one accelerator type.
struct TypeCalibration {
  profile::Corrections corrections;
  // Of the logarithms of factors, in the order of profile::Term: before any report, and now.
  Matrix prior;
  Matrix posterior;
  // How far reports lie apart over what CalibrationErrors says, at least 1, in time and in memory.
  double spread = 1;
  double memory_spread = 1;
  int64_t reports = 0;
};

struct Calibration {
  // By profile: those of pools that a plan among the observations uses.
  std::map<std::shared_ptr<const profile::AcceleratorProfile>, TypeCalibration> types;
  // Of each observation: its pull on the time's factors, from 0 (ignored) to 1, and what the
  // corrected profiles predict for it.
  struct Verdict {
    double weight = 1;
    double predicted_seconds = 0;
    double corrected_seconds = 0;
  };
  std::vector<Verdict> verdicts;
};

// The covariance of the logarithms of a type's factors before any report: independent errors by the
// evidence that the profile has, and one that all share.
Matrix PriorOf(const profile::AcceleratorProfile& profile, const CalibrationErrors& errors);

// The likeliest factors under the prior, for all types together that meet in a plan. Does not
// depend on the order of observations beyond rounding. A report that equals its prediction changes
// nothing. Evaluates each observation about 20 times in each of a few rounds.
Calibration Calibrate(const std::vector<Observation>& observations,
                      const CalibrationErrors& errors = {}, const FitOptions& options = {});

// The same; nothing where `interrupter` trips before the end, at most a few evaluations later.
std::optional<Calibration> Calibrate(const std::vector<Observation>& observations,
                                     const Interrupter& interrupter,
                                     const CalibrationErrors& errors = {},
                                     const FitOptions& options = {});

}  // namespace hapmoe::feedback

#endif  // HAPMOE_CORE_FEEDBACK_CALIBRATION_H_
