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

DeadlineTimer::TimePoint EndOfWork(const grpc::CallbackServerContext& context) {
  const auto deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) {
    return DeadlineTimer::TimePoint::max();
  }
  const std::chrono::nanoseconds left = deadline - std::chrono::system_clock::now();
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(WorkingTime(left));
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
  deadline_ = environment_.timer.Set(end, interrupter_);
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
  return environment_.registry.draining() ? Error(Reason::kDraining)
                                          : Error(Reason::kDeadlinePassed, "It waited too long.");
}

grpc::Status Call::Finish(const absl::Status& status, CallOutcome outcome) {
  environment_.metrics.RecordCall(method_, status, outcome, Clock::now() - arrival_);
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
