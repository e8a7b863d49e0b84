// PlannerService over gRPC: passes calls on and answers back.
#ifndef HAPMOE_SERVER_RPC_PLANNER_SERVICE_H_
#define HAPMOE_SERVER_RPC_PLANNER_SERVICE_H_

#include <string>

#include "hapmoe/v1/planner.grpc.pb.h"
#include "server/planning/planner.h"
#include "server/profile_store/profile_store.h"
#include "server/rpc/call_support.h"

namespace hapmoe::server {

// Thread safe. No method blocks.
class PlannerServiceImpl : public v1::PlannerService::CallbackService {
 public:
  // All must outlive the service.
  PlannerServiceImpl(CallEnvironment& environment, const Planner& planner,
                     const ProfileStore& profiles, std::string version)
      : environment_(environment),
        planner_(planner),
        profiles_(profiles),
        version_(std::move(version)) {}

  grpc::ServerUnaryReactor* Plan(grpc::CallbackServerContext* context,
                                 const v1::PlanRequest* request,
                                 v1::PlanResponse* response) override;
  grpc::ServerWriteReactor<v1::StreamPlanResponse>* StreamPlan(
      grpc::CallbackServerContext* context, const v1::StreamPlanRequest* request) override;
  grpc::ServerUnaryReactor* Evaluate(grpc::CallbackServerContext* context,
                                     const v1::EvaluateRequest* request,
                                     v1::EvaluateResponse* response) override;
  grpc::ServerUnaryReactor* Frontier(grpc::CallbackServerContext* context,
                                     const v1::FrontierRequest* request,
                                     v1::FrontierResponse* response) override;
  grpc::ServerUnaryReactor* Explain(grpc::CallbackServerContext* context,
                                    const v1::ExplainRequest* request,
                                    v1::ExplainResponse* response) override;
  grpc::ServerUnaryReactor* GetServerInfo(grpc::CallbackServerContext* context,
                                          const v1::GetServerInfoRequest* request,
                                          v1::GetServerInfoResponse* response) override;

 private:
  CallEnvironment& environment_;
  const Planner& planner_;
  const ProfileStore& profiles_;
  const std::string version_;
};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_RPC_PLANNER_SERVICE_H_
