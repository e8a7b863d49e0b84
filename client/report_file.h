// Files that a report is made from: a plan as `plan` and `evaluate` print it, and what the warm-up
// profiler measured.
#ifndef HAPMOE_CLIENT_REPORT_FILE_H_
#define HAPMOE_CLIENT_REPORT_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "hapmoe/v1/feedback.pb.h"

namespace hapmoe::client {

// Errors are INVALID_ARGUMENT and name `path`.

// The plan in the JSON answer of `plan`, `evaluate` or `explain`, or a plan alone.
absl::StatusOr<v1::ExecutionPlan> ParsePlanFile(const std::string& path, absl::string_view text);

// Fills in what a profiler's summary says and the report does not yet: {"plan_id",
// "iteration_seconds", "router_imbalance", "stages": [{"peak_allocated_bytes",
// "peak_reserved_bytes"}]}, where other keys are passed over. Of memory the fullest stage counts.
absl::Status AddMeasured(const std::string& path, absl::string_view text,
                         v1::IterationReport& report);

}  // namespace hapmoe::client

#endif  // HAPMOE_CLIENT_REPORT_FILE_H_
