// Kept answers and shared searches over the loopback.
#include <grpcpp/generic/generic_stub.h>

#include <atomic>
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

v1::PlanRequest Request(const std::string& id) {
  v1::PlanRequest request = SmallPlanRequest();
  request.set_request_id(id);
  return request;
}

v1::PlanResponse Plan(TestServer& server, const v1::PlanRequest& request) {
  grpc::ClientContext context;
  v1::PlanResponse response;
  const grpc::Status status = server.planner().Plan(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response;
}

double Lookups(TestServer& server, const std::string& result) {
  return server.Metric("hapmoe_cache_lookups_total{result=\"" + result + "\"}");
}

// Bytes as a request of Plan.
grpc::Status PlanBytes(TestServer& server, const std::string& bytes) {
  grpc::GenericStub stub(server.channel());
  grpc::ClientContext context;
  const grpc::Slice slice(bytes);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer response;
  grpc::CompletionQueue queue;
  const auto call =
      stub.PrepareUnaryCall(&context, "/hapmoe.v1.PlannerService/Plan", request, &queue);
  grpc::Status status;
  call->StartCall();
  call->Finish(&response, &status, &queue);
  void* tag = nullptr;
  bool ok = false;
  EXPECT_TRUE(queue.Next(&tag, &ok));
  return status;
}

TEST(PlanCache, EqualCallsGetTheKeptAnswerAndTheirOwnIds) {
  TestServer server;
  for (const char* result : {"hit", "miss", "shared", "bypassed"}) {
    EXPECT_EQ(Lookups(server, result), 0) << result;
  }
  EXPECT_EQ(server.Metric("hapmoe_cache_entries"), 0);
  const v1::PlanResponse first = Plan(server, Request("first"));
  const v1::PlanResponse second = Plan(server, Request("second"));
  EXPECT_EQ(first.source(), v1::ANSWER_SOURCE_SEARCH);
  EXPECT_EQ(second.source(), v1::ANSWER_SOURCE_CACHE);
  EXPECT_EQ(first.request_id(), "first");
  EXPECT_EQ(second.request_id(), "second");
  EXPECT_EQ(second.answer().SerializeAsString(), first.answer().SerializeAsString());
  EXPECT_EQ(Lookups(server, "hit"), 1);
  EXPECT_EQ(Lookups(server, "miss"), 1);
  EXPECT_EQ(server.Metric("hapmoe_cache_entries"), 1);
  EXPECT_GT(server.Metric("hapmoe_cache_bytes"), first.answer().ByteSizeLong());
  EXPECT_EQ(server.Metric("hapmoe_search_termination_total{reason=\"optimal\"}") +
                server.Metric("hapmoe_search_termination_total{reason=\"incumbent\"}"),
            1);  // Of searches, not of calls.
  EXPECT_EQ(server.Metric("hapmoe_request_duration_seconds_count{method=\"Plan\",outcome=\"hit\"}"),
            1);
}

TEST(PlanCache, KeptAnswersNeedNoThreadThatSearches) {
  auto search = std::make_shared<SlowSearch>();
  auto first = std::make_shared<std::atomic<bool>>(true);
  // Answers the first request, and searches for others until it is interrupted.
  class OnceQuick : public SlowSolver {
   public:
    OnceQuick(std::shared_ptr<SlowSearch> slow, std::shared_ptr<std::atomic<bool>> once)
        : SlowSolver(std::move(slow), true), first_(std::move(once)) {}
    absl::StatusOr<search::Outcome> Search(
        const search::SearchRequest& request, Executor& executor, const Interrupter& interrupter,
        absl::FunctionRef<void(const search::Progress&)> progress) const override {
      if (!first_->exchange(false)) {
        return SlowSolver::Search(request, executor, interrupter, progress);
      }
      search::Outcome outcome;
      outcome.best = TrivialPlan(request);
      return outcome;
    }

   private:
    const std::shared_ptr<std::atomic<bool>> first_;
  };
  ServerOptions options = TestServer::Options();
  options.search_threads = 1;
  options.queue_size = 1;
  TestServer server(std::make_unique<OnceQuick>(search, first), options);
  Plan(server, Request("kept"));
  v1::PlanRequest slow = Request("slow");
  slow.mutable_problem()->mutable_constraints()->add_pp(1);
  grpc::ClientContext context;
  std::thread call([&] {
    v1::PlanResponse response;
    (void)server.planner().Plan(&context, slow, &response);
  });
  ASSERT_TRUE(Eventually([&] { return search->started == 1; }));
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(Plan(server, Request("")).source(), v1::ANSWER_SOURCE_CACHE);
  }
  context.TryCancel();
  call.join();
}

TEST(PlanCache, CallsAtOneTimeShareASearchToTheirOwnDeadlines) {
  auto search = std::make_shared<SlowSearch>();
  TestServer server(std::make_unique<SlowSolver>(search, /*finds_plan=*/true));
  grpc::ClientContext patient;
  std::thread leader([&] {
    v1::PlanResponse response;
    const grpc::Status status = server.planner().Plan(&patient, Request(""), &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
  });
  ASSERT_TRUE(Eventually([&] { return search->started == 1; }));
  std::vector<std::thread> calls;
  for (int i = 1; i <= 4; ++i) {
    calls.emplace_back([&server, i] {
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + milliseconds(1000 * i));
      v1::PlanResponse response;
      const grpc::Status status = server.planner().Plan(&context, Request(""), &response);
      ASSERT_TRUE(status.ok()) << status.error_message();
      EXPECT_EQ(response.source(), v1::ANSWER_SOURCE_SHARED_SEARCH);
      EXPECT_EQ(response.answer().termination().limit(), v1::Termination::LIMIT_TIME);
      EXPECT_GE(response.answer().artifacts_size(), 1);
    });
  }
  for (std::thread& call : calls) call.join();
  EXPECT_EQ(search->started, 1);
  EXPECT_EQ(search->ended, 0);
  patient.TryCancel();
  leader.join();
  ASSERT_TRUE(Eventually([&] { return search->ended == 1; }));
  EXPECT_EQ(search->seen_cancelled, 1);
  EXPECT_EQ(Lookups(server, "shared"), 4);
  EXPECT_TRUE(Eventually([&] { return server.Metric("hapmoe_inflight_requests") == 0; }));
}

TEST(PlanCache, StreamsTakeAndLeaveAnswersToo) {
  TestServer server;
  v1::StreamPlanRequest stream;
  *stream.mutable_problem() = Request("").problem();
  const auto last = [&] {
    grpc::ClientContext context;
    auto reader = server.planner().StreamPlan(&context, stream);
    v1::StreamPlanResponse message;
    while (reader->Read(&message)) {
    }
    EXPECT_TRUE(reader->Finish().ok());
    return message;
  };
  const v1::StreamPlanResponse first = last();
  EXPECT_EQ(first.source(), v1::ANSWER_SOURCE_SEARCH);
  EXPECT_EQ(Plan(server, Request("")).answer().SerializeAsString(),
            first.answer().SerializeAsString());
  const v1::StreamPlanResponse second = last();
  EXPECT_EQ(second.source(), v1::ANSWER_SOURCE_CACHE);
  EXPECT_EQ(second.answer().SerializeAsString(), first.answer().SerializeAsString());
  stream.set_cache_policy(v1::CACHE_POLICY_BYPASS);
  EXPECT_EQ(last().source(), v1::ANSWER_SOURCE_SEARCH);
}

TEST(PlanCache, AReportChangesWhatIsAnswered) {
  TestServer server;
  const v1::PlanAnswer before = Plan(server, Request("before")).answer();
  ASSERT_EQ(Plan(server, Request("again")).source(), v1::ANSWER_SOURCE_CACHE);
  // The plan is known by its id.
  v1::ReportIterationRequest report;
  report.mutable_report()->set_plan_id(before.plan().plan_id());
  report.mutable_report()->set_iteration_seconds(1.5 * before.prediction().iteration_seconds());
  grpc::ClientContext context;
  v1::ReportIterationResponse reported;
  const grpc::Status status = server.feedback().ReportIteration(&context, report, &reported);
  ASSERT_TRUE(status.ok()) << status.error_message();
  const v1::PlanResponse after = Plan(server, Request("after"));
  EXPECT_EQ(after.source(), v1::ANSWER_SOURCE_SEARCH);
  EXPECT_GT(after.answer().prediction().iteration_seconds(),
            1.1 * before.prediction().iteration_seconds());
}

TEST(PlanCache, AnIdIsOneRequests) {
  TestServer server;
  Plan(server, Request("id"));
  v1::PlanRequest other = Request("id");
  other.mutable_problem()->mutable_constraints()->add_pp(1);
  grpc::ClientContext context;
  v1::PlanResponse response;
  const grpc::Status status = server.planner().Plan(&context, other, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  const auto details = DetailsOf<google::rpc::BadRequest>(status);
  ASSERT_EQ(details.size(), 1u);
  EXPECT_EQ(details[0].field_violations(0).field(), "request_id");
}

TEST(PlanCache, BytesThatAreNoRequestAreRefused) {
  TestServer server;
  const std::string good = Request("id").SerializeAsString();
  for (const std::string& bytes :
       {std::string("\x0b"), good.substr(0, good.size() - 1), std::string("\x12\x02\xff\xff"),
        std::string("\x0a\x01\xff") /* no UTF-8 */}) {
    const grpc::Status status = PlanBytes(server, bytes);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(ErrorInfoOf(status).reason(), "REQUEST_INVALID");
  }
  EXPECT_TRUE(PlanBytes(server, good).ok());
  // Nor is a bad id let through because the answer is there.
  EXPECT_EQ(PlanBytes(server, std::string("\x0a\x01\xff") + good.substr(4)).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

TEST(PlanCache, MayBeOff) {
  ServerOptions options = TestServer::Options();
  options.plan_cache_bytes = 0;
  TestServer server(std::make_unique<SearchSolver>(), options);
  Plan(server, Request("id"));
  EXPECT_EQ(Plan(server, Request("id")).source(), v1::ANSWER_SOURCE_SEARCH);
  EXPECT_EQ(server.Metric("hapmoe_cache_bytes"), 0);
}

}  // namespace
}  // namespace hapmoe::server
