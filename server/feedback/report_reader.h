// Reads a report into an observation that core can fit, or into the error that its caller sees.
#ifndef HAPMOE_SERVER_FEEDBACK_REPORT_READER_H_
#define HAPMOE_SERVER_FEEDBACK_REPORT_READER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/violation.h"
#include "core/feedback/calibration.h"
#include "hapmoe/v1/feedback.pb.h"
#include "server/planning/corrections.h"
#include "server/planning/engine_catalog.h"
#include "server/profile_store/profile_catalog.h"

namespace hapmoe::server {

// A report that was measured longer ago says nothing any more.
inline constexpr absl::Duration kMostReportAge = absl::Hours(24 * 730);
// A time that misses the prediction by more, either way, is a wrong unit or a wrong plan.
inline constexpr double kMostTimeRatio = 100;

struct ReadReport {
  feedback::Observation observation;      // Its age is left out.
  std::vector<std::string> accelerators;  // Names of the profiles that the plan uses, each once.
  absl::Time measured_at;
  double predicted_seconds = 0;  // By the profiles alone.
};

// Figures that no run can have, whatever ran: those that are no numbers, below their least, or of
// the future.
void CheckFigures(const v1::IterationReport& report, absl::Time now, Violations& violations);

// Whether plan_id is the id of the layout of the job's own arguments, as Evaluate answers it with
// these corrections or without any. Errors are those of Evaluate.
absl::StatusOr<bool> IsOwnLayout(const v1::IterationReport& report, const ProfileCatalog& catalog,
                                 const EngineCatalog& engines,
                                 const std::shared_ptr<const CorrectedProfiles>& corrections);

// A report with a job and a cluster: one that names its plan alone was completed before. Fields of
// faults are paths of ReportIterationRequest.
absl::StatusOr<ReadReport> ReadIterationReport(const v1::IterationReport& report,
                                               const ProfileCatalog& catalog,
                                               const EngineCatalog& engines, absl::Time now);

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_FEEDBACK_REPORT_READER_H_
