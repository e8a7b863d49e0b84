// PlannerService over gRPC: passes calls on and answers back.
#ifndef HAPMOE_SERVER_RPC_PLANNER_SERVICE_H_
#define HAPMOE_SERVER_RPC_PLANNER_SERVICE_H_

#include <string>

#include "hapmoe/v1/planner.grpc.pb.h"
#include "server/plan_cache/plan_desk.h"
#include "server/planning/planner.h"
#include "server/profile_store/profile_store.h"
#include "server/rpc/call_support.h"

namespace hapmoe::server {

// The service with the methods of DeskCall in bytes and its others in messages.
using PlannerServiceInMessages = v1::PlannerService::WithCallbackMethod_StreamPlan<
    v1::PlannerService::WithCallbackMethod_Evaluate<
        v1::PlannerService::WithCallbackMethod_GetServerInfo<v1::PlannerService::Service>>>;
using PlannerServiceMethods = v1::PlannerService::WithRawCallbackMethod_Plan<
    v1::PlannerService::WithRawCallbackMethod_Frontier<
        v1::PlannerService::WithRawCallbackMethod_Explain<PlannerServiceInMessages>>>;

// Thread safe. No method blocks.
class PlannerServiceImpl : public PlannerServiceMethods {
 public:
  // All must outlive the service.
  PlannerServiceImpl(CallEnvironment& environment, PlanDesk& desk, const Planner& planner,
                     const ProfileStore& profiles, std::string version)
      : environment_(environment),
        desk_(desk),
        planner_(planner),
        profiles_(profiles),
        version_(std::move(version)) {}

  grpc::ServerUnaryReactor* Plan(grpc::CallbackServerContext* context,
                                 const grpc::ByteBuffer* request,
                                 grpc::ByteBuffer* response) override;
  grpc::ServerWriteReactor<v1::StreamPlanResponse>* StreamPlan(
      grpc::CallbackServerContext* context, const v1::StreamPlanRequest* request) override;
  grpc::ServerUnaryReactor* Evaluate(grpc::CallbackServerContext* context,
                                     const v1::EvaluateRequest* request,
                                     v1::EvaluateResponse* response) override;
  grpc::ServerUnaryReactor* Frontier(grpc::CallbackServerContext* context,
                                     const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Explain(grpc::CallbackServerContext* context,
                                    const grpc::ByteBuffer* request,
                                    grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* GetServerInfo(grpc::CallbackServerContext* context,
                                          const v1::GetServerInfoRequest* request,
                                          v1::GetServerInfoResponse* response) override;

 private:
  CallEnvironment& environment_;
  PlanDesk& desk_;
  const Planner& planner_;
  const ProfileStore& profiles_;
  const std::string version_;
};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_RPC_PLANNER_SERVICE_H_
