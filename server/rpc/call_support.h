// What every call shares: the server's parts, admission, deadlines and accounting.
#ifndef HAPMOE_SERVER_RPC_CALL_SUPPORT_H_
#define HAPMOE_SERVER_RPC_CALL_SUPPORT_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "core/base/interrupter.h"
#include "core/base/mutex.h"
#include "server/concurrency/byte_bound.h"
#include "server/concurrency/call_registry.h"
#include "server/concurrency/deadline_timer.h"
#include "server/concurrency/thread_pool.h"
#include "server/metrics/metrics.h"
#include "server/security/writers.h"

namespace hapmoe::server {

// Parts of the server that calls use. All outlive every call.
struct CallEnvironment {
  CallRegistry& registry;
  DeadlineTimer& timer;
  ThreadPool& search_pool;  // For calls that search.
  // For calls that are short but must not hold up a gRPC thread. Never behind those that search.
  ThreadPool& light_pool;
  // For calls that wait for reports to be fitted, which nothing else shall wait for.
  ThreadPool& feedback_pool;
  // For calls that wait for the storage of profiles.
  ThreadPool& storage_pool;
  ByteBound& request_bytes;  // Of requests that are not answered yet.
  Metrics& metrics;
  const Writers& writers;
};

// One call from its arrival to its answer.
//
// Thread safe where a comment says so; otherwise used by one thread at a time.
class Call {
 public:
  // `request_bytes`: of the request as it travelled.
  Call(CallEnvironment& environment, Method method, const grpc::CallbackServerContext& context,
       size_t request_bytes);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // Trips the interrupter shortly before the caller's deadline, so that an answer in hand still
  // gets there; work that still waits for a thread then need not wait any longer. For calls that
  // may take long.
  void ObeyDeadline(const grpc::CallbackServerContext& context);

  // Has work done by a thread of the pool, in the turn of `caller`; false, at once, if its queue is
  // full. `work` is called once: with OK, or where it is too late to start with the error to answer
  // with, then by any thread, as soon as that is clear. A call has one piece of work at a time.
  using Work = absl::AnyInvocable<void(const absl::Status& late)>;
  [[nodiscard]] bool Queue(ThreadPool& pool, const std::string& caller, Work work);

  // OK, or what the call must be answered with at once: the server drains, the client may not do
  // this, or requests have too many bytes together.
  const absl::Status& admission() const { return admission_; }

  const std::shared_ptr<Interrupter>& interrupter() const { return interrupter_; }
  CallEnvironment& environment() const { return environment_; }

  // The caller went away. Thread safe. The call may have ended when this returns.
  void Cancel() { place_->End(Interrupter::Cause::kCancelled); }

  // Counts the call and returns what gRPC is to send: `result`, or DRAINING where only the end of
  // the server left it no time. Once a call, before it is finished.
  grpc::Status Finish(const absl::Status& result, CallOutcome outcome);

 private:
  using Clock = std::chrono::steady_clock;

  // What the call's work waits in. Thread safe; outlives the call where a timer runs late.
  class Place {
   public:
    explicit Place(std::shared_ptr<Interrupter> interrupter)
        : interrupter_(std::move(interrupter)) {}

    // The work waits there until it leaves. The pool need not outlive that.
    void Take(ThreadPool& pool, const std::string& caller, ThreadPool::Ticket ticket);
    void Leave();
    // There is no use in waiting: trips the interrupter, and has work that waits come to its end.
    void End(Interrupter::Cause cause);
    // The same where that was so before the work was in the queue.
    void EndIfTripped();

   private:
    void Hurry();

    const std::shared_ptr<Interrupter> interrupter_;
    Mutex mutex_;
    ThreadPool* pool_ ABSL_GUARDED_BY(mutex_) = nullptr;  // Null: no work waits.
    std::string caller_ ABSL_GUARDED_BY(mutex_);
    ThreadPool::Ticket ticket_ ABSL_GUARDED_BY(mutex_) = ThreadPool::kNoTicket;
  };

  // A thread took the call from the queue: an error if it is too late to start.
  absl::Status Dequeued();

  CallEnvironment& environment_;
  const Method method_;
  const Clock::time_point arrival_ = Clock::now();
  const Clock::time_point caller_deadline_;  // time_point::max(): none.
  size_t request_bytes_ = 0;                 // Taken of the bound.
  const std::shared_ptr<Interrupter> interrupter_ = std::make_shared<Interrupter>();
  const std::shared_ptr<Place> place_ = std::make_shared<Place>(interrupter_);
  std::optional<CallRegistry::Ticket> ticket_;
  absl::Status admission_;
  DeadlineTimer::Registration deadline_;
};

// The form that travels, details included.
grpc::Status ToGrpc(const absl::Status& status);

// Who calls, as far as queues are to be fair: the name on his certificate, else the host that he
// calls from.
std::string CallerOf(const grpc::CallbackServerContext& context);

// When work for a call must stop so that its answer is in time, given the time left to its
// deadline.
std::chrono::nanoseconds WorkingTime(std::chrono::nanoseconds left);

// The same as a time, for a call that arrives now; TimePoint::max() where it has no deadline.
DeadlineTimer::TimePoint EndOfWork(const grpc::CallbackServerContext& context);

// How long a caller is told to wait when the queue is full.
inline constexpr std::chrono::milliseconds kRetryAfter{1000};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_RPC_CALL_SUPPORT_H_
