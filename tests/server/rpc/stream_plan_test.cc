// StreamPlan over the loopback.
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/testing/fake_solver.h"
#include "tests/server/testing/requests.h"
#include "tests/server/testing/test_server.h"

namespace hapmoe::server {
namespace {

v1::StreamPlanRequest SmallStreamRequest() {
  v1::StreamPlanRequest request;
  request.set_request_id("test");
  *request.mutable_problem() = SmallPlanRequest().problem();
  return request;
}

// Everything that a stream brings, and its status.
struct Received {
  std::vector<v1::StreamPlanResponse> messages;
  grpc::Status status;
};

Received ReadAll(TestServer& server, const v1::StreamPlanRequest& request,
                 std::chrono::milliseconds pause = std::chrono::milliseconds(0)) {
  grpc::ClientContext context;
  auto reader = server.planner().StreamPlan(&context, request);
  Received received;
  for (v1::StreamPlanResponse message; reader->Read(&message);) {
    received.messages.push_back(message);
    std::this_thread::sleep_for(pause);
  }
  received.status = reader->Finish();
  return received;
}

TEST(StreamPlan, LastMessageHoldsTheAnswerOfPlan) {
  TestServer server;
  const Received received = ReadAll(server, SmallStreamRequest());
  ASSERT_TRUE(received.status.ok()) << received.status.error_message();
  ASSERT_FALSE(received.messages.empty());
  grpc::ClientContext context;
  v1::PlanResponse unary;
  ASSERT_TRUE(server.planner().Plan(&context, SmallPlanRequest(), &unary).ok());
  const v1::PlanAnswer& answer = received.messages.back().answer();
  EXPECT_EQ(answer.plan().plan_id(), unary.answer().plan().plan_id());
  EXPECT_GE(answer.artifacts_size(), 1);
}

TEST(StreamPlan, TellsProgressAndBetterPlansOnTheWay) {
  auto search = std::make_shared<SlowSearch>();
  TestServer server(std::make_unique<SlowSolver>(search, /*finds_plan=*/true));
  v1::StreamPlanRequest request = SmallStreamRequest();
  request.mutable_problem()->mutable_constraints()->mutable_time_budget()->set_nanos(500'000'000);
  const Received received = ReadAll(server, request);
  ASSERT_TRUE(received.status.ok());
  int incumbents = 0;
  int progress = 0;
  for (const v1::StreamPlanResponse& message : received.messages) {
    if (message.has_incumbent()) {
      ++incumbents;
      EXPECT_GT(message.incumbent().prediction().iteration_seconds(), 0);
      EXPECT_EQ(message.incumbent().artifacts_size(), 0);
    } else if (message.has_progress()) {
      ++progress;
      EXPECT_EQ(message.progress().candidates(), 1000);
      EXPECT_GT(message.progress().best_iteration_seconds(), 0);
    }
  }
  EXPECT_EQ(incumbents, 1);
  EXPECT_GE(progress, 1);
  EXPECT_LE(progress, 6);  // Every 100 ms of 500.
  EXPECT_TRUE(received.messages.back().has_answer());
}

TEST(StreamPlan, SlowReaderDoesNotSlowTheSearchAndGetsTheAnswer) {
  auto search = std::make_shared<SlowSearch>();
  TestServer server(std::make_unique<SlowSolver>(search, /*finds_plan=*/true));
  v1::StreamPlanRequest request = SmallStreamRequest();
  request.mutable_problem()->mutable_constraints()->mutable_time_budget()->set_nanos(300'000'000);
  const Received received = ReadAll(server, request, std::chrono::milliseconds(150));
  ASSERT_TRUE(received.status.ok());
  EXPECT_TRUE(received.messages.back().has_answer());
}

TEST(StreamPlan, FailsAsPlanDoes) {
  TestServer server;
  v1::StreamPlanRequest request = SmallStreamRequest();
  request.mutable_problem()->mutable_cluster()->clear_pools();
  const Received received = ReadAll(server, request);
  EXPECT_TRUE(received.messages.empty());
  EXPECT_EQ(received.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ErrorInfoOf(received.status).reason(), "REQUEST_INVALID");
}

TEST(StreamPlan, ReaderThatGoesAwayStopsTheSearch) {
  auto search = std::make_shared<SlowSearch>();
  TestServer server(std::make_unique<SlowSolver>(search, /*finds_plan=*/true));
  {
    grpc::ClientContext context;
    auto reader = server.planner().StreamPlan(&context, SmallStreamRequest());
    v1::StreamPlanResponse message;
    ASSERT_TRUE(reader->Read(&message));
    context.TryCancel();
    while (reader->Read(&message)) {
    }
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  EXPECT_TRUE(Eventually([&] { return search->ended == 1; }));
  EXPECT_EQ(search->seen_cancelled, 1);
}

}  // namespace
}  // namespace hapmoe::server
