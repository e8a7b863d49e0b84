// Reports of measured iterations, and the corrections that follow from them.
#ifndef HAPMOE_SERVER_FEEDBACK_FEEDBACK_STORE_H_
#define HAPMOE_SERVER_FEEDBACK_FEEDBACK_STORE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/feedback/calibration.h"
#include "hapmoe/v1/feedback.pb.h"
#include "server/concurrency/mutex.h"
#include "server/concurrency/snapshot.h"
#include "server/feedback/known_plans.h"
#include "server/feedback/report_reader.h"
#include "server/feedback/report_storage.h"
#include "server/planning/corrections.h"
#include "server/planning/engine_catalog.h"
#include "server/profile_store/profile_store.h"

namespace hapmoe::server {

// Reports beside the profiles that they are about. Of each accelerator type and of each plan the
// latest are kept, none longer than kMostReportAge.
//
// Thread safe. Reading takes an immutable state and does not wait for a writer, except where the
// profiles or the day changed: then all reports are fitted once more, by the first who asks. Report
// and Delete fit those that share accelerator types with the report, and may block on the storage:
// they are not for gRPC's threads.
class FeedbackStore : public CorrectionsSource {
 public:
  struct Options {
    const ProfileStore* profiles = nullptr;  // Never null; outlives the store.
    const EngineCatalog* engines = nullptr;  // The same.
    std::unique_ptr<ReportStorage> storage;  // Never null.
    std::function<absl::Time()> clock = absl::Now;
    size_t most_reports_of_type = 64;
    size_t most_reports_of_plan = 8;
  };

  // Reports that cannot be read are left out and reported in faults(); those that do not fit the
  // profiles any more are kept, and count for nothing until they do again. Fails only if the
  // storage cannot be read at all.
  static absl::StatusOr<std::unique_ptr<FeedbackStore>> Open(Options options);

  // Errors as FeedbackService documents, with details.
  struct Reported {
    v1::ReportIterationResponse response;
    std::vector<std::string> accelerators;  // Types that the plan uses.
  };
  absl::StatusOr<Reported> Report(const v1::IterationReport& report);
  absl::Status Delete(const std::string& name);
  absl::StatusOr<v1::ListReportsResponse> List(const v1::ListReportsRequest& request);
  v1::ListCorrectionsResponse Corrections();

  std::shared_ptr<const CorrectedProfiles> Current(const ProfileCatalog& catalog) override;
  void Remember(const std::string& plan_id, v1::IterationReport ran) override;

  // What was refused when the store was opened.
  const std::vector<LoadFault>& faults() const { return faults_; }

  // For metrics; without a wait. 1 and 0 where a type has no reports.
  double Factor(const std::string& accelerator, profile::Term term) const;
  double Reports(const std::string& accelerator) const;

 private:
  struct Kept {
    v1::IterationReport report;
    std::optional<ReadReport> read;  // Nothing where it does not fit the profiles.
    std::vector<std::string> types;  // Of `read`, as it was last; none where it never was.
  };
  // All that readers see.
  struct State {
    int64_t catalog_version = 0;
    int64_t day = 0;
    CorrectedProfiles corrected;
    std::map<std::string, feedback::TypeCalibration> types;        // By accelerator.
    std::vector<v1::StoredReport> reports;                         // By name.
    std::map<std::string, std::vector<std::string>> accelerators;  // Of reports, by name.
  };

  explicit FeedbackStore(Options options);

  // A report that names what ran by its id, with what that is.
  absl::StatusOr<v1::IterationReport> Complete(const v1::IterationReport& report);
  std::shared_ptr<const State> StateFor(const ProfileCatalog& catalog);
  std::string NewName(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Drops what is too old or too much, of reports that do not fit the profiles apart from the
  // others. A record that cannot be removed now is dropped some time after the next start.
  void Bound(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReadAll(const ProfileCatalog& catalog, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Names of reports that share accelerator types, directly or by way of others.
  std::vector<std::vector<std::string>> Groups() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::shared_ptr<const feedback::Calibration> Fit(const std::vector<std::string>& group,
                                                   absl::Time now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Fits what changed, and shows it to readers.
  void Show(const ProfileCatalog& catalog, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Reads reports again where the profiles changed, bounds them, and shows them.
  void Publish(const ProfileCatalog& catalog, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  std::vector<LoadFault> faults_;  // Not changed after Open.
  KnownPlans known_;

  mutable Mutex mutex_;  // One writer at a time, through its fit and its write to the storage.
  std::map<std::string, Kept> reports_ ABSL_GUARDED_BY(mutex_);  // By name: by time of arrival.
  int64_t last_name_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::vector<std::string>, std::shared_ptr<const feedback::Calibration>> fits_
      ABSL_GUARDED_BY(mutex_);

  Snapshot<State> state_;
};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_FEEDBACK_FEEDBACK_STORE_H_
