// One call of Plan, Frontier or Explain, in bytes: an answer that is kept is sent without a message
// being built.
#ifndef HAPMOE_SERVER_RPC_DESK_CALL_H_
#define HAPMOE_SERVER_RPC_DESK_CALL_H_

#include <grpcpp/grpcpp.h>

#include <string>

#include "server/plan_cache/plan_desk.h"
#include "server/plan_cache/plan_wire.h"
#include "server/rpc/call_support.h"

namespace hapmoe::server {

// Answers on gRPC's thread from memory, or reads the request on the pool for short work and waits,
// without a thread, for a search. Owns itself: it ends after gRPC's last reaction.
//
// Thread safe: gRPC's reactions and the thread that answers may come at the same time.
class DeskCall : public grpc::ServerUnaryReactor {
 public:
  // `desk` and `response` must outlive the call, as gRPC's responses do.
  static DeskCall* Start(CallEnvironment& environment, PlanDesk& desk, AnswerKind kind,
                         const grpc::CallbackServerContext& context,
                         const grpc::ByteBuffer& request, grpc::ByteBuffer& response);

  void OnCancel() override {
    call_.Cancel();
    desk_.Cancel(ticket_);
  }
  void OnDone() override { delete this; }

 private:
  DeskCall(CallEnvironment& environment, const grpc::CallbackServerContext& context, PlanDesk& desk,
           AnswerKind kind, const grpc::ByteBuffer& request, grpc::ByteBuffer& response)
      : call_(environment, MethodOf(kind), context, request.Length()),
        desk_(desk),
        kind_(kind),
        ticket_(desk.NewTicket()),
        response_(response) {}
  ~DeskCall() override = default;

  static Method MethodOf(AnswerKind kind);

  // Whether the request's fields could be told apart.
  bool Split(const grpc::ByteBuffer& request);
  // Asks the desk. Nothing of this may be used afterwards.
  void Ask(PlanDesk::TimePoint end);
  template <typename Request>
  void AskFor(PlanDesk::TimePoint end);
  // Ends the call. Nothing of this may be used afterwards.
  void Answer(const absl::Status& status, CallOutcome outcome);
  void Answer(const PlanReply& reply, CallOutcome outcome);

  Call call_;
  PlanDesk& desk_;
  const AnswerKind kind_;
  const PlanDesk::Ticket ticket_;
  std::string caller_;
  grpc::ByteBuffer& response_;
  grpc::Slice bytes_;  // The request.
  PlanWire wire_;      // Points into it.
};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_RPC_DESK_CALL_H_
