// Searches that several callers wait for.
#ifndef HAPMOE_SERVER_PLAN_CACHE_FLIGHTS_H_
#define HAPMOE_SERVER_PLAN_CACHE_FLIGHTS_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "core/base/interrupter.h"
#include "core/base/mutex.h"
#include "server/concurrency/deadline_timer.h"
#include "server/concurrency/thread_pool.h"
#include "server/plan_cache/canonical_request.h"
#include "server/plan_cache/kept_answer.h"
#include "server/plan_cache/question.h"

namespace hapmoe::server {

// Equal requests that come while one of them is searched for wait for that search, without a
// thread. Each has a deadline of its own: whose time ends first gets the best answer that was told
// by then, as it would alone, and the search goes on for the others. It is stopped when nobody
// waits any more.
//
// Thread safe. Made by std::make_shared; must outlive calls that wait.
class Flights : public std::enable_shared_from_this<Flights> {
 public:
  using TimePoint = DeadlineTimer::TimePoint;
  using Ticket = uint64_t;

  // What is told of flights. Thread safe, and quick.
  class Listener {
   public:
    virtual ~Listener() = default;
    // A search starts that waited for a thread for so long.
    virtual void OnStart(std::chrono::nanoseconds waited) = 0;
  };

  struct Options {
    // A search takes no more callers when it has run for so long, so that it ends.
    std::chrono::nanoseconds most_age = std::chrono::seconds(30);
    size_t most_waiters = 16384;                  // More are refused, as by a full queue.
    std::chrono::milliseconds retry_after{1000};  // What those are told.
  };

  // What is searched for.
  struct Order {
    RequestIdentity identity;
    QuestionPtr question;
    std::string asked;   // As PlanCache takes it.
    bool alone = false;  // Neither shares a search nor lets others share it.
  };
  // Who waits.
  struct Waiter {
    std::string caller;  // Whose turn in the queue his search takes; ThreadPool::Submit.
    TimePoint end = TimePoint::max();  // When its call must be answered.
    std::chrono::nanoseconds budget;   // Of search, from when that starts.
    bool store = true;                 // Whether the answer may be kept for its sake.
    // Tripped before Cancel is called.
    std::shared_ptr<const Interrupter> cancelled;
    // Called once, by any thread, without a lock.
    absl::AnyInvocable<void(KeptAnswerPtr answer, v1::AnswerSource source)> answer;
  };
  // Called with an answer that does not depend on the time that its search had, before any waiter
  // is told.
  using Keep = std::function<void(const Order& order, const KeptAnswerPtr& answer)>;

  // All must outlive this. `listener` may be null.
  Flights(ThreadPool& search_pool, ThreadPool& light_pool, DeadlineTimer& timer,
          const Options& options, Keep keep, Listener* listener);

  Ticket NewTicket() { return next_ticket_.fetch_add(1, std::memory_order_relaxed); }

  enum class Boarded { kLeads, kShares, kKept, kRefused };
  using Told = absl::FunctionRef<void(Boarded)>;
  // Lets a caller wait for a search, and starts that where there is none. `recheck` is called with
  // the lock held where there is none: an answer that was kept a moment ago is taken then, and
  // nobody waits. `told` is called before the waiter is answered, with or without the lock; that
  // may be before this returns.
  void Join(Ticket ticket, Order order, Waiter waiter, absl::FunctionRef<KeptAnswerPtr()> recheck,
            Told told);

  // The caller went away; it is answered at once if it waits.
  void Cancel(Ticket ticket);

  // No caller waits longer: searches are asked for the best plan that they have, and those that
  // have not begun are refused, with all that come later.
  void EndAll();

  // The same, and waits for searches that nobody waits for any more, and for answers that are being
  // given, to end: pools and timer are not used after this.
  void End();

  size_t flying() const;   // Searches that somebody waits for.
  size_t waiting() const;  // Callers.

 private:
  struct Flight;
  using SoFar = Question::SoFar;
  using FlightPtr = std::shared_ptr<Flight>;
  class Observer;
  struct Passenger {
    FlightPtr flight;
    Waiter waiter;
    TimePoint boarded;
    DeadlineTimer::Registration timer;
    bool shares = false;
    bool overdue = false;  // Its time is over, and there is nothing to answer with yet.
  };
  // An answer on its way to a waiter, when the lock is not held any more.
  struct Delivery {
    Waiter waiter;
    KeptAnswerPtr answer;
    v1::AnswerSource source = v1::ANSWER_SOURCE_UNSPECIFIED;
  };
  using Deliveries = std::vector<Delivery>;
  static void Deliver(Deliveries deliveries);

  // When a passenger's time is over.
  static TimePoint EndOf(const Passenger& passenger);
  void SetTimer(Ticket ticket, Passenger& passenger) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  FlightPtr FindOpen(const Order& order, TimePoint now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes no more passengers.
  void Close(Flight& flight) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes a passenger out of its flight.
  Delivery Remove(Ticket ticket, KeptAnswerPtr answer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RemoveAll(Flight& flight, const KeptAnswerPtr& answer, Deliveries& deliveries)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // A search that nobody waits for needs no place in the queue.
  void LeaveQueueIfEmpty(Flight& flight);
  void Fly(const FlightPtr& flight);  // On a thread of the search pool.
  void OnTimeOver(Ticket ticket);     // On the timer's thread.
  void LeaveWork();                   // Which was counted in `at_work_`.
  // Answers waiters, taken out of the flight before, with what was told of its search.
  void AnswerSoFar(const FlightPtr& flight, Deliveries deliveries);

  ThreadPool& search_pool_;
  ThreadPool& light_pool_;
  DeadlineTimer& timer_;
  const Options options_;
  const Keep keep_;
  Listener* const listener_;
  std::atomic<Ticket> next_ticket_{1};

  mutable Mutex mutex_;
  // Flights that take passengers, by form. More than one where profiles changed meanwhile.
  absl::flat_hash_map<std::string, std::vector<FlightPtr>> open_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<Ticket, std::unique_ptr<Passenger>> passengers_ ABSL_GUARDED_BY(mutex_);
  std::vector<FlightPtr> flights_ ABSL_GUARDED_BY(mutex_);  // With passengers.
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  int at_work_ ABSL_GUARDED_BY(mutex_) = 0;  // Searches, and answers before a search has ended.
  CondVar idle_;                             // Signalled when that becomes 0.
};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_PLAN_CACHE_FLIGHTS_H_
