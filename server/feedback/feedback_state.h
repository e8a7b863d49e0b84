// Corrections of all accelerator types together, as they follow from one set of reports.
#ifndef HAPMOE_SERVER_FEEDBACK_FEEDBACK_STATE_H_
#define HAPMOE_SERVER_FEEDBACK_FEEDBACK_STATE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/base/interrupter.h"
#include "core/feedback/calibration.h"
#include "hapmoe/v1/feedback.pb.h"
#include "server/feedback/report_reader.h"
#include "server/planning/corrections.h"
#include "server/planning/engine_catalog.h"
#include "server/profile_store/profile_catalog.h"

namespace hapmoe::server {

// A report that is kept. What it points at never changes, so that copies are cheap.
struct KeptReport {
  std::shared_ptr<const v1::IterationReport> report;
  std::shared_ptr<const ReadReport> read;  // Null where it does not fit the profiles.
  std::vector<std::string> types;          // Of `read`, as it was last; none where it never was.
  int64_t catalog_version = 0;             // Of the profiles that it was read with; 0 for none.
};
using KeptReports = std::map<std::string, KeptReport>;  // By name: by time of arrival.

// What one set of reports says. Immutable once it is shown.
struct FeedbackState {
  int64_t catalog_version = 0;
  int64_t day = 0;
  size_t reports = 0;
  CorrectedProfiles corrected;
  std::map<std::string, feedback::TypeCalibration> types;          // By accelerator.
  std::map<std::string, feedback::Calibration::Verdict> verdicts;  // By name, of those that count.
};

// Days since 1970: reports age by the day.
int64_t DayOf(absl::Time time);

// Reads those reports again that were read with other profiles than they would be now; some of them
// where `interrupter` trips.
void ReadAgain(const ProfileCatalog& catalog, const EngineCatalog& engines, absl::Time now,
               const Interrupter& interrupter, KeptReports& reports);

// Fits reports, those again whose group has changed. Used by one thread at a time.
class FeedbackFitter {
 public:
  // Of reports that were read with the profiles of `catalog_version`. Null where `interrupter`
  // tripped.
  std::shared_ptr<const FeedbackState> Fit(const KeptReports& reports, int64_t catalog_version,
                                           absl::Time now, const Interrupter& interrupter);

 private:
  // Reports that share accelerator types, in the order of their names.
  using Group = std::vector<std::shared_ptr<const ReadReport>>;
  // What a group says. Types that it says the same of as before keep their corrected profiles, by
  // which others know that nothing has changed.
  struct Fitted {
    feedback::Calibration calibration;
    CorrectedProfiles corrected;
  };

  std::map<Group, std::shared_ptr<const Fitted>> fits_;  // Of the last state.
  int64_t day_ = 0;                                      // Of fits_.
};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_FEEDBACK_FEEDBACK_STATE_H_
