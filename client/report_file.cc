#include "client/report_file.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "absl/strings/str_cat.h"
#include "client/text.h"
#include "hapmoe/v1/planner.pb.h"

namespace hapmoe::client {
namespace {

using google::protobuf::Struct;
using google::protobuf::Value;

// Above it a double no longer tells neighbouring numbers apart.
constexpr double kMostBytes = 9007199254740992;

absl::Status Fault(const std::string& path, absl::string_view what) {
  return absl::InvalidArgumentError(Printable(absl::StrCat(path, ": ", what)));
}

template <typename Message>
std::optional<Message> Parse(absl::string_view text) {
  Message message;
  const bool parsed =
      google::protobuf::util::JsonStringToMessage(std::string(text.data(), text.size()), &message)
          .ok();
  return parsed ? std::optional<Message>(std::move(message)) : std::nullopt;
}

// Nothing where the key is not there; a fault where it holds no number.
absl::StatusOr<std::optional<double>> NumberAt(const std::string& path, const Struct& object,
                                               const std::string& key) {
  const auto field = object.fields().find(key);
  if (field == object.fields().end() || field->second.has_null_value()) return std::nullopt;
  if (!field->second.has_number_value()) {
    return Fault(path, absl::StrCat(key, " must be a number"));
  }
  return field->second.number_value();
}

}  // namespace

absl::StatusOr<v1::ExecutionPlan> ParsePlanFile(const std::string& path, absl::string_view text) {
  // What one message has no field for is another message.
  if (const auto answer = Parse<v1::PlanResponse>(text);
      answer.has_value() && answer->answer().has_plan()) {
    return answer->answer().plan();
  }
  if (const auto answer = Parse<v1::EvaluateResponse>(text);
      answer.has_value() && answer->has_plan()) {
    return answer->plan();
  }
  if (const auto answer = Parse<v1::ExplainResponse>(text);
      answer.has_value() && answer->best().has_plan()) {
    return answer->best().plan();
  }
  if (auto plan = Parse<v1::ExecutionPlan>(text); plan.has_value() && !plan->meshes().empty()) {
    return *std::move(plan);
  }
  return Fault(path, "must hold what `plan -o json` or `evaluate -o json` printed");
}

absl::Status AddMeasured(const std::string& path, absl::string_view text,
                         v1::IterationReport& report) {
  const auto summary = Parse<Struct>(text);
  if (!summary.has_value()) return Fault(path, "not a JSON object");
  const auto seconds = NumberAt(path, *summary, "iteration_seconds");
  if (!seconds.ok()) return seconds.status();
  if (!seconds->has_value()) return Fault(path, "iteration_seconds is missing");
  if (report.iteration_seconds() == 0) report.set_iteration_seconds(**seconds);
  if (const auto id = summary->fields().find("plan_id");
      id != summary->fields().end() && report.plan_id().empty()) {
    report.set_plan_id(id->second.string_value());
  }
  const auto rho = NumberAt(path, *summary, "router_imbalance");
  if (!rho.ok()) return rho.status();
  if (rho->has_value() && !report.has_load_imbalance()) report.set_load_imbalance(**rho);
  const auto stages = summary->fields().find("stages");
  if (stages == summary->fields().end()) return absl::OkStatus();
  double allocated = 0;
  double reserved = 0;
  for (const Value& stage : stages->second.list_value().values()) {
    for (auto& [key, most] : {std::pair<const char*, double*>{"peak_allocated_bytes", &allocated},
                              {"peak_reserved_bytes", &reserved}}) {
      const auto bytes = NumberAt(path, stage.struct_value(), key);
      if (!bytes.ok()) return bytes.status();
      if (!bytes->has_value()) continue;
      if (!(**bytes >= 0 && **bytes <= kMostBytes)) {
        return Fault(path, absl::StrCat(key, " must be a number of bytes"));
      }
      *most = std::max(*most, **bytes);
    }
  }
  if (report.allocated_memory_bytes() == 0) {
    report.set_allocated_memory_bytes(static_cast<int64_t>(allocated));
  }
  if (report.reserved_memory_bytes() == 0) {
    report.set_reserved_memory_bytes(static_cast<int64_t>(reserved));
  }
  return absl::OkStatus();
}

}  // namespace hapmoe::client
