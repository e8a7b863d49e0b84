// Start, drain, health, reflection and metrics of a server.
#include <grpcpp/generic/generic_stub.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/testing/fake_solver.h"
#include "tests/server/testing/requests.h"
#include "tests/server/testing/temporary_directory.h"
#include "tests/server/testing/test_server.h"

namespace hapmoe::server {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

// Calls a method whose messages we do not generate: one message there, at most one back.
grpc::Status CallRaw(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                     const std::string& request, std::string* response) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  auto call = stub.PrepareCall(&context, method, &queue);
  void* tag = nullptr;
  bool ok = false;
  call->StartCall(nullptr);
  queue.Next(&tag, &ok);
  const grpc::Slice slice(request);
  call->WriteLast(grpc::ByteBuffer(&slice, 1), grpc::WriteOptions(), nullptr);
  queue.Next(&tag, &ok);
  grpc::ByteBuffer buffer;
  call->Read(&buffer, nullptr);
  queue.Next(&tag, &ok);
  if (ok) {
    grpc::Slice whole;
    (void)buffer.DumpToSingleSlice(&whole);
    response->assign(reinterpret_cast<const char*>(whole.begin()), whole.size());
  }
  grpc::Status status;
  call->Finish(&status, nullptr);
  queue.Next(&tag, &ok);
  return status;
}

// grpc.health.v1.HealthCheckRequest{service} -> status: 1 SERVING, 2 NOT_SERVING; -1: the call
// failed.
int Health(TestServer& server, const std::string& service) {
  std::string request;
  if (!service.empty()) request = std::string("\x0a") + static_cast<char>(service.size()) + service;
  std::string response;
  const grpc::Status status =
      CallRaw(server.channel(), "/grpc.health.v1.Health/Check", request, &response);
  return status.ok() && response.size() == 2 ? response[1] : -1;
}

TEST(Server, IsHealthyAsAWholeAndByService) {
  TestServer server;
  EXPECT_EQ(Health(server, ""), 1);
  EXPECT_EQ(Health(server, "hapmoe.v1.PlannerService"), 1);
  EXPECT_EQ(Health(server, "hapmoe.v1.ProfilesService"), 1);
  EXPECT_EQ(Health(server, "no.such.Service"), -1);
}

TEST(Server, ListsItsServicesByReflection) {
  TestServer server;
  std::string response;
  // ServerReflectionRequest{list_services: ""}.
  const grpc::Status status =
      CallRaw(server.channel(), "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
              std::string("\x3a\x00", 2), &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_THAT(response, HasSubstr("hapmoe.v1.PlannerService"));
  EXPECT_THAT(response, HasSubstr("hapmoe.v1.ProfilesService"));
  EXPECT_THAT(response, HasSubstr("grpc.health.v1.Health"));
}

TEST(Server, ExportsEverySeriesAsZeroFromTheStart) {
  TestServer server;
  for (const char* series : {
           "hapmoe_requests_total{code=\"OK\",method=\"Plan\"}",
           "hapmoe_requests_total{code=\"UNAVAILABLE\",method=\"DeleteProfile\"}",
           "hapmoe_request_duration_seconds_count{method=\"StreamPlan\",outcome=\"shed\"}",
           "hapmoe_errors_total{reason=\"QUEUE_FULL\"}",
           "hapmoe_queue_wait_seconds_count",
           "hapmoe_deadline_overrun_seconds_count",
           "hapmoe_search_candidates_total{result=\"pruned\"}",
           "hapmoe_search_termination_total{reason=\"optimal\"}",
           "hapmoe_infeasible_total{rule=\"memory\"}",
           "hapmoe_infeasible_total{rule=\"world_divisible_by_tp_pp_cp\"}",
           "hapmoe_predicted_peak_memory_ratio_count",
           "hapmoe_profile_reload_failures_total",
           "hapmoe_queue_depth{pool=\"search\"}",
           "hapmoe_pool_busy_threads{pool=\"light\"}",
           "hapmoe_inflight_requests",
       }) {
    EXPECT_EQ(server.Metric(series), 0) << series;
  }
  EXPECT_GT(server.Metric("hapmoe_profiles_loaded"), 0);
  EXPECT_GT(server.Metric("hapmoe_profile_last_reload_timestamp_seconds"), 1e9);
  EXPECT_GT(server.Metric("process_resident_memory_bytes"), 1e6);
  EXPECT_GT(server.Metric("process_open_fds"), 3);
  EXPECT_THAT(server.Metrics(), HasSubstr("hapmoe_build_info{"));
}

TEST(Server, DoesNotStartOnAnAddressThatIsTaken) {
  TestServer server;
  ServerOptions options = TestServer::Options();
  options.listen = "127.0.0.1:" + std::to_string(server.server().port());
  auto second = Server::Start(options, std::make_unique<SearchSolver>());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(options.listen));
}

TEST(Server, DoesNotStartWhenItsMetricsAddressIsTaken) {
  TestServer server;
  ServerOptions options = TestServer::Options();
  options.metrics_listen = "127.0.0.1:" + std::to_string(server.server().metrics_port());
  auto second = Server::Start(options, std::make_unique<SearchSolver>());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
}

TEST(Server, DoesNotStartWithOptionsThatMakeNoSense) {
  ServerOptions options = TestServer::Options();
  options.search_threads = 0;
  EXPECT_EQ(Server::Start(options, std::make_unique<SearchSolver>()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(Drain, RefusesNewCallsAndTurnsUnhealthyWhileItAnswersThoseInFlight) {
  auto search = std::make_shared<SlowSearch>();
  TestServer server(std::make_unique<SlowSolver>(search, /*finds_plan=*/true));
  std::thread call([&] {
    grpc::ClientContext context;
    v1::PlanResponse response;
    const grpc::Status status = server.planner().Plan(&context, SmallPlanRequest(), &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.answer().termination().limit(), v1::Termination::LIMIT_TIME);
  });
  ASSERT_TRUE(Eventually([&] { return search->started == 1; }));
  auto drained =
      std::async(std::launch::async, [&] { return server.server().Drain(milliseconds(500)); });
  ASSERT_TRUE(Eventually([&] { return Health(server, "") == 2; }));
  ASSERT_TRUE(Eventually([&] {
    grpc::ClientContext context;
    v1::PlanResponse response;
    const grpc::Status status = server.planner().Plan(&context, SmallPlanRequest(), &response);
    return status.error_code() == grpc::StatusCode::UNAVAILABLE &&
           ErrorInfoOf(status).reason() == "DRAINING";
  }));
  EXPECT_TRUE(drained.get());
  call.join();
  EXPECT_EQ(search->ended, 1);
}

TEST(Drain, EndsSoonAfterItsGraceHoweverLongSearchesHaveToGo) {
  auto search = std::make_shared<SlowSearch>();
  TestServer server(std::make_unique<SlowSolver>(search, /*finds_plan=*/true));
  std::vector<std::thread> calls;
  std::atomic<int> answered{0};
  std::atomic<int> refused{0};
  v1::PlanRequest request = SmallPlanRequest();
  request.set_cache_policy(v1::CACHE_POLICY_BYPASS);  // A search for each.
  for (int i = 0; i < 30; ++i) {
    calls.emplace_back([&] {
      grpc::ClientContext context;
      v1::PlanResponse response;
      const grpc::Status status = server.planner().Plan(&context, request, &response);
      if (status.ok()) {
        ++answered;
      } else {
        EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
        EXPECT_EQ(ErrorInfoOf(status).reason(), "DRAINING");
        ++refused;
      }
    });
  }
  ASSERT_TRUE(Eventually([&] { return server.Metric("hapmoe_inflight_requests") == 30; }));
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(server.server().Drain(milliseconds(300)));
  const auto took = std::chrono::steady_clock::now() - start;
  RecordProperty("milliseconds", static_cast<int>(took / milliseconds(1)));
  EXPECT_GE(took, milliseconds(300));
  EXPECT_LT(took, milliseconds(2300));  // On a loaded machine; little more than 300 on an idle one.
  for (std::thread& call : calls) call.join();
  EXPECT_EQ(answered, 2);  // Those that had a thread.
  EXPECT_EQ(refused, 28);
}

TEST(Drain, SendsCallsWithoutAPlanYetToAnotherServer) {
  auto search = std::make_shared<SlowSearch>();
  TestServer server(std::make_unique<SlowSolver>(search, /*finds_plan=*/false));
  std::thread call([&] {
    grpc::ClientContext context;
    v1::PlanResponse response;
    const grpc::Status status = server.planner().Plan(&context, SmallPlanRequest(), &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
    EXPECT_EQ(ErrorInfoOf(status).reason(), "DRAINING");
  });
  ASSERT_TRUE(Eventually([&] { return search->started == 1; }));
  EXPECT_TRUE(server.server().Drain(milliseconds(100)));
  call.join();
  EXPECT_EQ(search->seen_time, 1);
}

TEST(Drain, IdleServerStopsAtOnce) {
  TestServer server;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(server.server().Drain(std::chrono::seconds(60)));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

}  // namespace
}  // namespace hapmoe::server
