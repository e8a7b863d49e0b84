// Every reason for which a call fails, reached over the wire, and what a user of the client reads.
#include "server/errors/reasons.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>

#include "client/failure_text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/testing/fake_solver.h"
#include "tests/server/testing/requests.h"
#include "tests/server/testing/temporary_directory.h"
#include "tests/server/testing/test_certificates.h"
#include "tests/server/testing/test_server.h"

namespace hapmoe::server {
namespace {

using ::testing::HasSubstr;

void SetDeadline(grpc::ClientContext& context) {
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
}

template <typename Stub, typename Request, typename Response>
grpc::Status Call(Stub& stub,
                  grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                  const Request& request) {
  grpc::ClientContext context;
  SetDeadline(context);
  Response response;
  return (stub.*method)(&context, request, &response);
}

grpc::Status Plan(TestServer& server, const v1::PlanRequest& request = SmallPlanRequest()) {
  return Call(server.planner(), &v1::PlannerService::Stub::Plan, request);
}

// A planner whose searches end like this.
TestServer ServerWith(FunctionSolver::Function search) {
  return TestServer(std::make_unique<FunctionSolver>(std::move(search)));
}

grpc::Status RequestInvalid() {
  TestServer server;
  v1::PlanRequest request = SmallPlanRequest();
  request.mutable_problem()->mutable_constraints()->add_tp(-2);
  return Plan(server, request);
}

grpc::Status LayoutInvalid() {
  TestServer server;
  v1::EvaluateRequest request = SmallEvaluateRequest();
  request.set_world_size(6);  // Not divisible by 2 x 2.
  return Call(server.planner(), &v1::PlannerService::Stub::Evaluate, request);
}

grpc::Status PrecisionUnsupported() {
  TestServer server;
  v1::PlanRequest request = SmallPlanRequest();
  request.mutable_problem()->mutable_job()->add_megatron_args("--bf16");
  request.mutable_problem()->mutable_cluster()->mutable_pools(0)->set_accelerator("V100-SXM2-32GB");
  return Plan(server, request);
}

grpc::Status ProfileInvalid() {
  TestServer server;
  return Call(server.profiles(), &v1::ProfilesService::Stub::PutProfile, {});
}

grpc::Status PageTokenInvalid() {
  TestServer server;
  v1::ListProfilesRequest request;
  request.set_page_token("00000000abcd");
  return Call(server.profiles(), &v1::ProfilesService::Stub::ListProfiles, request);
}

grpc::Status ProfileNotFound() {
  TestServer server;
  v1::PlanRequest request = SmallPlanRequest();
  request.mutable_problem()->mutable_cluster()->mutable_pools(0)->set_accelerator("H801");
  return Plan(server, request);
}

grpc::Status ReportNotFound() {
  TestServer server;
  v1::DeleteReportRequest request;
  request.set_name("report-1");
  return Call(server.feedback(), &v1::FeedbackService::Stub::DeleteReport, request);
}

grpc::Status PlanNotKnown() {
  TestServer server;
  v1::ReportIterationRequest request;
  request.mutable_report()->set_plan_id("0123456789abcdef0123456789abcdef");
  request.mutable_report()->set_iteration_seconds(1);
  return Call(server.feedback(), &v1::FeedbackService::Stub::ReportIteration, request);
}

grpc::Status ProfileBuiltIn() {
  TestServer server;
  v1::DeleteProfileRequest request;
  request.set_accelerator("H800-SXM");
  return Call(server.profiles(), &v1::ProfilesService::Stub::DeleteProfile, request);
}

grpc::Status NoPlanFits() {
  TestServer server = ServerWith([](const search::SearchRequest&) {
    search::Outcome outcome;
    outcome.infeasibility = {"Stage 0 is short of 1000 bytes.", "memory", 0, 1000, "Use more."};
    return outcome;
  });
  return Plan(server);
}

grpc::Status NotPermitted() {
  TestCertificates certificates;
  certificates.Issue("server", "IP:127.0.0.1");
  certificates.Issue("reader", "DNS:reader.example");
  const auto text = [&](const std::string& file) {
    std::stringstream content;
    content << std::ifstream(certificates.Path(file)).rdbuf();
    return content.str();
  };
  ServerOptions options = TestServer::Options();
  options.tls = {certificates.Path("server.pem"), certificates.Path("server.key"),
                 certificates.ca()};
  options.writers = {"writer.example"};
  TestServer server(std::make_unique<SearchSolver>(), options);
  const auto channel = grpc::CreateChannel(
      "127.0.0.1:" + std::to_string(server.server().port()),
      grpc::SslCredentials({text("ca.pem"), text("reader.key"), text("reader.pem")}));
  v1::ProfilesService::Stub profiles(channel);
  v1::PutProfileRequest request;
  *request.mutable_profile() = RoundProfile("Unit-1");
  return Call(profiles, &v1::ProfilesService::Stub::PutProfile, request);
}

grpc::Status QueueFull() {
  ServerOptions options = TestServer::Options();
  options.queue_size = 0;
  TestServer server(std::make_unique<SearchSolver>(), options);
  return Plan(server);
}

grpc::Status SearchTooLarge() {
  TestServer server = ServerWith([](const search::SearchRequest& request) {
    EXPECT_FALSE(request.memory->Charge(int64_t{1} << 40));
    search::Outcome outcome;
    outcome.termination.limit = search::Limit::kMemory;
    return outcome;
  });
  const grpc::Status status = Plan(server);
  EXPECT_THAT(status.error_message(), HasSubstr("1048576 MiB"));
  EXPECT_EQ(server.Metric("hapmoe_search_termination_total{reason=\"memory\"}"), 1);
  return status;
}

grpc::Status DeadlinePassed() {
  TestServer server(std::make_unique<SlowSolver>(std::make_shared<SlowSearch>(),
                                                 /*finds_plan=*/false));
  v1::PlanRequest request = SmallPlanRequest();
  request.mutable_problem()->mutable_constraints()->mutable_time_budget()->set_nanos(50'000'000);
  return Plan(server, request);
}

// Who went away is not told; the metrics are.
grpc::Status CallCancelled() {
  auto search = std::make_shared<SlowSearch>();
  TestServer server(std::make_unique<SlowSolver>(search, /*finds_plan=*/false));
  grpc::ClientContext context;
  grpc::Status status;
  std::thread call([&] {
    v1::PlanResponse response;
    status = server.planner().Plan(&context, SmallPlanRequest(), &response);
  });
  EXPECT_TRUE(Eventually([&] { return search->started == 1; }));
  context.TryCancel();
  call.join();
  EXPECT_TRUE(Eventually(
      [&] { return server.Metric("hapmoe_errors_total{reason=\"CALL_CANCELLED\"}") == 1; }));
  return status;
}

grpc::Status Draining() {
  auto search = std::make_shared<SlowSearch>();
  TestServer server(std::make_unique<SlowSolver>(search, /*finds_plan=*/true));
  grpc::ClientContext context;
  std::thread call([&] {
    v1::PlanResponse response;
    (void)server.planner().Plan(&context, SmallPlanRequest(), &response);
  });
  EXPECT_TRUE(Eventually([&] { return search->started == 1; }));
  std::thread drain([&] { server.server().Drain(std::chrono::seconds(20)); });
  grpc::Status status;
  EXPECT_TRUE(Eventually([&] {
    status = Call(server.planner(), &v1::PlannerService::Stub::Evaluate, SmallEvaluateRequest());
    return !status.ok();
  }));
  context.TryCancel();
  call.join();
  drain.join();
  return status;
}

grpc::Status StorageFailed() {
  const TemporaryDirectory state;
  ServerOptions options = TestServer::Options();
  options.state_dir = state.path();
  TestServer server(std::make_unique<SearchSolver>(), options);
  std::filesystem::remove(state.path() + "/hapmoe.db");  // What is written to it now is lost.
  v1::PutProfileRequest request;
  *request.mutable_profile() = RoundProfile("Unit-1");
  return Call(server.profiles(), &v1::ProfilesService::Stub::PutProfile, request);
}

grpc::Status InternalFault() {
  TestServer server = ServerWith(
      [](const search::SearchRequest&) { return absl::InternalError("a secret of ours"); });
  const grpc::Status status = Plan(server);
  EXPECT_THAT(status.error_message(), ::testing::Not(HasSubstr("secret")));
  return status;
}

struct Case {
  Reason reason;
  std::function<grpc::Status()> reach;
  const char* advice;  // Part of what the client says to do.
  bool retry = false;  // RetryInfo says when.
  bool told = true;    // The caller is still there to be told.
};

const Case kCases[] = {
    {Reason::kRequestInvalid, RequestInvalid, "Correct what is listed and ask again."},
    {Reason::kLayoutInvalid, LayoutInvalid, "`hapmoe plan`"},
    {Reason::kPrecisionUnsupported, PrecisionUnsupported, "a precision that every pool supports"},
    {Reason::kProfileInvalid, ProfileInvalid, "put the profile again"},
    {Reason::kPageTokenInvalid, PageTokenInvalid, "from the first page"},
    {Reason::kProfileNotFound, ProfileNotFound, "`hapmoe profiles list`"},
    {Reason::kReportNotFound, ReportNotFound, "`hapmoe report list`"},
    {Reason::kPlanNotKnown, PlanNotKnown, "its job, its cluster and the plan"},
    {Reason::kProfileBuiltIn, ProfileBuiltIn, "Put a profile under the same name"},
    {Reason::kNoPlanFits, NoPlanFits, "Add nodes, or allow more"},
    {Reason::kNotPermitted, NotPermitted, "--tls-cert"},
    {Reason::kQueueFull, QueueFull, "Try again in 1s.", /*retry=*/true},
    {Reason::kSearchTooLarge, SearchTooLarge, "--max_search_memory"},
    {Reason::kDeadlinePassed, DeadlinePassed, "more time"},
    {Reason::kCallCancelled, CallCancelled, "", /*retry=*/false, /*told=*/false},
    {Reason::kDraining, Draining, "Ask again in a moment"},
    {Reason::kStorageFailed, StorageFailed, "once that is mended"},
    {Reason::kInternalFault, InternalFault, "report this"},
};

TEST(Reasons, NoneIsMissing) {
  std::map<Reason, int> rows;
  for (const Case& one : kCases) ++rows[one.reason];
  for (const ReasonFacts& facts : kReasons) EXPECT_EQ(rows[facts.reason], 1) << facts.wire;
  EXPECT_EQ(std::size(kCases), std::size(kReasons));
}

class ReasonTest : public ::testing::TestWithParam<Case> {};

TEST_P(ReasonTest, IsReachedOverTheWireAndSaysWhatToDo) {
  const Case& one = GetParam();
  const ReasonFacts& facts = Facts(one.reason);
  const grpc::Status status = one.reach();
  EXPECT_EQ(static_cast<int>(status.error_code()), static_cast<int>(facts.code));
  if (!one.told) return;
  const google::rpc::ErrorInfo info = ErrorInfoOf(status);
  EXPECT_EQ(info.reason(), facts.wire);
  EXPECT_EQ(info.domain(), "hapmoe");
  EXPECT_THAT(status.error_message(), HasSubstr(std::string(facts.text)));
  EXPECT_EQ(DetailsOf<google::rpc::RetryInfo>(status).size(), one.retry ? 1u : 0u);
  const std::string text = client::FailureText(status, "planner:1");
  EXPECT_THAT(text, HasSubstr(one.advice));
  EXPECT_EQ(text.substr(0, 8), "hapmoe: ");
  EXPECT_EQ(text.substr(text.size() - 2), ".\n") << text;
}

INSTANTIATE_TEST_SUITE_P(All, ReasonTest, ::testing::ValuesIn(kCases),
                         [](const auto& one) { return std::string(Facts(one.param.reason).wire); });

// Told in words of its own, even where the code is another's too.
TEST(Reasons, EachHasAdviceOfItsOwn) {
  std::set<std::string> advices;
  for (const ReasonFacts& facts : kReasons) {
    google::rpc::ErrorInfo info;
    info.set_reason(std::string(facts.wire));
    google::rpc::Status wire;
    wire.set_code(static_cast<int>(facts.code));
    wire.set_message("why");
    wire.add_details()->PackFrom(info);
    const std::string text = client::FailureText(
        {static_cast<grpc::StatusCode>(facts.code), "why", wire.SerializeAsString()}, "planner:1");
    const std::string advice = text.substr(text.find('\n') + 1);
    EXPECT_NE(advice, "") << facts.wire;
    EXPECT_TRUE(advices.insert(advice).second) << facts.wire << ": " << advice;
  }
}

}  // namespace
}  // namespace hapmoe::server
