// The program itself: its flags, its log and its end.
#include <grpcpp/grpcpp.h>
#include <signal.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "hapmoe/v1/planner.grpc.pb.h"
#include "tests/server/testing/server_program.h"

namespace hapmoe::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Program : public ServerProgram {
 public:
  explicit Program(std::vector<std::string> arguments)
      : ServerProgram(HAPMOED_PATH, std::move(arguments)) {}
};

const std::vector<std::string> kFreePorts = {"--listen=127.0.0.1:0",
                                             "--metrics_listen=127.0.0.1:0"};

TEST(Hapmoed, PrintsItsFlagsAndPortServesAndEndsOnSigterm) {
  Program program({"--listen=127.0.0.1:0", "--metrics_listen=", "--search_threads=3",
                   "--max_time_budget=1500ms"});
  const int port = program.Port();
  ASSERT_GT(port, 0) << program.Log();
  EXPECT_THAT(program.Log(), HasSubstr("\"search_threads\":3"));
  EXPECT_THAT(program.Log(), HasSubstr("\"max_time_budget\":\"1.5s\""));
  EXPECT_THAT(program.Log(), HasSubstr("\"max_search_memory\":1073741824"));
  EXPECT_THAT(program.Log(), HasSubstr("\"event\":\"warmed_up\""));
  auto stub = v1::PlannerService::NewStub(
      grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  v1::GetServerInfoResponse response;
  ASSERT_TRUE(stub->GetServerInfo(&context, {}, &response).ok());
  EXPECT_EQ(response.search_threads(), 3);
  program.Signal(SIGTERM);
  EXPECT_EQ(program.Wait(), 0);
  EXPECT_THAT(program.Log(), HasSubstr("\"event\":\"stopped\",\"all_answered\":true"));
}

TEST(Hapmoed, EndsOnSigintToo) {
  Program program(kFreePorts);
  ASSERT_GT(program.Port(), 0) << program.Log();
  program.Signal(SIGINT);
  EXPECT_EQ(program.Wait(), 0);
}

TEST(Hapmoed, SaysNothingOfRequestsInItsLog) {
  Program program(kFreePorts);
  const int port = program.Port();
  ASSERT_GT(port, 0) << program.Log();
  auto stub = v1::PlannerService::NewStub(
      grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  v1::PlanRequest request;
  request.set_request_id("my-secret-request");
  request.mutable_problem()->mutable_job()->add_megatron_args("--my-secret-option");
  v1::PlanResponse response;
  EXPECT_FALSE(stub->Plan(&context, request, &response).ok());
  program.Signal(SIGTERM);
  EXPECT_EQ(program.Wait(), 0);
  EXPECT_THAT(program.Log(), Not(HasSubstr("my-secret")));
}

TEST(Hapmoed, DoesNotStartWithoutItsAddress) {
  Program first(kFreePorts);
  const int port = first.Port();
  ASSERT_GT(port, 0) << first.Log();
  Program second({"--listen=127.0.0.1:" + std::to_string(port), "--metrics_listen="});
  EXPECT_EQ(second.Wait(), 1);
  EXPECT_THAT(second.Log(), HasSubstr("cannot listen on 127.0.0.1:" + std::to_string(port)));
}

TEST(Hapmoed, RefusesFlagsAndArgumentsThatItDoesNotKnow) {
  Program flag({"--no_such_flag"});
  EXPECT_EQ(flag.Wait(), 1);  // Abseil's own exit code.
  Program argument({"stray"});
  EXPECT_EQ(argument.Wait(), 2);
}

TEST(Hapmoed, RefusesValuesThatMakeNoSense) {
  for (const char* flag : {"--queue_size=-1", "--drain_grace=-1s", "--drain_grace=25h",
                           "--max_connection_age=-1s", "--max_connection_age=inf"}) {
    SCOPED_TRACE(flag);
    std::vector<std::string> arguments = kFreePorts;
    arguments.push_back(flag);
    Program program(arguments);
    EXPECT_EQ(program.Wait(), 2);
    EXPECT_THAT(program.Log(), HasSubstr(std::string(flag).substr(0, 8)));
  }
  Program program({"--listen=127.0.0.1:65536"});
  EXPECT_EQ(program.Wait(), 1);
  EXPECT_THAT(program.Log(), HasSubstr("--listen must be HOST:PORT"));
}

TEST(Hapmoed, AsksCallersToConnectAnew) {
  std::vector<std::string> arguments = kFreePorts;
  arguments.push_back("--max_connection_age=500ms");
  Program program(arguments);
  const int port = program.Port();
  ASSERT_GT(port, 0) << program.Log();
  const auto channel =
      grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials());
  const auto deadline = std::chrono::system_clock::now() + std::chrono::seconds(30);
  ASSERT_TRUE(channel->WaitForConnected(deadline));
  EXPECT_TRUE(channel->WaitForStateChange(GRPC_CHANNEL_READY, deadline));
  grpc::ClientContext context;
  v1::GetServerInfoResponse response;
  EXPECT_TRUE(v1::PlannerService::NewStub(channel)->GetServerInfo(&context, {}, &response).ok());
}

TEST(Hapmoed, HelpsWithItsFlags) {
  Program program({"--help"});
  EXPECT_EQ(program.Wait(), 1);  // Abseil's own exit code.
  EXPECT_THAT(program.Log(), HasSubstr("--drain_grace (After SIGTERM"));
  EXPECT_THAT(program.Log(), HasSubstr("--tls_client_ca (PEM file"));
}

TEST(Hapmoed, WarnsWhereAnybodyMayCallInPlainText) {
  Program open({"--listen=0.0.0.0:0", "--metrics_listen="});
  ASSERT_GT(open.Port(), 0) << open.Log();
  EXPECT_THAT(open.Log(), HasSubstr("\"event\":\"unprotected\""));
  Program local(kFreePorts);
  ASSERT_GT(local.Port(), 0) << local.Log();
  EXPECT_THAT(local.Log(), Not(HasSubstr("unprotected")));
}

}  // namespace
}  // namespace hapmoe::server
