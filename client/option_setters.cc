#include "client/option_setters.h"

#include <cmath>
#include <cstddef>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"

namespace hapmoe::client::command_line {

absl::Status SetServer(absl::string_view text, Options& o) {
  if (text.empty()) return absl::InvalidArgumentError("must not be empty");
  o.server = std::string(text);
  return absl::OkStatus();
}

absl::Status SetDeadline(absl::string_view text, Options& o) {
  absl::StatusOr<absl::Duration> duration = ParseDuration(text);
  if (duration.ok()) o.deadline = *duration;
  return duration.status();
}

absl::Status SetOutput(absl::string_view text, Options& o) {
  if (text != "text" && text != "json") return absl::InvalidArgumentError("must be text or json");
  o.output = text == "json" ? OutputFormat::kJson : OutputFormat::kText;
  return absl::OkStatus();
}

absl::Status SetScriptReading(absl::string_view text, Options& o) {
  if (text != "sandbox" && text != "static") {
    return absl::InvalidArgumentError("must be sandbox or static");
  }
  o.script_reading = text == "static" ? ScriptReading::kStatic : ScriptReading::kSandbox;
  return absl::OkStatus();
}

absl::Status AddEnvironment(absl::string_view text, Options& o) {
  if (text.find('=') == absl::string_view::npos || text[0] == '=') {
    return absl::InvalidArgumentError("must be NAME=VALUE");
  }
  o.script_environment.emplace_back(text);
  return absl::OkStatus();
}

absl::Status SetImbalanceQuantile(absl::string_view text, Options& o) {
  double quantile = 0;
  if (!absl::SimpleAtod(text, &quantile) || !(quantile >= 0 && quantile < 1)) {
    return absl::InvalidArgumentError("must be at least 0 and below 1, 0.99 for 99 of 100");
  }
  o.imbalance_quantile = quantile;
  return absl::OkStatus();
}

absl::Status SetEngine(absl::string_view text, Options& o) {
  if (text.empty()) return absl::InvalidArgumentError("must not be empty");
  o.constraints.set_engine(std::string(text));
  return absl::OkStatus();
}

absl::Status SetDispatchers(absl::string_view text, Options& o) {
  o.constraints.clear_token_dispatcher();
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    if (part != "allgather" && part != "alltoall" && part != "flex") {
      return absl::InvalidArgumentError("must be of allgather, alltoall and flex, with commas");
    }
    o.constraints.add_token_dispatcher(std::string(part));
  }
  return absl::OkStatus();
}

absl::Status SetHeadroom(absl::string_view text, Options& o) {
  double ratio = 0;
  if (!absl::SimpleAtod(text, &ratio) || !(ratio >= 0 && ratio < 1)) {
    return absl::InvalidArgumentError("must be at least 0 and below 1, 0.1 for a tenth");
  }
  o.constraints.set_memory_headroom_ratio(ratio);
  return absl::OkStatus();
}

absl::Status SetTimeBudget(absl::string_view text, Options& o) {
  absl::StatusOr<absl::Duration> duration = ParseDuration(text);
  if (!duration.ok()) return duration.status();
  absl::Duration rest;
  google::protobuf::Duration& budget = *o.constraints.mutable_time_budget();
  budget.set_seconds(absl::IDivDuration(*duration, absl::Seconds(1), &rest));
  budget.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
  return absl::OkStatus();
}

absl::Status SetAllowIdle(absl::string_view, Options& o) {
  o.constraints.set_allow_idle_accelerators(true);
  return absl::OkStatus();
}

absl::Status SetKeepRecompute(absl::string_view, Options& o) {
  o.constraints.set_keep_recompute(true);
  return absl::OkStatus();
}

absl::Status SetLoadBalancePruning(absl::string_view text, Options& o) {
  double ratio = 0;
  if (!absl::SimpleAtod(text, &ratio) || !(ratio >= 0 && ratio <= 10)) {
    return absl::InvalidArgumentError("must be from 0 to 10, 0.5 for half a share more or less");
  }
  o.constraints.mutable_prunings()->set_load_balance_ratio(ratio);
  return absl::OkStatus();
}

absl::Status SetCrossTypePruning(absl::string_view text, Options& o) {
  double ratio = 0;
  if (!absl::SimpleAtod(text, &ratio) || !(ratio > 0 && std::isfinite(ratio))) {
    return absl::InvalidArgumentError("must be a number above 0");
  }
  o.constraints.mutable_prunings()->set_cross_type_ratio(ratio);
  return absl::OkStatus();
}

v1::Objective& ObjectiveOf(Options& o) {
  if (!o.objective.has_value()) o.objective.emplace();
  return *o.objective;
}

absl::Status SetObjective(absl::string_view text, Options& o) {
  for (const auto& [name, kind] : {std::pair{"time", v1::Objective::KIND_TIME},
                                   {"price", v1::Objective::KIND_PRICE},
                                   {"fewest", v1::Objective::KIND_FEWEST}}) {
    if (text != name) continue;
    ObjectiveOf(o).set_kind(kind);
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError("must be time, price or fewest");
}

absl::Status AddSizes(absl::string_view text, Options& o) {
  const size_t equals = text.find('=');
  v1::PoolSizes sizes;
  sizes.set_pool(std::string(text.substr(0, equals)));
  const std::string list(equals == absl::string_view::npos ? "" : text.substr(equals + 1));
  for (const absl::string_view part : absl::StrSplit(list, ',')) {
    uint32_t nodes = 0;
    if (sizes.pool().empty() || !absl::SimpleAtoi(part, &nodes)) {
      return absl::InvalidArgumentError("must be POOL=NODES,NODES,..., fast=0,2,4 for example");
    }
    sizes.add_nodes(nodes);
  }
  o.sizes.push_back(std::move(sizes));
  return absl::OkStatus();
}

absl::StatusOr<double> AboveZero(absl::string_view text) {
  double value = 0;
  if (!absl::SimpleAtod(text, &value) || !(value > 0 && std::isfinite(value))) {
    return absl::InvalidArgumentError("must be a number above 0");
  }
  return value;
}

absl::Status SetSeconds(absl::string_view text, Options& o) {
  const absl::StatusOr<double> value = AboveZero(text);
  if (value.ok()) o.report.set_iteration_seconds(*value);
  return value.status();
}

absl::Status SetRho(absl::string_view text, Options& o) {
  double value = 0;
  if (!absl::SimpleAtod(text, &value) || !(value >= 1 && std::isfinite(value))) {
    return absl::InvalidArgumentError("must be at least 1, 1.2 for a fifth above the mean");
  }
  o.report.set_load_imbalance(value);
  return absl::OkStatus();
}

absl::Status SetPlanId(absl::string_view text, Options& o) {
  if (text.empty()) return absl::InvalidArgumentError("must not be empty");
  o.report.set_plan_id(std::string(text));
  return absl::OkStatus();
}

absl::Status SetFormat(absl::string_view text, Options& o) {
  if (text != "sailor" && text != "metis" && text != "galvatron") {
    return absl::InvalidArgumentError("must be sailor, metis or galvatron");
  }
  o.format = std::string(text);
  return absl::OkStatus();
}

absl::Status SetPrecision(absl::string_view text, Options& o) {
  for (const auto& [name, precision] : {std::pair{"bf16", v1::PRECISION_BF16},
                                        {"fp16", v1::PRECISION_FP16},
                                        {"fp8", v1::PRECISION_FP8},
                                        {"fp32", v1::PRECISION_FP32}}) {
    if (text != name) continue;
    o.layer.set_precision(precision);
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError("must be bf16, fp16, fp8 or fp32");
}

absl::Status SetGated(absl::string_view, Options& o) {
  o.layer.set_gated_mlp(true);
  return absl::OkStatus();
}

absl::Status SetIncludesCommunication(absl::string_view, Options& o) {
  o.layer.set_includes_tensor_communication(true);
  return absl::OkStatus();
}

absl::Status SetSource(absl::string_view text, Options& o) {
  o.layer.set_source(std::string(text));
  return absl::OkStatus();
}

absl::Status SetLicence(absl::string_view text, Options& o) {
  o.layer.set_licence(std::string(text));
  return absl::OkStatus();
}

}  // namespace hapmoe::client::command_line
