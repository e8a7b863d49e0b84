#include "server/rpc/planner_service.h"

#include <chrono>
#include <utility>

#include "core/base/status_macros.h"
#include "server/planning/engine_catalog.h"
#include "server/rpc/desk_call.h"
#include "server/rpc/stream_plan_call.h"
#include "server/rpc/unary_call.h"
#include "server/wire/from_wire.h"

namespace hapmoe::server {

grpc::ServerUnaryReactor* PlannerServiceImpl::Plan(grpc::CallbackServerContext* context,
                                                   const grpc::ByteBuffer* request,
                                                   grpc::ByteBuffer* response) {
  return DeskCall::Start(environment_, desk_, AnswerKind::kPlan, *context, *request, *response);
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
                                                       const grpc::ByteBuffer* request,
                                                       grpc::ByteBuffer* response) {
  return DeskCall::Start(environment_, desk_, AnswerKind::kFrontier, *context, *request, *response);
}

grpc::ServerUnaryReactor* PlannerServiceImpl::Explain(grpc::CallbackServerContext* context,
                                                      const grpc::ByteBuffer* request,
                                                      grpc::ByteBuffer* response) {
  return DeskCall::Start(environment_, desk_, AnswerKind::kExplain, *context, *request, *response);
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
