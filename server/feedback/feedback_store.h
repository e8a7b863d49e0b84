// Reports of measured iterations, and the corrections that follow from them.
#ifndef HAPMOE_SERVER_FEEDBACK_FEEDBACK_STORE_H_
#define HAPMOE_SERVER_FEEDBACK_FEEDBACK_STORE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/interrupter.h"
#include "core/base/mutex.h"
#include "hapmoe/v1/feedback.pb.h"
#include "server/concurrency/snapshot.h"
#include "server/feedback/feedback_state.h"
#include "server/feedback/known_plans.h"
#include "server/planning/corrections.h"
#include "server/planning/engine_catalog.h"
#include "server/profile_store/profile_store.h"
#include "server/storage/record_storage.h"

namespace hapmoe::server {

// Reports beside the profiles that they are about. Of each accelerator type and of each plan the
// latest are kept, none longer than kMostReportAge. Several servers may share a storage: Refresh
// takes in what others reported.
//
// Thread safe. A thread of the store's own fits reports, one set of them at a time, and shows what
// follows as one immutable state: what is predicted meanwhile is by the state before, and by plain
// profiles where these changed since. Report, Delete, List and Corrections may block on the storage
// and wait, at most `until`, for what they change or ask for to be fitted: they are not for gRPC's
// threads, nor for those of calls that predict.
class FeedbackStore : public CorrectionsSource {
 public:
  struct Options {
    const ProfileStore* profiles = nullptr;         // Never null; outlives the store.
    const EngineCatalog* engines = nullptr;         // The same.
    std::shared_ptr<RecordStorage> storage;         // Never null.
    std::function<absl::Time()> clock = absl::Now;  // Thread safe.
    size_t most_reports_of_type = 64;
    size_t most_reports_of_plan = 8;
  };

  using TimePoint = std::chrono::steady_clock::time_point;

  // Reports that cannot be read, or hold figures that Report would refuse whatever the profiles,
  // are left out and told in faults(); those that do not fit the profiles any more are kept, and
  // count for nothing until they do again. Fails only if the storage cannot be read at all.
  static absl::StatusOr<std::unique_ptr<FeedbackStore>> Open(Options options);
  // Stops a fit that is under way. No call may be.
  ~FeedbackStore() override;

  // Errors as FeedbackService documents, with details. Once this is OK the report is on the disk.
  struct Reported {
    v1::ReportIterationResponse response;
    std::vector<std::string> accelerators;  // Types that the plan uses.
  };
  absl::StatusOr<Reported> Report(const v1::IterationReport& report,
                                  TimePoint until = TimePoint::max());
  absl::Status Delete(const std::string& name, TimePoint until = TimePoint::max());
  absl::StatusOr<v1::ListReportsResponse> List(const v1::ListReportsRequest& request,
                                               TimePoint until = TimePoint::max());
  v1::ListCorrectionsResponse Corrections(TimePoint until = TimePoint::max());

  // Takes in what other servers stored, and asks for it to be fitted. Returns what was refused; an
  // error if the storage cannot be read. May block on the storage.
  absl::StatusOr<std::vector<LoadFault>> Refresh();

  // Where else plans may be known, by their ids. Before the first call; thread safe.
  using MorePlans = std::function<std::optional<v1::IterationReport>(const std::string& plan_id)>;
  void SetMorePlans(MorePlans more_plans) { more_plans_ = std::move(more_plans); }

  // From now on, and in calls under way, nothing waits for a fit.
  void EndWaits();

  // Waits for nothing.
  std::shared_ptr<const CorrectedProfiles> Current(const ProfileCatalog& catalog) override;
  void Remember(const std::string& plan_id, v1::IterationReport ran) override;

  // What was refused when the store was opened.
  const std::vector<LoadFault>& faults() const { return faults_; }

  // For metrics; without a wait. 1 and 0 where a type has no reports.
  double Factor(const std::string& accelerator, profile::Term term) const;
  double Reports(const std::string& accelerator) const;

 private:
  explicit FeedbackStore(Options options);

  // A report that names what ran by its id, with what that is.
  absl::StatusOr<v1::IterationReport> Complete(const v1::IterationReport& report);
  std::string NewName(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether anything changed.
  bool TakeStored(const RecordContents& contents, std::vector<LoadFault>& faults)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Stores a report under a new name, which is put into it.
  absl::Status Store(v1::StoredReport& stored, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Remove(const std::set<std::string>& names) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Drops what is too old or too much, of reports that do not fit the profiles apart from the
  // others. Records that cannot be removed now are dropped some time after the next start.
  void Bound(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  bool IsStale(const FeedbackState& state, const ProfileCatalog& catalog) const;
  // Asks for a round of fits that starts from the reports of now; returns its number.
  int64_t AskForFit();
  // Whether the round ended in time.
  bool AwaitFit(int64_t round, TimePoint until);
  // The state of now, or what there is of it in time.
  std::shared_ptr<const FeedbackState> Fresh(TimePoint until);
  // What the store's own thread does: a round whenever one is asked for.
  void RunRounds();
  // One round. `bound`: whether reports may be dropped.
  void Refit(bool bound);

  const Options options_;
  std::vector<LoadFault> faults_;  // Not changed after Open.
  KnownPlans known_;
  MorePlans more_plans_;  // Not changed after the first call.

  Mutex mutex_;  // One writer at a time, through its write to the storage, not through fits.
  KeptReports reports_ ABSL_GUARDED_BY(mutex_);
  int64_t last_name_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t stored_version_ ABSL_GUARDED_BY(mutex_) = 0;  // Of what the storage held when last read.

  Mutex rounds_mutex_;  // Held for a moment only.
  CondVar asked_for_;   // Signalled when a round is asked for, or the store ends.
  CondVar ended_;       // Signalled when a round ends, or waits do.
  // Numbers of rounds: the last that is asked for, that began and that ended.
  int64_t asked_ ABSL_GUARDED_BY(rounds_mutex_) = 0;
  int64_t begun_ ABSL_GUARDED_BY(rounds_mutex_) = 0;
  int64_t done_ ABSL_GUARDED_BY(rounds_mutex_) = 0;
  bool waits_ended_ ABSL_GUARDED_BY(rounds_mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(rounds_mutex_) = false;
  Interrupter stop_;

  FeedbackFitter fitter_;  // Used by Open, then by the store's own thread.
  Snapshot<FeedbackState> state_;

  std::thread thread_;  // Last: it uses all of the above.
};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_FEEDBACK_FEEDBACK_STORE_H_
