#include "server/rpc/stream_plan_call.h"

#include <optional>
#include <utility>

#include "server/errors/errors.h"

namespace hapmoe::server {

StreamPlanCall* StreamPlanCall::Start(CallEnvironment& environment, const Planner& planner,
                                      const grpc::CallbackServerContext& context,
                                      const v1::StreamPlanRequest& request) {
  auto* call = new StreamPlanCall(environment, context);
  if (!call->call_.admission().ok()) {
    call->Answer(call->call_.admission(), CallOutcome::kShed, std::nullopt);
    return call;
  }
  const bool queued = environment.search_pool.Submit(
      [call, &planner, &request] { call->Search(planner, request); });
  if (!queued) call->Answer(QueueFullError(kRetryAfter), CallOutcome::kShed, std::nullopt);
  return call;
}

void StreamPlanCall::Search(const Planner& planner, const v1::StreamPlanRequest& request) {
  if (const absl::Status late = call_.Dequeued(); !late.ok()) {
    return Answer(late, CallOutcome::kMiss, std::nullopt);
  }
  absl::StatusOr<v1::PlanAnswer> answer = planner.Plan(request.request_id(), request.problem(),
                                                       call_.interrupter(), this, request.launch());
  if (!answer.ok()) {
    call_.environment().metrics.RecordSearchError(answer.status());
    return Answer(answer.status(), CallOutcome::kMiss, std::nullopt);
  }
  call_.environment().metrics.RecordAnswer(*answer);
  v1::StreamPlanResponse last;
  *last.mutable_answer() = *std::move(answer);
  Answer(absl::OkStatus(), CallOutcome::kMiss, std::move(last));
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
