// How the value of each option of the command line is read into its place.
#ifndef HAPMOE_CLIENT_OPTION_SETTERS_H_
#define HAPMOE_CLIENT_OPTION_SETTERS_H_

#include <cmath>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "client/options.h"

namespace hapmoe::client::command_line {

// Reads an option's value into its place, or says what the value must be: "must be text or json".
using Setter = absl::Status (*)(absl::string_view text, Options& options);

// The server and the answer.
absl::Status SetServer(absl::string_view text, Options& o);
absl::Status SetDeadline(absl::string_view text, Options& o);
absl::Status SetOutput(absl::string_view text, Options& o);

// The job.
absl::Status SetScriptReading(absl::string_view text, Options& o);
absl::Status AddEnvironment(absl::string_view text, Options& o);
absl::Status SetImbalanceQuantile(absl::string_view text, Options& o);

// What is searched, and for what.
absl::Status SetEngine(absl::string_view text, Options& o);
absl::Status SetDispatchers(absl::string_view text, Options& o);
absl::Status SetHeadroom(absl::string_view text, Options& o);
absl::Status SetTimeBudget(absl::string_view text, Options& o);
absl::Status SetAllowIdle(absl::string_view, Options& o);
absl::Status SetKeepRecompute(absl::string_view, Options& o);
absl::Status SetLoadBalancePruning(absl::string_view text, Options& o);
absl::Status SetCrossTypePruning(absl::string_view text, Options& o);
absl::Status SetObjective(absl::string_view text, Options& o);
absl::Status AddSizes(absl::string_view text, Options& o);

// What was measured.
absl::Status SetSeconds(absl::string_view text, Options& o);
absl::Status SetRho(absl::string_view text, Options& o);
absl::Status SetPlanId(absl::string_view text, Options& o);

// Layer times to import.
absl::Status SetFormat(absl::string_view text, Options& o);
absl::Status SetPrecision(absl::string_view text, Options& o);
absl::Status SetGated(absl::string_view, Options& o);
absl::Status SetIncludesCommunication(absl::string_view, Options& o);
absl::Status SetSource(absl::string_view text, Options& o);
absl::Status SetLicence(absl::string_view text, Options& o);

absl::StatusOr<double> AboveZero(absl::string_view text);

// The objective, made where no option has made it yet.
v1::Objective& ObjectiveOf(Options& o);

// Setters of one kind, for the field that they are given.

inline Options& Holder(Options& o, bool Options::*) { return o; }
inline Options& Holder(Options& o, std::string Options::*) { return o; }
inline ChannelSecurity& Holder(Options& o, bool ChannelSecurity::*) { return o.security; }
inline ChannelSecurity& Holder(Options& o, std::string ChannelSecurity::*) { return o.security; }

template <auto field>
absl::Status Switch(absl::string_view, Options& o) {
  Holder(o, field).*field = true;
  return absl::OkStatus();
}

template <auto field>
absl::Status Text(absl::string_view text, Options& o) {
  if (text.empty()) return absl::InvalidArgumentError("must not be empty");
  Holder(o, field).*field = std::string(text);
  return absl::OkStatus();
}

template <int32_t Options::*field>
absl::Status Integer(absl::string_view text, Options& o) {
  if (!absl::SimpleAtoi(text, &(o.*field)) || o.*field < 1) {
    return absl::InvalidArgumentError("must be a whole number above 0");
  }
  return absl::OkStatus();
}

template <google::protobuf::RepeatedField<int32_t>* (v1::Constraints::*field)()>
absl::Status Degrees(absl::string_view text, Options& o) {
  google::protobuf::RepeatedField<int32_t>& degrees = *(o.constraints.*field)();
  degrees.Clear();
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    int32_t degree = 0;
    if (!absl::SimpleAtoi(part, &degree) || degree < 1) {
      return absl::InvalidArgumentError("must be whole numbers above 0, separated by commas");
    }
    degrees.Add(degree);
  }
  return absl::OkStatus();
}

template <void (v1::Objective::*set)(double)>
absl::Status Limit(absl::string_view text, Options& o) {
  double value = 0;
  if (!absl::SimpleAtod(text, &value) || !(value > 0 && std::isfinite(value))) {
    return absl::InvalidArgumentError("must be a number above 0");
  }
  (ObjectiveOf(o).*set)(value);
  return absl::OkStatus();
}

template <void (v1::LayerTable::*set)(int64_t)>
absl::Status LayerSize(absl::string_view text, Options& o) {
  int32_t size = 0;
  if (!absl::SimpleAtoi(text, &size) || size < 1) {
    return absl::InvalidArgumentError("must be a whole number above 0");
  }
  (o.layer.*set)(size);
  return absl::OkStatus();
}

template <void (v1::IterationReport::*set)(int64_t)>
absl::Status Gibibytes(absl::string_view text, Options& o) {
  const absl::StatusOr<double> value = AboveZero(text);
  if (!value.ok()) return value.status();
  if (*value > 1e6) return absl::InvalidArgumentError("must be gibibytes, at most 1000000");
  (o.report.*set)(std::llround(*value * 1024 * 1024 * 1024));
  return absl::OkStatus();
}

}  // namespace hapmoe::client::command_line

#endif  // HAPMOE_CLIENT_OPTION_SETTERS_H_
