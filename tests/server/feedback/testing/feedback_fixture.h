// A store of reports with a planner over it, as the server has them.
#ifndef HAPMOE_TESTS_SERVER_FEEDBACK_TESTING_FEEDBACK_FIXTURE_H_
#define HAPMOE_TESTS_SERVER_FEEDBACK_TESTING_FEEDBACK_FIXTURE_H_

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "server/concurrency/deadline_timer.h"
#include "server/concurrency/thread_pool.h"
#include "server/feedback/feedback_store.h"
#include "server/planning/planner.h"
#include "server/storage/memory_storage.h"
#include "tests/server/testing/built_in.h"
#include "tests/server/testing/requests.h"

namespace hapmoe::server {

// Holds threads while it is closed. Thread safe.
class Gate {
 public:
  void Close() {
    MutexLock lock(mutex_);
    closed_ = true;
  }
  void Open() {
    MutexLock lock(mutex_);
    closed_ = false;
    changed_.NotifyAll();
  }
  void Pass() {
    MutexLock lock(mutex_);
    ++waiting_;
    changed_.NotifyAll();
    while (closed_) changed_.Wait(mutex_);
    --waiting_;
    ++passed_;
  }
  int passed() {
    MutexLock lock(mutex_);
    return passed_;
  }
  // Until some thread is held.
  void AwaitHeld() {
    MutexLock lock(mutex_);
    while (waiting_ == 0) changed_.Wait(mutex_);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  int passed_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Used by the thread that made it, but for Evaluate and Plan.
class FeedbackFixture {
 public:
  explicit FeedbackFixture(
      std::shared_ptr<RecordStorage> storage = std::make_shared<MemoryStorage>(),
      size_t most_of_type = 64)
      : profiles_(BuiltInProfiles()), engines_(BuiltInEngines()), pool_(1, 8) {
    FeedbackStore::Options options;
    options.profiles = profiles_.get();
    options.engines = &engines_;
    options.clock = [this, caller = std::this_thread::get_id()] {
      if (std::this_thread::get_id() != caller) fits_.Pass();
      return absl::FromUnixSeconds(now_);
    };
    options.most_reports_of_type = most_of_type;
    options.storage = std::move(storage);
    store_ = FeedbackStore::Open(std::move(options)).value();
    planner_ = std::make_unique<Planner>(*profiles_, engines_, solver_, pool_, timer_,
                                         Planner::Options(), store_.get());
  }
  ~FeedbackFixture() { fits_.Open(); }

  FeedbackStore& store() { return *store_; }
  ProfileStore& profiles() { return *profiles_; }
  void Pass(absl::Duration time) { now_ += absl::ToInt64Seconds(time); }
  // Passed by every fit before it begins, and by other threads than the fixture's own wherever the
  // store asks for the time.
  Gate& fits() { return fits_; }

  v1::EvaluateResponse Evaluate(const v1::EvaluateRequest& request = SmallEvaluateRequest()) {
    return planner_->Evaluate(request).value();
  }
  v1::PlanAnswer Plan(const v1::PlanRequest& request = SmallPlanRequest()) {
    return planner_->Plan("", request.problem(), std::make_shared<Interrupter>(), nullptr).value();
  }

 private:
  std::atomic<int64_t> now_ = 1'800'000'000;  // Seconds since 1970.
  Gate fits_;
  std::unique_ptr<ProfileStore> profiles_;
  EngineCatalog engines_;
  SearchSolver solver_;
  DeadlineTimer timer_;
  ThreadPool pool_;
  std::unique_ptr<FeedbackStore> store_;
  std::unique_ptr<Planner> planner_;
};

// What a report says of the layout of the request's own arguments.
inline v1::IterationReport ReportOf(const v1::EvaluateRequest& request, double seconds) {
  v1::IterationReport report;
  *report.mutable_job() = request.job();
  *report.mutable_cluster() = request.cluster();
  report.set_iteration_seconds(seconds);
  return report;
}

inline double SecondsOf(const v1::EvaluateResponse& response) {
  return response.prediction().iteration_seconds();
}

}  // namespace hapmoe::server

#endif  // HAPMOE_TESTS_SERVER_FEEDBACK_TESTING_FEEDBACK_FIXTURE_H_
