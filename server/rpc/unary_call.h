// A call with one answer, computed at once or on a pool.
#ifndef HAPMOE_SERVER_RPC_UNARY_CALL_H_
#define HAPMOE_SERVER_RPC_UNARY_CALL_H_

#include <grpcpp/grpcpp.h>

#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "google/protobuf/message.h"
#include "server/rpc/call_support.h"

namespace hapmoe::server {

// Owns itself: it ends after gRPC's last reaction. The request and the response of a call live as
// long, and belong to `work` until it returns.
//
// Thread safe: gRPC's reactions and the thread that does the work may come at the same time.
class UnaryCall : public grpc::ServerUnaryReactor {
 public:
  using Work = absl::AnyInvocable<absl::Status(const std::shared_ptr<Interrupter>&)>;

  // Runs `work` on the calling thread, which is gRPC's: for what only reads memory.
  static UnaryCall* Run(CallEnvironment& environment, Method method,
                        const grpc::CallbackServerContext& context,
                        const google::protobuf::Message& request, Work work);

  // Runs `work` on a pool; refuses the call at once if its queue is full.
  static UnaryCall* Queue(CallEnvironment& environment, ThreadPool& pool, Method method,
                          const grpc::CallbackServerContext& context,
                          const google::protobuf::Message& request, Work work);

  void OnCancel() override { call_.Cancel(); }
  void OnDone() override { delete this; }

 private:
  UnaryCall(CallEnvironment& environment, Method method, const grpc::CallbackServerContext& context,
            const google::protobuf::Message& request)
      : call_(environment, method, context, request.ByteSizeLong()) {}
  ~UnaryCall() override = default;

  // Nothing of this may be used afterwards.
  void Answer(const absl::Status& status, CallOutcome outcome) {
    Finish(call_.Finish(status, outcome));
  }

  Call call_;
};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_RPC_UNARY_CALL_H_
