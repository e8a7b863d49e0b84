// Plan, Evaluate and GetServerInfo over the loopback.
#include <algorithm>
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

using std::chrono::milliseconds;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

grpc::Status Plan(TestServer& server, const v1::PlanRequest& request,
                  v1::PlanResponse* response = nullptr,
                  std::chrono::nanoseconds timeout = std::chrono::seconds(30)) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + timeout);
  v1::PlanResponse unused;
  return server.planner().Plan(&context, request, response == nullptr ? &unused : response);
}

TEST(Plan, AnswersWithAPlanItsPredictionAndItsLauncher) {
  TestServer server;
  v1::PlanResponse response;
  const grpc::Status status = Plan(server, SmallPlanRequest(), &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.request_id(), "test");
  const v1::PlanAnswer& answer = response.answer();
  EXPECT_EQ(answer.plan().engine(), "megatron-lm");
  EXPECT_EQ(answer.plan().world_size(), 8);
  EXPECT_EQ(answer.plan().meshes(0).accelerator(), "H800-SXM");
  EXPECT_EQ(answer.plan().plan_id().size(), 32u);
  EXPECT_EQ(answer.plan().engine_requirement(), "");
  EXPECT_GT(answer.prediction().iteration_seconds(), 0);
  EXPECT_TRUE(answer.prediction().fits());
  ASSERT_GE(answer.artifacts_size(), 1);
  EXPECT_EQ(answer.artifacts(0).name(), "launch.sh");
  EXPECT_TRUE(answer.artifacts(0).executable());
  const v1::SearchStatistics& statistics = answer.termination().statistics();
  EXPECT_GT(statistics.search_cpu_seconds(), 0);
  EXPECT_GE(statistics.total_cpu_seconds(), statistics.search_cpu_seconds());
  EXPECT_EQ(server.Metric("hapmoe_requests_total{code=\"OK\",method=\"Plan\"}"), 1);
}

TEST(Plan, SameProblemHasTheSamePlanId) {
  TestServer server;
  v1::PlanResponse first;
  v1::PlanResponse second;
  ASSERT_TRUE(Plan(server, SmallPlanRequest(), &first).ok());
  ASSERT_TRUE(Plan(server, SmallPlanRequest(), &second).ok());
  EXPECT_EQ(first.answer().plan().plan_id(), second.answer().plan().plan_id());
}

TEST(Plan, FaultsOfARequestAreAllToldAtOnce) {
  TestServer server;
  v1::PlanRequest request = SmallPlanRequest();
  request.set_request_id("line\nfeed");
  request.mutable_problem()->mutable_cluster()->mutable_pools(0)->set_nodes(0);
  request.mutable_problem()->mutable_constraints()->add_tp(-2);
  request.mutable_problem()->mutable_constraints()->set_engine("deepspeed");
  request.mutable_problem()->mutable_job()->add_megatron_args("--no-such-option");
  const grpc::Status status = Plan(server, request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ErrorInfoOf(status).reason(), "REQUEST_INVALID");
  const auto details = DetailsOf<google::rpc::BadRequest>(status);
  ASSERT_EQ(details.size(), 1u);
  std::vector<std::string> fields;
  for (const auto& fault : details[0].field_violations()) fields.push_back(fault.field());
  EXPECT_THAT(fields, UnorderedElementsAre("request_id", "problem.cluster.pools[0].nodes",
                                           "problem.constraints.tp[0]",
                                           "problem.constraints.engine", "--no-such-option"));
}

TEST(Plan, ThousandsOfFaultsStillReachTheCaller) {
  TestServer server;
  v1::PlanRequest request = SmallPlanRequest();
  for (int i = 0; i < 3000; ++i) {
    request.mutable_problem()->mutable_job()->add_megatron_args("--no-such-option-" +
                                                                std::to_string(i));
  }
  const grpc::Status status = Plan(server, request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
  EXPECT_EQ(ErrorInfoOf(status).reason(), "REQUEST_INVALID");
}

TEST(Plan, UnknownAcceleratorIsNamedWithTheNearest) {
  TestServer server;
  v1::PlanRequest request = SmallPlanRequest();
  request.mutable_problem()->mutable_cluster()->mutable_pools(0)->set_accelerator("H80");
  const grpc::Status status = Plan(server, request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(ErrorInfoOf(status).reason(), "PROFILE_NOT_FOUND");
  const auto details = DetailsOf<google::rpc::ResourceInfo>(status);
  ASSERT_EQ(details.size(), 1u);
  EXPECT_EQ(details[0].resource_name(), "H80");
  EXPECT_THAT(details[0].description(), HasSubstr("H800-SXM"));
}

TEST(Plan, UnsupportedPrecisionIsRefused) {
  TestServer server;
  v1::PlanRequest request = SmallPlanRequest();
  // No V100 multiplies bfloat16.
  request.mutable_problem()->mutable_cluster()->mutable_pools(0)->set_accelerator("V100-SXM2-16GB");
  const grpc::Status status = Plan(server, request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ErrorInfoOf(status).reason(), "PRECISION_UNSUPPORTED");
}

TEST(Plan, SaysWhatBindsWhenNothingFits) {
  search::Outcome outcome;
  outcome.infeasibility = {"Stage 0 is short of 1000 bytes.", "memory", 0, 1000, "Use 2 nodes."};
  TestServer server(std::make_unique<FunctionSolver>([&](const auto&) { return outcome; }));
  const grpc::Status status = Plan(server, SmallPlanRequest());
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ErrorInfoOf(status).reason(), "NO_PLAN_FITS");
  EXPECT_EQ(ErrorInfoOf(status).metadata().at("suggestion"), "Use 2 nodes.");
  const auto details = DetailsOf<google::rpc::PreconditionFailure>(status);
  ASSERT_EQ(details.size(), 1u);
  EXPECT_EQ(details[0].violations(0).type(), "memory");
  EXPECT_EQ(details[0].violations(0).subject(), "stage 0");
  EXPECT_EQ(server.Metric("hapmoe_infeasible_total{rule=\"memory\"}"), 1);
}

TEST(Plan, FaultOfOursIsInternalAndShowsNothing) {
  TestServer server(
      std::make_unique<FunctionSolver>([](const auto&) { return absl::UnknownError("secret"); }));
  const grpc::Status status = Plan(server, SmallPlanRequest());
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(ErrorInfoOf(status).reason(), "INTERNAL_FAULT");
  EXPECT_THAT(status.error_message(), Not(HasSubstr("secret")));
}

TEST(Plan, AnswersWithTheIncumbentBeforeTheDeadline) {
  auto search = std::make_shared<SlowSearch>();
  TestServer server(std::make_unique<SlowSolver>(search, /*finds_plan=*/true));
  v1::PlanResponse response;
  const grpc::Status status = Plan(server, SmallPlanRequest(), &response, milliseconds(1000));
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.answer().termination().reason(), v1::Termination::REASON_INCUMBENT);
  EXPECT_EQ(response.answer().termination().limit(), v1::Termination::LIMIT_TIME);
  EXPECT_TRUE(Eventually([&] { return search->seen_time == 1; }));
}

TEST(Plan, AnswersWithTheIncumbentWhenItsTimeBudgetIsSpent) {
  auto search = std::make_shared<SlowSearch>();
  TestServer server(std::make_unique<SlowSolver>(search, /*finds_plan=*/true));
  v1::PlanRequest request = SmallPlanRequest();
  request.mutable_problem()->mutable_constraints()->mutable_time_budget()->set_nanos(50'000'000);
  v1::PlanResponse response;
  ASSERT_TRUE(Plan(server, request, &response).ok());
  EXPECT_EQ(response.answer().termination().limit(), v1::Termination::LIMIT_TIME);
  EXPECT_LT(response.answer().termination().statistics().search_wall_seconds(), 10);
}

TEST(Plan, ServerCapsTheTimeBudget) {
  auto search = std::make_shared<SlowSearch>();
  ServerOptions options = TestServer::Options();
  options.max_time_budget = milliseconds(50);
  TestServer server(std::make_unique<SlowSolver>(search, /*finds_plan=*/true), options);
  v1::PlanRequest request = SmallPlanRequest();
  request.mutable_problem()->mutable_constraints()->mutable_time_budget()->set_seconds(3600);
  EXPECT_TRUE(Plan(server, request).ok());
}

TEST(Plan, FailsWithStatisticsWhenTimeIsSpentWithoutAPlan) {
  auto search = std::make_shared<SlowSearch>();
  TestServer server(std::make_unique<SlowSolver>(search, /*finds_plan=*/false));
  v1::PlanRequest request = SmallPlanRequest();
  request.mutable_problem()->mutable_constraints()->mutable_time_budget()->set_nanos(50'000'000);
  const grpc::Status status = Plan(server, request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(ErrorInfoOf(status).reason(), "DEADLINE_PASSED");
  const auto details = DetailsOf<v1::SearchStatistics>(status);
  ASSERT_EQ(details.size(), 1u);
  EXPECT_EQ(details[0].candidates(), 1000);
}

TEST(Plan, CallerThatGoesAwayStopsTheSearchSoon) {
  auto search = std::make_shared<SlowSearch>();
  TestServer server(std::make_unique<SlowSolver>(search, /*finds_plan=*/true));
  grpc::ClientContext context;
  std::thread call([&] {
    v1::PlanResponse response;
    const grpc::Status status = server.planner().Plan(&context, SmallPlanRequest(), &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
  });
  ASSERT_TRUE(Eventually([&] { return search->started == 1; }));
  const auto cancelled = std::chrono::steady_clock::now();
  context.TryCancel();
  ASSERT_TRUE(Eventually([&] { return search->ended == 1; }));
  const auto took = std::chrono::steady_clock::now() - cancelled;
  RecordProperty("milliseconds", static_cast<int>(took / milliseconds(1)));
  EXPECT_LT(took, std::chrono::seconds(2));
  EXPECT_EQ(search->seen_cancelled, 1);
  call.join();
  EXPECT_TRUE(Eventually([&] {
    return server.Metric("hapmoe_requests_total{code=\"CANCELLED\",method=\"Plan\"}") == 1;
  }));
}

TEST(Plan, FullQueueRefusesAtOnceAndSaysWhenToTryAgain) {
  auto search = std::make_shared<SlowSearch>();
  ServerOptions options = TestServer::Options();
  options.search_threads = 1;
  options.queue_size = 1;
  TestServer server(std::make_unique<SlowSolver>(search, /*finds_plan=*/true), options);
  v1::PlanRequest request = SmallPlanRequest();
  request.set_cache_policy(v1::CACHE_POLICY_BYPASS);  // A search for each.
  // One call searches and one waits.
  grpc::ClientContext contexts[2];
  std::vector<std::thread> calls;
  for (grpc::ClientContext& context : contexts) {
    calls.emplace_back([&] {
      v1::PlanResponse response;
      (void)server.planner().Plan(&context, request, &response);
    });
    ASSERT_TRUE(Eventually([&] {
      return search->started == 1 && server.Metric("hapmoe_queue_depth{pool=\"search\"}") ==
                                         static_cast<double>(calls.size() - 1);
    }));
  }
  const grpc::Status status = Plan(server, request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ErrorInfoOf(status).reason(), "QUEUE_FULL");
  const auto details = DetailsOf<google::rpc::RetryInfo>(status);
  ASSERT_EQ(details.size(), 1u);
  EXPECT_GT(details[0].retry_delay().seconds() * 1000000000 + details[0].retry_delay().nanos(), 0);
  // Calls that do not search are not behind those that do.
  v1::EvaluateResponse evaluated;
  grpc::ClientContext light;
  EXPECT_TRUE(server.planner().Evaluate(&light, SmallEvaluateRequest(), &evaluated).ok());
  for (grpc::ClientContext& context : contexts) context.TryCancel();
  for (std::thread& call : calls) call.join();
}

// Requests that wait hold their memory: beyond a bound they are refused, whatever they ask.
TEST(Plan, TooManyBytesOfRequestsInHandAreRefusedAtOnce) {
  auto search = std::make_shared<SlowSearch>();
  ServerOptions options = TestServer::Options();
  options.search_threads = 1;
  options.queue_size = 8;
  v1::PlanRequest request = SmallPlanRequest();
  request.set_cache_policy(v1::CACHE_POLICY_BYPASS);
  const size_t bytes = request.ByteSizeLong();
  options.max_message_bytes = std::max<size_t>(1024, bytes);
  options.max_request_memory = std::max(options.max_message_bytes, 2 * bytes);
  const size_t fit = options.max_request_memory / bytes;
  TestServer server(std::make_unique<SlowSolver>(search, /*finds_plan=*/true), options);
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::thread> calls;
  for (size_t i = 0; i < fit; ++i) {
    grpc::ClientContext& context = *contexts.emplace_back(std::make_unique<grpc::ClientContext>());
    calls.emplace_back([&] {
      v1::PlanResponse response;
      (void)server.planner().Plan(&context, request, &response);
    });
  }
  EXPECT_TRUE(Eventually([&] {
    return server.Metric("hapmoe_inflight_request_bytes") == static_cast<double>(fit * bytes);
  }));
  const grpc::Status status = Plan(server, request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ErrorInfoOf(status).reason(), "QUEUE_FULL");
  EXPECT_EQ(DetailsOf<google::rpc::RetryInfo>(status).size(), 1u);
  for (const auto& context : contexts) context->TryCancel();
  for (std::thread& call : calls) call.join();
  EXPECT_TRUE(Eventually([&] { return server.Metric("hapmoe_inflight_request_bytes") == 0; }));
}

TEST(Evaluate, CostsTheLayoutOfTheArguments) {
  TestServer server;
  grpc::ClientContext context;
  v1::EvaluateResponse response;
  const grpc::Status status =
      server.planner().Evaluate(&context, SmallEvaluateRequest(), &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.request_id(), "test");
  EXPECT_EQ(response.plan().pipeline_stages(), 2);
  EXPECT_EQ(response.plan().meshes(0).tp(), 2);
  EXPECT_EQ(response.plan().meshes(0).dp(), 2);  // 8 / (2 x 2)
  EXPECT_EQ(response.plan().nodes_size(), 1);
  EXPECT_GT(response.prediction().iteration_seconds(), 0);
}

TEST(Evaluate, BrokenRulesAreNamedWithTheirValues) {
  TestServer server;
  v1::EvaluateRequest request = SmallEvaluateRequest();
  request.set_world_size(6);  // Not divisible by 2 x 2.
  grpc::ClientContext context;
  v1::EvaluateResponse response;
  const grpc::Status status = server.planner().Evaluate(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ErrorInfoOf(status).reason(), "LAYOUT_INVALID");
  const auto details = DetailsOf<google::rpc::BadRequest>(status);
  ASSERT_EQ(details.size(), 1u);
  EXPECT_EQ(details[0].field_violations(0).reason(), "world_divisible_by_tp_pp_cp");
  EXPECT_THAT(details[0].field_violations(0).description(), HasSubstr("6"));
}

TEST(Evaluate, StageOnTwoPoolsIsRefused) {
  TestServer server;
  v1::EvaluateRequest request = SmallEvaluateRequest();
  // 4 + 12 accelerators: the first of two stages takes 8.
  v1::Cluster cluster = ClusterOf("H800", 1);
  cluster.mutable_pools(0)->set_accelerators_per_node(4);
  v1::Pool* slow = cluster.add_pools();
  slow->set_name("slow");
  slow->set_accelerator("A100-SXM-80GB");
  slow->set_nodes(3);
  slow->set_accelerators_per_node(4);
  *request.mutable_cluster() = cluster;
  grpc::ClientContext context;
  v1::EvaluateResponse response;
  const grpc::Status status = server.planner().Evaluate(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  const auto details = DetailsOf<google::rpc::BadRequest>(status);
  ASSERT_EQ(details.size(), 1u);
  EXPECT_EQ(details[0].field_violations(0).reason(), "stage_within_pool");
}

TEST(Evaluate, MixOfVendorsNamesWhatItNeeds) {
  TestServer server;
  v1::EvaluateRequest request = SmallEvaluateRequest();
  v1::Pool* ascend = request.mutable_cluster()->add_pools();
  ascend->set_name("ascend");
  ascend->set_accelerator("Ascend 910B1");
  ascend->set_nodes(1);
  grpc::ClientContext context;
  v1::EvaluateResponse response;
  const grpc::Status status = server.planner().Evaluate(&context, request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.plan().meshes_size(), 2);
  EXPECT_THAT(response.plan().engine_requirement(), HasSubstr("HCCL"));
}

TEST(Frontier, AnswersWithAPointForEachAllocation) {
  TestServer server;
  v1::FrontierRequest request;
  request.set_request_id("test");
  *request.mutable_problem() = SmallPlanRequest().problem();
  *request.mutable_problem()->mutable_cluster() = ClusterOf("H800", 4);
  grpc::ClientContext context;
  v1::FrontierResponse response;
  const grpc::Status status = server.planner().Frontier(&context, request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.request_id(), "test");
  ASSERT_EQ(response.points_size(), 3);  // 1, 2 and 4 nodes.
  EXPECT_LT(response.points(2).iteration_seconds(), response.points(0).iteration_seconds());
  EXPECT_EQ(server.Metric("hapmoe_requests_total{code=\"OK\",method=\"Frontier\"}"), 1);
}

TEST(Frontier, CallerThatGoesAwayStopsAllItsSearches) {
  auto search = std::make_shared<SlowSearch>();
  TestServer server(std::make_unique<SlowSolver>(search, /*finds_plan=*/true));
  v1::FrontierRequest request;
  *request.mutable_problem() = SmallPlanRequest().problem();
  *request.mutable_problem()->mutable_cluster() = ClusterOf("H800", 4);
  grpc::ClientContext context;
  std::thread call([&] {
    v1::FrontierResponse response;
    const grpc::Status status = server.planner().Frontier(&context, request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
  });
  ASSERT_TRUE(Eventually([&] { return search->started == 1; }));
  context.TryCancel();
  call.join();
  EXPECT_TRUE(Eventually([&] {
    return server.Metric("hapmoe_requests_total{code=\"CANCELLED\",method=\"Frontier\"}") == 1;
  }));
  EXPECT_EQ(search->started, 1);
  // The caller is let go first; the search is told at the same time.
  EXPECT_TRUE(Eventually([&] { return search->seen_cancelled == 1; }));
}

TEST(Explain, AnswersWithSentences) {
  TestServer server;
  v1::ExplainRequest request;
  request.set_request_id("test");
  *request.mutable_problem()->mutable_job() = SmallEvaluateRequest().job();
  *request.mutable_problem()->mutable_cluster() = ClusterOf("H800", 1);
  grpc::ClientContext context;
  v1::ExplainResponse response;
  const grpc::Status status = server.planner().Explain(&context, request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.request_id(), "test");
  EXPECT_GE(response.slowdown_ratio(), 1);
  EXPECT_GE(response.sentences_size(), 4);
  EXPECT_EQ(server.Metric("hapmoe_requests_total{code=\"OK\",method=\"Explain\"}"), 1);
}

TEST(GetServerInfo, SaysWhatTheServerIs) {
  TestServer server;
  grpc::ClientContext context;
  v1::GetServerInfoResponse response;
  ASSERT_TRUE(server.planner().GetServerInfo(&context, {}, &response).ok());
  EXPECT_EQ(response.version(), kVersion);
  EXPECT_THAT(response.engines(), ElementsAre("megatron-lm", "megatron-bridge", "primus",
                                              "mindspeed-llm", "flagscale"));
  EXPECT_EQ(response.profiles(), static_cast<int64_t>(server.server().profiles()));
  EXPECT_GE(response.profiles_version(), 1);
  EXPECT_EQ(response.search_threads(), 2);
  EXPECT_EQ(response.max_time_budget().seconds(), 30);
}

}  // namespace
}  // namespace hapmoe::server
