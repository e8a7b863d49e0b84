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
  const bool queued = call->call_.Queue(
      pool, CallerOf(context), [call, work = std::move(work)](const absl::Status& late) mutable {
        const absl::Status status = late.ok() ? work(call->call_.interrupter()) : late;
        work = nullptr;
        call->Answer(status, CallOutcome::kMiss);
      });
  if (!queued) call->Answer(QueueFullError(kRetryAfter), CallOutcome::kShed);
  return call;
}

}  // namespace hapmoe::server
