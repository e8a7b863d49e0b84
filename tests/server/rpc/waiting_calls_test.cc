// Calls that wait for a thread while searches that take long have them all.
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/testing/fake_solver.h"
#include "tests/server/testing/requests.h"
#include "tests/server/testing/test_server.h"

namespace hapmoe::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Method {
  const char* name;
  std::function<grpc::Status(TestServer&, grpc::ClientContext&)> call;
};

v1::PlanRequest Other() {
  v1::PlanRequest request = SmallPlanRequest();
  request.set_request_id("other");
  request.set_cache_policy(v1::CACHE_POLICY_BYPASS);  // A search of its own.
  return request;
}

class WaitingCall : public testing::TestWithParam<Method> {
 protected:
  WaitingCall() {
    busy_ = std::thread([this] {
      v1::PlanRequest request = SmallPlanRequest();
      request.set_cache_policy(v1::CACHE_POLICY_BYPASS);
      v1::PlanResponse response;
      (void)server_.planner().Plan(&busy_context_, request, &response);
    });
    EXPECT_TRUE(Eventually([this] { return search_->started == 1; }));
  }
  ~WaitingCall() override {
    busy_context_.TryCancel();
    busy_.join();
  }

  static ServerOptions OneSearchAndOneThatWaits() {
    ServerOptions options = TestServer::Options();
    options.search_threads = 1;
    options.queue_size = 1;
    return options;
  }
  bool Waiting(int calls) {
    return Eventually(
        [&] { return server_.Metric("hapmoe_queue_depth{pool=\"search\"}") == calls; });
  }
  double Answered(const std::string& code) {
    return server_.Metric("hapmoe_requests_total{code=\"" + code + "\",method=\"" +
                          GetParam().name + "\"}");
  }

  const std::shared_ptr<SlowSearch> search_ = std::make_shared<SlowSearch>();
  TestServer server_{std::make_unique<SlowSolver>(search_, /*finds_plan=*/true),
                     OneSearchAndOneThatWaits()};
  grpc::ClientContext busy_context_;
  std::thread busy_;
};

TEST_P(WaitingCall, IsAnsweredBeforeItsDeadlineAndLeavesItsPlace) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + seconds(1));
  const grpc::Status status = GetParam().call(server_, context);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(Eventually([this] { return Answered("DEADLINE_EXCEEDED") == 1; }));
  EXPECT_TRUE(Waiting(0));
  EXPECT_EQ(search_->ended, 0);  // No thread became free meanwhile.
  EXPECT_EQ(search_->started, 1);
}

TEST_P(WaitingCall, LeavesItsPlaceWhenItIsCancelled) {
  grpc::ClientContext context;
  std::thread call([&] {
    EXPECT_EQ(GetParam().call(server_, context).error_code(), grpc::StatusCode::CANCELLED);
  });
  EXPECT_TRUE(Waiting(1));
  context.TryCancel();
  EXPECT_TRUE(Waiting(0));
  EXPECT_TRUE(Eventually([this] { return Answered("CANCELLED") == 1; }));
  call.join();
  EXPECT_EQ(search_->ended, 0);
  EXPECT_EQ(search_->started, 1);
}

TEST_P(WaitingCall, IsSearchedForWhenAThreadIsFree) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + seconds(30));
  std::thread call([&] { (void)GetParam().call(server_, context); });
  EXPECT_TRUE(Waiting(1));
  busy_context_.TryCancel();
  EXPECT_TRUE(Eventually([this] { return search_->started >= 2; }));
  context.TryCancel();
  call.join();
}

INSTANTIATE_TEST_SUITE_P(
    Methods, WaitingCall,
    testing::Values(Method{"Plan",
                           [](TestServer& server, grpc::ClientContext& context) {
                             v1::PlanResponse response;
                             return server.planner().Plan(&context, Other(), &response);
                           }},
                    Method{"StreamPlan",
                           [](TestServer& server, grpc::ClientContext& context) {
                             v1::StreamPlanRequest request;
                             *request.mutable_problem() = Other().problem();
                             request.set_cache_policy(v1::CACHE_POLICY_BYPASS);
                             auto reader = server.planner().StreamPlan(&context, request);
                             for (v1::StreamPlanResponse message; reader->Read(&message);) {
                             }
                             return reader->Finish();
                           }},
                    Method{"Frontier",
                           [](TestServer& server, grpc::ClientContext& context) {
                             v1::FrontierRequest request;
                             *request.mutable_problem() = Other().problem();
                             v1::FrontierResponse response;
                             return server.planner().Frontier(&context, request, &response);
                           }},
                    Method{"Explain",
                           [](TestServer& server, grpc::ClientContext& context) {
                             v1::ExplainRequest request;
                             *request.mutable_problem() = Other().problem();
                             v1::ExplainResponse response;
                             return server.planner().Explain(&context, request, &response);
                           }}),
    [](const testing::TestParamInfo<Method>& method) { return method.param.name; });

}  // namespace
}  // namespace hapmoe::server
