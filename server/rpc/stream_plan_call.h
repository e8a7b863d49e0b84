// StreamPlan: a search whose progress and better plans are sent while it runs.
#ifndef HAPMOE_SERVER_RPC_STREAM_PLAN_CALL_H_
#define HAPMOE_SERVER_RPC_STREAM_PLAN_CALL_H_

#include <grpcpp/grpcpp.h>

#include <string>

#include "hapmoe/v1/planner.pb.h"
#include "server/concurrency/outbox.h"
#include "server/plan_cache/plan_desk.h"
#include "server/planning/planner.h"
#include "server/rpc/call_support.h"

namespace hapmoe::server {

// A reader that is slow gets fewer messages, the latest of each kind, and does not slow the search.
// Owns itself: it ends after gRPC's last reaction.
//
// Thread safe: gRPC's reactions and the thread that searches may come at the same time.
class StreamPlanCall : public grpc::ServerWriteReactor<v1::StreamPlanResponse>,
                       private PlanObserver {
 public:
  // `desk` and `request` must outlive the call, as gRPC's requests do.
  static StreamPlanCall* Start(CallEnvironment& environment, PlanDesk& desk,
                               const grpc::CallbackServerContext& context,
                               const v1::StreamPlanRequest& request);

  void OnWriteDone(bool ok) override;
  void OnCancel() override { call_.Cancel(); }
  void OnDone() override { delete this; }

 private:
  using Messages = Outbox<v1::StreamPlanResponse>;
  enum Kind { kIncumbent, kProgress, kKinds };  // In the order in which they are sent.

  StreamPlanCall(CallEnvironment& environment, const grpc::CallbackServerContext& context,
                 const v1::StreamPlanRequest& request, PlanDesk& desk)
      : call_(environment, Method::kStreamPlan, context, request.ByteSizeLong()),
        desk_(desk),
        outbox_(kKinds) {}
  ~StreamPlanCall() override = default;

  void OnProgress(const v1::Progress& progress) override;
  void OnIncumbent(v1::PlanAnswer answer) override;

  // Looks for an answer, and queues the search where there is none.
  void Open(const v1::StreamPlanRequest& request);
  void Search(PlanDesk::Order& order);
  // Ends the stream. Nothing of this may be used afterwards.
  void Answer(const PlanReply& reply, CallOutcome outcome);
  void Answer(const absl::Status& status, CallOutcome outcome,
              std::optional<v1::StreamPlanResponse> answer);
  void Perform(Messages::Step step);

  Call call_;
  PlanDesk& desk_;
  Messages outbox_;
  std::string caller_;
  v1::StreamPlanResponse current_;  // The message being written; the outbox says whose it is.
  grpc::Status status_;             // Written before the outbox is closed, read after.
};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_RPC_STREAM_PLAN_CALL_H_
