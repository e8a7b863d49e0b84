// Encrypted calls, from the command line to the service.
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <list>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "client/commands.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/testing/fake_solver.h"
#include "tests/server/testing/requests.h"
#include "tests/server/testing/test_certificates.h"
#include "tests/server/testing/test_server.h"

namespace hapmoe::server {
namespace {

using ::testing::HasSubstr;

class SecurityTest : public ::testing::Test {
 protected:
  SecurityTest() {
    certificates_.Issue("server", "DNS:planner.example,IP:127.0.0.1");
    certificates_.Issue("scheduler", "DNS:scheduler.example");
    certificates_.Issue("profiler", "URI:spiffe://site/profiler");
    strangers_.Issue("scheduler", "DNS:scheduler.example");
    options_.tls = {certificates_.Path("server.pem"), certificates_.Path("server.key"), "",
                    std::chrono::seconds(1)};
  }

  // What `hapmoe info` exits with; a refused handshake is tried again until the deadline.
  int Info(TestServer& server, std::vector<std::string> words, std::string* err = nullptr) {
    std::istringstream in;
    std::ostringstream out;
    std::ostringstream errors;
    words.insert(words.begin(),
                 {"info", "--server", "127.0.0.1:" + std::to_string(server.server().port()),
                  "--deadline", "10s"});
    const int code = client::RunHapmoe(
        words, {in, out, errors, false, [](const char*) { return std::nullopt; }});
    if (err != nullptr) *err = errors.str();
    return code;
  }

  // A channel of a client that shows a certificate of this name; of nobody where there is none.
  std::shared_ptr<grpc::Channel> ChannelOf(TestServer& server, const TestCertificates& issuer,
                                           const std::string& name) {
    grpc::SslCredentialsOptions ssl;
    ssl.pem_root_certs = Text(certificates_.ca());
    if (!name.empty()) {
      ssl.pem_cert_chain = Text(issuer.Path(name + ".pem"));
      ssl.pem_private_key = Text(issuer.Path(name + ".key"));
    }
    return grpc::CreateChannel("127.0.0.1:" + std::to_string(server.server().port()),
                               grpc::SslCredentials(ssl));
  }

  static std::string Text(const std::string& file) {
    std::stringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
  }

  // The call with an empty request, which is refused as such where it is permitted.
  template <typename Stub, typename Request, typename Response>
  static std::string ReasonFor(const std::shared_ptr<grpc::Channel>& channel,
                               grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                            Response*)) {
    Stub stub(channel);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    Response response;
    const grpc::Status status = (stub.*method)(&context, Request(), &response);
    if (status.ok()) return "OK";
    if (status.error_details().empty()) return std::to_string(status.error_code());
    return ErrorInfoOf(status).reason();
  }

  TestCertificates certificates_;
  TestCertificates strangers_;
  ServerOptions options_ = TestServer::Options();
};

TEST_F(SecurityTest, CallsAreEncryptedAndTheServerIsKnown) {
  TestServer server(std::make_unique<SearchSolver>(), options_);
  EXPECT_EQ(Info(server, {"--tls-ca", certificates_.ca()}), 0);
  EXPECT_EQ(Info(server, {"--tls-ca", certificates_.ca(), "--tls-name", "planner.example"}), 0);
  // Plain text, other issuers and other names come to nothing.
  std::string err;
  EXPECT_EQ(Info(server, {"--deadline", "1s"}, &err), 3);
  EXPECT_EQ(Info(server, {"--tls-ca", strangers_.ca()}, &err), 3);
  EXPECT_EQ(Info(server, {"--tls-ca", certificates_.ca(), "--tls-name", "other"}, &err), 3);
  EXPECT_EQ(Info(server, {"--tls"}, &err), 3);
  EXPECT_EQ(Info(server, {"--tls-ca", certificates_.Path("none")}, &err), 2);
  EXPECT_THAT(err, HasSubstr("none cannot be read"));
  EXPECT_EQ(Info(server, {"--tls-ca", certificates_.Path("")}, &err), 2);
  EXPECT_EQ(Info(server, {"--tls-cert", certificates_.ca()}, &err), 2);
  EXPECT_THAT(err, HasSubstr("belong together"));
  EXPECT_GT(server.Metric("hapmoe_certificate_expiry_timestamp_seconds"), 1.7e9);
}

TEST_F(SecurityTest, ClientsMustShowACertificateOfTheIssuer) {
  options_.tls.client_ca = certificates_.ca();
  TestServer server(std::make_unique<SearchSolver>(), options_);
  const std::vector<std::string> words = {"--tls-ca",   certificates_.ca(),
                                          "--tls-cert", certificates_.Path("scheduler.pem"),
                                          "--tls-key",  certificates_.Path("scheduler.key")};
  EXPECT_EQ(Info(server, words), 0);
  EXPECT_EQ(Info(server, {"--tls-ca", certificates_.ca()}), 3);
  EXPECT_EQ(
      Info(server, {"--tls-ca", certificates_.ca(), "--tls-cert", strangers_.Path("scheduler.pem"),
                    "--tls-key", strangers_.Path("scheduler.key")}),
      3);
  // Whom nobody restricts may write.
  EXPECT_EQ(ReasonFor(ChannelOf(server, certificates_, "scheduler"),
                      &v1::ProfilesService::Stub::PutProfile),
            "PROFILE_INVALID");
}

TEST_F(SecurityTest, OnlyWritersChangeWhatIsStored) {
  options_.tls.client_ca = certificates_.ca();
  options_.writers = {"spiffe://site/profiler", "operator"};
  TestServer server(std::make_unique<SearchSolver>(), options_);
  const auto scheduler = ChannelOf(server, certificates_, "scheduler");
  EXPECT_EQ(ReasonFor(scheduler, &v1::ProfilesService::Stub::PutProfile), "NOT_PERMITTED");
  EXPECT_EQ(ReasonFor(scheduler, &v1::ProfilesService::Stub::DeleteProfile), "NOT_PERMITTED");
  EXPECT_EQ(ReasonFor(scheduler, &v1::FeedbackService::Stub::ReportIteration), "NOT_PERMITTED");
  EXPECT_EQ(ReasonFor(scheduler, &v1::FeedbackService::Stub::DeleteReport), "NOT_PERMITTED");
  EXPECT_EQ(ReasonFor(scheduler, &v1::ProfilesService::Stub::ListProfiles), "OK");
  EXPECT_EQ(ReasonFor(scheduler, &v1::PlannerService::Stub::Plan), "REQUEST_INVALID");
  const auto profiler = ChannelOf(server, certificates_, "profiler");
  EXPECT_EQ(ReasonFor(profiler, &v1::ProfilesService::Stub::PutProfile), "PROFILE_INVALID");
  EXPECT_EQ(ReasonFor(profiler, &v1::ProfilesService::Stub::DeleteProfile), "PROFILE_NOT_FOUND");
  // The common name counts as well.
  certificates_.Issue("operator", "DNS:somewhere");
  EXPECT_EQ(ReasonFor(ChannelOf(server, certificates_, "operator"),
                      &v1::ProfilesService::Stub::PutProfile),
            "PROFILE_INVALID");
}

// Callers are told apart by their certificates, whatever host they call from.
TEST_F(SecurityTest, OneCallerLeavesRoomInTheQueueToOthers) {
  options_.tls.client_ca = certificates_.ca();
  options_.search_threads = 1;
  options_.queue_size = 4;
  auto search = std::make_shared<SlowSearch>();
  TestServer server(std::make_unique<SlowSolver>(search, /*finds_plan=*/true), options_);
  v1::PlanRequest request = SmallPlanRequest();
  request.set_cache_policy(v1::CACHE_POLICY_BYPASS);  // A search for each.
  std::list<grpc::ClientContext> contexts;
  std::vector<std::thread> calls;
  const auto queued = [&] { return server.Metric("hapmoe_queue_depth{pool=\"search\"}"); };
  // Whether a call comes to wait, beside those that do.
  const auto waits = [&](const std::shared_ptr<grpc::Channel>& channel) {
    const double before = queued();
    auto answered = std::make_shared<std::atomic<bool>>(false);
    grpc::ClientContext& context = contexts.emplace_back();
    calls.emplace_back([&context, &request, channel, answered] {
      v1::PlanResponse response;
      (void)v1::PlannerService::NewStub(channel)->Plan(&context, request, &response);
      *answered = true;
    });
    EXPECT_TRUE(Eventually([&] { return *answered || queued() > before; }));
    return !*answered;
  };
  const auto flood = ChannelOf(server, certificates_, "scheduler");
  const auto other = ChannelOf(server, certificates_, "profiler");
  calls.emplace_back([&, &context = contexts.emplace_back()] {
    v1::PlanResponse response;
    (void)v1::PlannerService::NewStub(flood)->Plan(&context, request, &response);
  });
  ASSERT_TRUE(Eventually([&] { return search->started == 1; }));
  EXPECT_TRUE(waits(flood));
  EXPECT_TRUE(waits(flood));
  EXPECT_FALSE(waits(flood)) << "it has half of the queue";
  EXPECT_TRUE(waits(other));
  EXPECT_FALSE(waits(flood));
  for (grpc::ClientContext& context : contexts) context.TryCancel();
  for (std::thread& call : calls) call.join();
}

TEST_F(SecurityTest, ANewCertificateIsTakenWithoutARestart) {
  TestServer server(std::make_unique<SearchSolver>(), options_);
  const std::vector<std::string> by_name = {"--tls-ca", certificates_.ca(), "--tls-name",
                                            "renamed.example"};
  EXPECT_EQ(Info(server, by_name), 3);
  certificates_.Issue("server", "DNS:renamed.example");
  EXPECT_TRUE(Eventually([&] { return Info(server, by_name) == 0; }));
  // What makes no sense leaves what was: text, or a certificate without its key.
  std::ofstream(certificates_.Path("server.pem")) << "nonsense";
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  EXPECT_EQ(Info(server, by_name), 0);
  std::filesystem::copy(certificates_.Path("scheduler.pem"), certificates_.Path("server.pem"),
                        std::filesystem::copy_options::overwrite_existing);
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  EXPECT_EQ(Info(server, by_name), 0);
}

TEST_F(SecurityTest, OptionsThatMakeNoSenseDoNotStart) {
  const auto fault = [](const ServerOptions& options) {
    const auto server = Server::Start(options, std::make_unique<SearchSolver>());
    EXPECT_TRUE(absl::IsInvalidArgument(server.status())) << server.status();
    return std::string(server.status().message());
  };
  ServerOptions options = options_;
  options.writers = {"a"};
  EXPECT_THAT(fault(options), HasSubstr("--writers needs --tls_client_ca"));
  options = options_;
  options.tls.key = strangers_.Path("scheduler.key");
  EXPECT_THAT(fault(options), HasSubstr("is not the private key"));
  options = options_;
  options.tls = {"", "", certificates_.ca()};
  EXPECT_THAT(fault(options), HasSubstr("both a certificate and its private key"));
}

}  // namespace
}  // namespace hapmoe::server
