#include "server/rpc/planner_service.h"

#include <chrono>
#include <utility>

#include "core/base/status_macros.h"
#include "server/planning/engine_catalog.h"
#include "server/rpc/plan_call.h"
#include "server/rpc/stream_plan_call.h"
#include "server/rpc/unary_call.h"
#include "server/wire/from_wire.h"

namespace hapmoe::server {

grpc::ServerUnaryReactor* PlannerServiceImpl::Plan(grpc::CallbackServerContext* context,
                                                   const grpc::ByteBuffer* request,
                                                   grpc::ByteBuffer* response) {
  return PlanCall::Start(environment_, desk_, *context, *request, *response);
}

grpc::ServerWriteReactor<v1::StreamPlanResponse>* PlannerServiceImpl::StreamPlan(
    grpc::CallbackServerContext* context, const v1::StreamPlanRequest* request) {
  return StreamPlanCall::Start(environment_, desk_, *context, *request);
}

grpc::ServerUnaryReactor* PlannerServiceImpl::Evaluate(grpc::CallbackServerContext* context,
                                                       const v1::EvaluateRequest* request,
                                                       v1::EvaluateResponse* response) {
  return UnaryCall::Queue(environment_, environment_.light_pool, Method::kEvaluate, *context,
                          *request, [this, request, response](const std::shared_ptr<Interrupter>&) {
                            absl::StatusOr<v1::EvaluateResponse> answer =
                                planner_.Evaluate(*request);
                            if (!answer.ok()) return answer.status();
                            *response = *std::move(answer);
                            return absl::OkStatus();
                          });
}

grpc::ServerUnaryReactor* PlannerServiceImpl::Frontier(grpc::CallbackServerContext* context,
                                                       const v1::FrontierRequest* request,
                                                       v1::FrontierResponse* response) {
  return UnaryCall::Queue(
      environment_, environment_.search_pool, Method::kFrontier, *context, *request,
      [this, request, response](const std::shared_ptr<Interrupter>& interrupter) {
        absl::StatusOr<v1::FrontierResponse> answer = planner_.Frontier(*request, interrupter);
        if (!answer.ok()) {
          environment_.metrics.RecordSearchError(answer.status());
          return answer.status();
        }
        *response = *std::move(answer);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* PlannerServiceImpl::Explain(grpc::CallbackServerContext* context,
                                                      const v1::ExplainRequest* request,
                                                      v1::ExplainResponse* response) {
  return UnaryCall::Queue(
      environment_, environment_.search_pool, Method::kExplain, *context, *request,
      [this, request, response](const std::shared_ptr<Interrupter>& interrupter) {
        absl::StatusOr<v1::ExplainResponse> answer = planner_.Explain(*request, interrupter);
        if (!answer.ok()) {
          environment_.metrics.RecordSearchError(answer.status());
          return answer.status();
        }
        environment_.metrics.RecordAnswer(answer->best());
        *response = *std::move(answer);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* PlannerServiceImpl::GetServerInfo(grpc::CallbackServerContext* context,
                                                            const v1::GetServerInfoRequest* request,
                                                            v1::GetServerInfoResponse* response) {
  return UnaryCall::Run(environment_, Method::kGetServerInfo, *context, *request,
                        [this, response](const std::shared_ptr<Interrupter>&) {
                          const std::shared_ptr<const ProfileCatalog> catalog = profiles_.catalog();
                          response->set_version(version_);
                          for (const std::string& engine : LaunchedEngines()) {
                            response->add_engines(engine);
                          }
                          response->set_profiles(static_cast<int64_t>(catalog->size()));
                          response->set_profiles_version(catalog->version());
                          response->set_search_threads(planner_.search_threads());
                          const int64_t budget = planner_.max_time_budget().count();
                          response->mutable_max_time_budget()->set_seconds(budget / 1'000'000'000);
                          response->mutable_max_time_budget()->set_nanos(
                              static_cast<int32_t>(budget % 1'000'000'000));
                          return absl::OkStatus();
                        });
}

}  // namespace hapmoe::server
