#include "server/rpc/stream_plan_call.h"

#include <optional>
#include <string>
#include <utility>

#include "server/errors/errors.h"

namespace hapmoe::server {

StreamPlanCall* StreamPlanCall::Start(CallEnvironment& environment, PlanDesk& desk,
                                      const grpc::CallbackServerContext& context,
                                      const v1::StreamPlanRequest& request) {
  auto* call = new StreamPlanCall(environment, context, request, desk);
  if (!call->call_.admission().ok()) {
    call->Answer(call->call_.admission(), CallOutcome::kShed, std::nullopt);
    return call;
  }
  call->call_.ObeyDeadline(context);
  call->caller_ = CallerOf(context);
  const bool queued = call->call_.Queue(environment.light_pool, call->caller_,
                                        [call, &request](const absl::Status& late) {
                                          if (!late.ok()) {
                                            call->Answer(late, CallOutcome::kMiss, std::nullopt);
                                          } else {
                                            call->Open(request);
                                          }
                                        });
  if (!queued) call->Answer(QueueFullError(kRetryAfter), CallOutcome::kShed, std::nullopt);
  return call;
}

void StreamPlanCall::Open(const v1::StreamPlanRequest& request) {
  // Both requests have the same fields.
  v1::PlanRequest asked;
  const std::string bytes = request.SerializeAsString();
  PlanWire wire;
  if (!asked.ParseFromString(bytes) || !ReadPlanWire(bytes, wire)) {
    return Answer(absl::InternalError("StreamPlanRequest is no PlanRequest"), CallOutcome::kMiss,
                  std::nullopt);
  }
  PlanDesk::Opened opened = desk_.Open(asked, wire.asked);
  if (opened.reply.has_value()) {
    const bool kept = opened.reply->source == v1::ANSWER_SOURCE_CACHE;
    return Answer(*opened.reply, kept ? CallOutcome::kHit : CallOutcome::kMiss);
  }
  const bool queued =
      call_.Queue(call_.environment().search_pool, caller_,
                  [this, order = std::move(opened.order)](const absl::Status& late) {
                    if (!late.ok()) return Answer(late, CallOutcome::kMiss, std::nullopt);
                    Search(*order);
                  });
  if (!queued) Answer(QueueFullError(kRetryAfter), CallOutcome::kShed, std::nullopt);
}

void StreamPlanCall::Search(PlanDesk::Order& order) {
  Answer({desk_.Search(order, call_.interrupter(), this), v1::ANSWER_SOURCE_SEARCH},
         CallOutcome::kMiss);
}

void StreamPlanCall::Answer(const PlanReply& reply, CallOutcome outcome) {
  if (!reply.answer->status.ok()) return Answer(reply.answer->status, outcome, std::nullopt);
  v1::StreamPlanResponse last;
  v1::PlanResponse kept;
  kept.ParseFromString(reply.answer->wire);
  last.mutable_answer()->Swap(kept.mutable_answer());
  last.set_source(reply.source);
  Answer(absl::OkStatus(), outcome, std::move(last));
}

void StreamPlanCall::OnProgress(const v1::Progress& progress) {
  v1::StreamPlanResponse message;
  *message.mutable_progress() = progress;
  Perform(outbox_.Offer(kProgress, std::move(message)));
}

void StreamPlanCall::OnIncumbent(v1::PlanAnswer answer) {
  v1::StreamPlanResponse message;
  *message.mutable_incumbent() = std::move(answer);
  Perform(outbox_.Offer(kIncumbent, std::move(message)));
}

void StreamPlanCall::OnWriteDone(bool ok) {
  if (!ok) call_.Cancel();  // Nobody reads any more.
  Perform(outbox_.WriteDone());
}

void StreamPlanCall::Answer(const absl::Status& status, CallOutcome outcome,
                            std::optional<v1::StreamPlanResponse> answer) {
  status_ = call_.Finish(status, outcome);
  Perform(outbox_.Close(std::move(answer)));
}

void StreamPlanCall::Perform(Messages::Step step) {
  if (step.message.has_value()) {
    current_ = *std::move(step.message);
    if (step.finish) {
      StartWriteAndFinish(&current_, grpc::WriteOptions(), status_);
    } else {
      StartWrite(&current_);
    }
  } else if (step.finish) {
    Finish(status_);
  }
}

}  // namespace hapmoe::server
