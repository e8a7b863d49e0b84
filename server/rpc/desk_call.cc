#include "server/rpc/desk_call.h"

#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "server/errors/errors.h"

namespace hapmoe::server {
namespace {

// Shares the bytes of an answer for as long as gRPC needs them.
grpc::Slice SliceOf(KeptAnswerPtr answer) {
  auto* const held = new KeptAnswerPtr(std::move(answer));
  const std::string& wire = (*held)->wire;
  return grpc::Slice(
      const_cast<char*>(wire.data()), wire.size(),
      [](void* user_data) { delete static_cast<KeptAnswerPtr*>(user_data); }, held);
}

absl::Status Unreadable() {
  return InvalidError(Reason::kRequestInvalid, {{"request_readable", "request",
                                                 "The bytes are no request of this method."}});
}

CallOutcome OutcomeOf(const absl::Status& status) {
  if (status.ok()) return CallOutcome::kMiss;
  const Reason reason = ReasonOf(status);
  const bool shed = reason == Reason::kQueueFull || reason == Reason::kDraining;
  return shed ? CallOutcome::kShed : CallOutcome::kMiss;
}

}  // namespace

Method DeskCall::MethodOf(AnswerKind kind) {
  switch (kind) {
    case AnswerKind::kPlan:
      break;
    case AnswerKind::kFrontier:
      return Method::kFrontier;
    case AnswerKind::kExplain:
      return Method::kExplain;
  }
  return Method::kPlan;
}

DeskCall* DeskCall::Start(CallEnvironment& environment, PlanDesk& desk, AnswerKind kind,
                          const grpc::CallbackServerContext& context,
                          const grpc::ByteBuffer& request, grpc::ByteBuffer& response) {
  auto* call = new DeskCall(environment, context, desk, kind, request, response);
  if (!call->call_.admission().ok()) {
    call->Answer(call->call_.admission(), CallOutcome::kShed);
    return call;
  }
  if (!call->Split(request)) {
    call->Answer(Unreadable(), CallOutcome::kMiss);
    return call;
  }
  if (const std::optional<PlanReply> reply = desk.FromMemory(kind, call->wire_)) {
    call->Answer(*reply, CallOutcome::kHit);
    return call;
  }
  const PlanDesk::TimePoint end = EndOfWork(context);
  call->caller_ = CallerOf(context);
  call->call_.ObeyDeadline(context);
  const bool queued = call->call_.Queue(environment.light_pool, call->caller_,
                                        [call, end](const absl::Status& late) {
                                          if (!late.ok()) {
                                            call->Answer(late, CallOutcome::kMiss);
                                          } else {
                                            call->Ask(end);
                                          }
                                        });
  if (!queued) {
    call->Answer(QueueFullError(kRetryAfter), CallOutcome::kShed);
  }
  return call;
}

bool DeskCall::Split(const grpc::ByteBuffer& request) {
  const bool whole =
      request.TrySingleSlice(&bytes_).ok() || request.DumpToSingleSlice(&bytes_).ok();
  if (!whole) return false;
  return ReadPlanWire({reinterpret_cast<const char*>(bytes_.begin()), bytes_.size()}, wire_);
}

void DeskCall::Ask(PlanDesk::TimePoint end) {
  switch (kind_) {
    case AnswerKind::kPlan:
      return AskFor<v1::PlanRequest>(end);
    case AnswerKind::kFrontier:
      return AskFor<v1::FrontierRequest>(end);
    case AnswerKind::kExplain:
      return AskFor<v1::ExplainRequest>(end);
  }
}

template <typename Request>
void DeskCall::AskFor(PlanDesk::TimePoint end) {
  Request request;
  if (!request.ParseFromArray(bytes_.begin(), static_cast<int>(bytes_.size()))) {
    return Answer(Unreadable(), CallOutcome::kMiss);
  }
  PlanDesk::Caller caller;
  caller.end = end;
  caller.name = caller_;
  caller.interrupter = call_.interrupter();
  caller.answer = [this](const PlanReply& reply) {
    const bool kept = reply.source == v1::ANSWER_SOURCE_CACHE;
    const CallOutcome outcome = kept ? CallOutcome::kHit : OutcomeOf(reply.answer->status);
    Answer(reply, outcome);
  };
  desk_.Ask(ticket_, request, wire_.asked, std::move(caller));
}

void DeskCall::Answer(const absl::Status& status, CallOutcome outcome) {
  Finish(call_.Finish(status, outcome));
}

void DeskCall::Answer(const PlanReply& reply, CallOutcome outcome) {
  const absl::Status& status = reply.answer->status;
  if (status.ok()) {
    const std::string head = ResponseHead(wire_.request_id, reply.source);
    const grpc::Slice slices[] = {grpc::Slice(head), SliceOf(reply.answer)};
    response_ = grpc::ByteBuffer(slices, 2);
  }
  Answer(status, outcome);
}

}  // namespace hapmoe::server
