#include "server/rpc/call_support.h"

#include <algorithm>
#include <string>
#include <vector>

#include "server/errors/errors.h"
#include "server/log/log.h"

namespace hapmoe::server {

std::chrono::nanoseconds WorkingTime(std::chrono::nanoseconds left) {
  // A twentieth of the time, within these bounds, is kept for building and sending the answer.
  constexpr std::chrono::nanoseconds kLeast = std::chrono::milliseconds(20);
  constexpr std::chrono::nanoseconds kMost = std::chrono::milliseconds(500);
  const std::chrono::nanoseconds margin = std::clamp(left / 20, kLeast, kMost);
  return left > 2 * margin ? left - margin : left / 2;
}

namespace {

// When the caller stops waiting, by the clock that nobody sets; TimePoint::max(): never.
DeadlineTimer::TimePoint DeadlineOf(const grpc::CallbackServerContext& context) {
  const auto deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) {
    return DeadlineTimer::TimePoint::max();
  }
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(
             deadline - std::chrono::system_clock::now());
}

}  // namespace

DeadlineTimer::TimePoint EndOfWork(const grpc::CallbackServerContext& context) {
  const DeadlineTimer::TimePoint deadline = DeadlineOf(context);
  if (deadline == DeadlineTimer::TimePoint::max()) return deadline;
  const DeadlineTimer::TimePoint now = std::chrono::steady_clock::now();
  return now + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                   WorkingTime(deadline - now));
}

namespace {

// Whether it changes what is stored.
bool Writes(Method method) {
  switch (method) {
    case Method::kPutProfile:
    case Method::kDeleteProfile:
    case Method::kReportIteration:
    case Method::kDeleteReport:
      return true;
    case Method::kPlan:
    case Method::kStreamPlan:
    case Method::kEvaluate:
    case Method::kFrontier:
    case Method::kExplain:
    case Method::kGetServerInfo:
    case Method::kGetProfile:
    case Method::kListProfiles:
    case Method::kListReports:
    case Method::kListCorrections:
      return false;
  }
  return true;
}

}  // namespace

Call::Call(CallEnvironment& environment, Method method, const grpc::CallbackServerContext& context,
           size_t request_bytes)
    : environment_(environment),
      method_(method),
      caller_deadline_(DeadlineOf(context)),
      ticket_(environment.registry.Admit(interrupter_)) {
  if (!ticket_.has_value()) {
    admission_ = Error(Reason::kDraining);
  } else if (Writes(method)) {
    admission_ = environment.writers.Check(context.auth_context().get());
  }
  if (!admission_.ok()) return;
  if (environment.request_bytes.Take(request_bytes)) {
    request_bytes_ = request_bytes;
  } else {
    admission_ = QueueFullError(kRetryAfter);
  }
}

Call::~Call() { environment_.request_bytes.Give(request_bytes_); }

void Call::ObeyDeadline(const grpc::CallbackServerContext& context) {
  const DeadlineTimer::TimePoint end = EndOfWork(context);
  if (end == DeadlineTimer::TimePoint::max()) return;
  deadline_ =
      environment_.timer.Call(end, [place = place_] { place->End(Interrupter::Cause::kTime); });
}

void Call::Place::Take(ThreadPool& pool, const std::string& caller, ThreadPool::Ticket ticket) {
  MutexLock lock(mutex_);
  pool_ = &pool;
  caller_ = caller;
  ticket_ = ticket;
}

void Call::Place::Leave() {
  MutexLock lock(mutex_);
  pool_ = nullptr;
}

void Call::Place::End(Interrupter::Cause cause) {
  interrupter_->Trip(cause);
  Hurry();
}

void Call::Place::EndIfTripped() {
  if (interrupter_->tripped()) Hurry();
}

void Call::Place::Hurry() {
  ThreadPool::Task task;
  {
    MutexLock lock(mutex_);
    if (pool_ != nullptr) task = pool_->Withdraw(caller_, ticket_);
  }
  // It finds that it is too late, and answers.
  if (task != nullptr) task();
}

bool Call::Queue(ThreadPool& pool, const std::string& caller, Work work) {
  const std::shared_ptr<Place> place = place_;
  const ThreadPool::Ticket ticket = pool.NewTicket();
  place->Take(pool, caller, ticket);
  const bool queued = pool.Submit(
      [this, work = std::move(work)]() mutable {
        place_->Leave();
        work(Dequeued());
      },
      caller, ticket);
  // If it is queued, the call may have ended by now.
  if (queued) {
    place->EndIfTripped();
  } else {
    place->Leave();
  }
  return queued;
}

std::string CallerOf(const grpc::CallbackServerContext& context) {
  const std::shared_ptr<const grpc::AuthContext> identity = context.auth_context();
  if (identity != nullptr) {
    const std::vector<grpc::string_ref> names = identity->GetPeerIdentity();
    if (!names.empty()) return std::string(names.front().data(), names.front().size());
  }
  // "ipv4:10.0.0.1:41234": each connection has a port of its own.
  const std::string peer = context.peer();
  return peer.substr(0, peer.rfind(':'));
}

absl::Status Call::Dequeued() {
  environment_.metrics.RecordQueueWait(Clock::now() - arrival_);
  switch (interrupter_->cause()) {
    case Interrupter::Cause::kNone:
      return absl::OkStatus();
    case Interrupter::Cause::kCancelled:
      return Error(Reason::kCallCancelled);
    case Interrupter::Cause::kTime:
    case Interrupter::Cause::kMemory:  // Not before it is started.
      break;
  }
  return Error(Reason::kDeadlinePassed, "It waited too long.");
}

grpc::Status Call::Finish(const absl::Status& result, CallOutcome outcome) {
  // Another server has the time that the end of this one took from the call.
  const bool cut_short = environment_.registry.interrupted() && !result.ok() &&
                         ReasonOf(result) == Reason::kDeadlinePassed;
  const absl::Status status = cut_short ? Error(Reason::kDraining) : result;
  const Clock::time_point now = Clock::now();
  environment_.metrics.RecordCall(method_, status, outcome, now - arrival_);
  // Who cancelled does not wait for the answer any more.
  if (now > caller_deadline_) environment_.metrics.RecordOverrun(now - caller_deadline_);
  if (!status.ok() && ReasonOf(status) == Reason::kInternalFault) {
    // Never shown to callers; the text is our own.
    LogLine(Severity::kError, "internal_fault")
        .Add("method", kMethodNames[static_cast<size_t>(method_)])
        .Add("message", status.message());
  }
  return ToGrpc(status);
}

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const google::rpc::Status wire = ToWire(status);
  return grpc::Status(static_cast<grpc::StatusCode>(wire.code()), wire.message(),
                      wire.SerializeAsString());
}

}  // namespace hapmoe::server
