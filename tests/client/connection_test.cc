// The server that is called, and what becomes of calls that fail.
#include "client/connection.h"

#include <grpcpp/support/error_details.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "gmock/gmock.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"
#include "tests/client/commands_fixture.h"

namespace hapmoe::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(CommandsTest, TheOptionGoesBeforeTheVariable) {
  fake_.info = [](const v1::GetServerInfoRequest&, v1::GetServerInfoResponse& response) {
    response.set_version("9.9");
    response.add_engines("megatron-lm");
    response.mutable_max_time_budget()->set_seconds(10);
    return grpc::Status::OK;
  };
  const RunOutcome run = RunWords({"info", "--server", fake_.address()}, "", "127.0.0.1:1");
  EXPECT_EQ(run.code, kDone);
  EXPECT_THAT(run.out, AllOf(HasSubstr("9.9"), HasSubstr("megatron-lm"), HasSubstr("10.00 s")));
}

TEST_F(CommandsTest, RefusalsExitWithOneAndSayWhy) {
  fake_.plan = [](const v1::PlanRequest&, v1::PlanResponse&) {
    google::rpc::BadRequest bad;
    auto* violation = bad.add_field_violations();
    violation->set_field("--num-experts");
    violation->set_description("7 is not divisible by ep 2");
    violation->set_reason("experts_divide");
    google::rpc::Status rich;
    rich.set_code(grpc::StatusCode::INVALID_ARGUMENT);
    rich.set_message("the job is not valid");
    rich.add_details()->PackFrom(bad);
    grpc::Status status;
    grpc::SetErrorDetails(rich, &status);
    return status;
  };
  const RunOutcome run = Run({"plan", "--cluster", cluster_, "--", "--bf16"});
  EXPECT_EQ(run.code, kRefused);
  EXPECT_THAT(run.err, AllOf(HasSubstr("the request was refused: the job is not valid."),
                             HasSubstr("--num-experts: 7 is not divisible by ep 2 "
                                       "[experts_divide]")));
  EXPECT_THAT(run.out, IsEmpty());
}

TEST_F(CommandsTest, AnUnreachableServerExitsWithThree) {
  const RunOutcome run = RunWords({"info", "--server", "unix:" + (root_ / "none").string()});
  EXPECT_EQ(run.code, kServerFailed);
  EXPECT_THAT(run.err, AllOf(HasSubstr("cannot be reached"), HasSubstr("hapmoed --listen")));
}

TEST_F(CommandsTest, UnavailableIsTriedFourTimesAndOtherFailuresOnce) {
  std::atomic<int> calls = 0;
  fake_.info = [&calls](const v1::GetServerInfoRequest&, v1::GetServerInfoResponse& response) {
    if (++calls < 4) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "draining");
    response.set_version("1");
    return grpc::Status::OK;
  };
  EXPECT_EQ(Run({"info"}).code, kDone);
  EXPECT_EQ(calls, 4);

  calls = 0;
  fake_.info = [&calls](const v1::GetServerInfoRequest&, v1::GetServerInfoResponse&) {
    ++calls;
    return grpc::Status(grpc::StatusCode::INTERNAL, "broken");
  };
  const RunOutcome run = Run({"info"});
  EXPECT_EQ(run.code, kServerFailed);
  EXPECT_THAT(run.err, HasSubstr("failed (status 13): broken."));
  EXPECT_EQ(calls, 1);
}

TEST_F(CommandsTest, TheDeadlineIsAlwaysSet) {
  fake_.info = [](const v1::GetServerInfoRequest&, v1::GetServerInfoResponse&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    return grpc::Status::OK;
  };
  const RunOutcome run = Run({"info", "--deadline", "100ms"});
  EXPECT_EQ(run.code, kServerFailed);
  EXPECT_THAT(run.err, AllOf(HasSubstr("within the deadline"), HasSubstr("--deadline")));
}

}  // namespace
}  // namespace hapmoe::client
