// Trips interrupters and calls functions when their time comes.
#ifndef HAPMOE_SERVER_CONCURRENCY_DEADLINE_TIMER_H_
#define HAPMOE_SERVER_CONCURRENCY_DEADLINE_TIMER_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <thread>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "core/base/interrupter.h"
#include "core/base/mutex.h"

namespace hapmoe::server {

// One thread for any number of deadlines. Thread safe. Setting and dropping a deadline cost
// O(log n).
class DeadlineTimer {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // A deadline that is set; dropped when this is destroyed. Used by one thread. Must not outlive
  // the timer.
  class Registration {
   public:
    Registration() = default;
    Registration(Registration&& other) noexcept { *this = std::move(other); }
    Registration& operator=(Registration&& other) noexcept;
    ~Registration() { Drop(); }
    void Drop();

   private:
    friend class DeadlineTimer;
    using Key = std::pair<TimePoint, uint64_t>;
    Registration(DeadlineTimer* timer, Key key) : timer_(timer), key_(key) {}

    DeadlineTimer* timer_ = nullptr;
    Key key_;
  };

  DeadlineTimer();
  ~DeadlineTimer();

  // Trips `interrupter` with Cause::kTime at `when`, at once if that has passed.
  [[nodiscard]] Registration Set(TimePoint when, std::shared_ptr<Interrupter> interrupter);

  // Calls `function` at `when` or soon after, on the timer's thread and without a lock of its own:
  // it must be quick, and may still run, or run next, while its deadline is dropped.
  [[nodiscard]] Registration Call(TimePoint when, absl::AnyInvocable<void()> function);

  // Deadlines that are set and have not passed.
  size_t pending() const;

 private:
  Registration Add(TimePoint when, absl::AnyInvocable<void()> function);
  void Run();

  mutable Mutex mutex_;
  CondVar changed_;  // Signalled when the earliest deadline is a new one, or the timer stops.
  std::map<Registration::Key, absl::AnyInvocable<void()>> deadlines_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_id_ ABSL_GUARDED_BY(mutex_) = 0;  // Tells deadlines at one time apart.
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;  // Last: it uses all of the above.
};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_CONCURRENCY_DEADLINE_TIMER_H_
