#include "server/rpc/unary_call.h"

#include "server/errors/errors.h"

namespace hapmoe::server {

UnaryCall* UnaryCall::Run(CallEnvironment& environment, Method method,
                          const grpc::CallbackServerContext& context,
                          const google::protobuf::Message& request, Work work) {
  auto* call = new UnaryCall(environment, method, context, request);
  if (call->call_.admission().ok()) {
    call->Answer(work(call->call_.interrupter()), CallOutcome::kHit);
  } else {
    call->Answer(call->call_.admission(), CallOutcome::kShed);
  }
  return call;  // gRPC's last reaction comes after the return.
}

UnaryCall* UnaryCall::Queue(CallEnvironment& environment, ThreadPool& pool, Method method,
                            const grpc::CallbackServerContext& context,
                            const google::protobuf::Message& request, Work work) {
  auto* call = new UnaryCall(environment, method, context, request);
  if (!call->call_.admission().ok()) {
    call->Answer(call->call_.admission(), CallOutcome::kShed);
    return call;
  }
  call->call_.ObeyDeadline(context);
  const bool queued = pool.Submit(
      [call, work = std::move(work)]() mutable {
        absl::Status status = call->call_.Dequeued();
        if (status.ok()) status = work(call->call_.interrupter());
        work = nullptr;
        call->Answer(status, CallOutcome::kMiss);
      },
      CallerOf(context));
  if (!queued) call->Answer(QueueFullError(kRetryAfter), CallOutcome::kShed);
  return call;
}

}  // namespace hapmoe::server
