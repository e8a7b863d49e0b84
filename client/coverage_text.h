// What a profile has measured, and how far a job rests on it, as text for engineers.
#ifndef HAPMOE_CLIENT_COVERAGE_TEXT_H_
#define HAPMOE_CLIENT_COVERAGE_TEXT_H_

#include <string>

#include "hapmoe/v1/planner.pb.h"
#include "hapmoe/v1/profile.pb.h"

namespace hapmoe::client {

// Which operations and collectives are measured: range of shapes, number of samples, the error that
// the profile states, and the source.
std::string MeasuredText(const v1::AcceleratorProfile& profile);

// Kinds of operation without samples, a line for each width that the accelerator supports.
// Their times are calculated. Empty where nothing is missing.
std::string UnmeasuredText(const v1::AcceleratorProfile& profile);

// Shares of the predicted time by what they rest on, and the range that follows from them.
std::string BasisText(const v1::Prediction& prediction);

// The operations whose time is least measured, with what their times rest on: those that more
// measurements would tell most about. Empty where the response lists none.
std::string WorstCoveredText(const v1::EvaluateResponse& response);

}  // namespace hapmoe::client

#endif  // HAPMOE_CLIENT_COVERAGE_TEXT_H_
