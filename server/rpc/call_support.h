// What every call shares: the server's parts, admission, deadlines and accounting.
#ifndef HAPMOE_SERVER_RPC_CALL_SUPPORT_H_
#define HAPMOE_SERVER_RPC_CALL_SUPPORT_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "core/base/interrupter.h"
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
  // gets there. For calls that may take long.
  void ObeyDeadline(const grpc::CallbackServerContext& context);

  // OK, or what the call must be answered with at once: the server drains, the client may not do
  // this, or requests have too many bytes together.
  const absl::Status& admission() const { return admission_; }

  const std::shared_ptr<Interrupter>& interrupter() const { return interrupter_; }
  CallEnvironment& environment() const { return environment_; }

  // The caller went away. Thread safe.
  void Cancel() { interrupter_->Trip(Interrupter::Cause::kCancelled); }

  // A thread took the call from the queue: an error if it is too late to start.
  absl::Status Dequeued();

  // Counts the call and returns what gRPC is to send. Once a call, before it is finished.
  grpc::Status Finish(const absl::Status& status, CallOutcome outcome);

 private:
  using Clock = std::chrono::steady_clock;

  CallEnvironment& environment_;
  const Method method_;
  const Clock::time_point arrival_ = Clock::now();
  size_t request_bytes_ = 0;  // Taken of the bound.
  const std::shared_ptr<Interrupter> interrupter_ = std::make_shared<Interrupter>();
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
