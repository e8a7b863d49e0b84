// Servers that share a storage, or lose it, and profile files that change under a server.
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/profile_store/json_files.h"
#include "tests/server/testing/postgresql_cluster.h"
#include "tests/server/testing/requests.h"
#include "tests/server/testing/temporary_directory.h"
#include "tests/server/testing/test_server.h"

namespace hapmoe::server {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

std::unique_ptr<TestServer> ServerOn(const std::string& store) {
  ServerOptions options = TestServer::Options();
  options.store = store;
  return std::make_unique<TestServer>(std::make_unique<SearchSolver>(), options);
}

grpc::Status Put(TestServer& server, const v1::AcceleratorProfile& profile) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + seconds(30));
  v1::PutProfileRequest request;
  *request.mutable_profile() = profile;
  v1::PutProfileResponse response;
  return server.profiles().PutProfile(&context, request, &response);
}

// What a server knows of a type; empty if nothing.
std::string NotesOf(TestServer& server, const std::string& accelerator) {
  grpc::ClientContext context;
  v1::GetProfileRequest request;
  request.set_accelerator(accelerator);
  v1::GetProfileResponse response;
  const grpc::Status status = server.profiles().GetProfile(&context, request, &response);
  return status.ok() ? response.profile().notes() : "";
}

v1::AcceleratorProfile Noted(const std::string& name, const std::string& notes) {
  v1::AcceleratorProfile profile = RoundProfile(name);
  profile.set_notes(notes);
  return profile;
}

// Seconds of an iteration of the small job on a type; 0 if it cannot be predicted.
double Evaluated(TestServer& server, const std::string& accelerator) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + seconds(30));
  v1::EvaluateRequest request = SmallEvaluateRequest();
  *request.mutable_cluster() = ClusterOf(accelerator, 1);
  v1::EvaluateResponse response;
  const grpc::Status status = server.planner().Evaluate(&context, request, &response);
  return status.ok() ? response.prediction().iteration_seconds() : 0;
}

int Reports(TestServer& server) {
  grpc::ClientContext context;
  v1::ListReportsResponse response;
  const grpc::Status status = server.feedback().ListReports(&context, {}, &response);
  return status.ok() ? response.reports_size() : -1;
}

// How long it takes until it holds; longer than any test bears if it never does.
steady_clock::duration TimeUntil(const std::function<bool()>& condition) {
  const auto begin = steady_clock::now();
  return Eventually(condition) ? steady_clock::now() - begin : steady_clock::duration::max();
}

// The promise is 2 s; what is beyond is for machines that have other things to do.
constexpr seconds kNoticed{5};

void ExpectThatTheyShare(const std::string& store) {
  const auto one = ServerOn(store);
  const auto other = ServerOn(store);
  ASSERT_TRUE(Put(*one, Noted("Unit-1", "first")).ok());
  EXPECT_LT(TimeUntil([&] { return NotesOf(*other, "Unit-1") == "first"; }), kNoticed);
  EXPECT_GT(Evaluated(*other, "Unit-1"), 0);
  ASSERT_TRUE(Put(*other, Noted("unit-1", "second")).ok());
  EXPECT_LT(TimeUntil([&] { return NotesOf(*one, "Unit-1") == "second"; }), kNoticed);

  v1::ReportIterationRequest request;
  const v1::EvaluateRequest job = SmallEvaluateRequest();
  *request.mutable_report()->mutable_job() = job.job();
  *request.mutable_report()->mutable_cluster() = job.cluster();
  const double plain = Evaluated(*one, "H800");
  request.mutable_report()->set_iteration_seconds(1.2 * plain);
  grpc::ClientContext report;
  v1::ReportIterationResponse reported;
  const grpc::Status status = one->feedback().ReportIteration(&report, request, &reported);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_LT(TimeUntil([&] { return Reports(*other) == 1; }), kNoticed);
  EXPECT_TRUE(Eventually([&] { return Evaluated(*other, "H800") > 1.1 * plain; }));
  grpc::ClientContext deletion;
  v1::DeleteReportRequest name;
  name.set_name(reported.stored().name());
  v1::DeleteReportResponse deleted;
  ASSERT_TRUE(other->feedback().DeleteReport(&deletion, name, &deleted).ok());
  EXPECT_LT(TimeUntil([&] { return Reports(*one) == 0; }), kNoticed);
}

TEST(SharedStorage, TwoServersOnOneSqliteFile) {
  const TemporaryDirectory directory;
  ExpectThatTheyShare("sqlite:" + directory.path() + "/shared.db");
}

TEST(SharedStorage, TwoServersOnPostgresql) {
  HAPMOE_NEED_POSTGRESQL();
  PostgresqlCluster cluster;
  ExpectThatTheyShare(cluster.NewDatabase());
}

TEST(LostStorage, PlansGoOnWritesFailAndItsReturnNeedsNoRestart) {
  HAPMOE_NEED_POSTGRESQL();
  PostgresqlCluster cluster;
  const std::string store = cluster.NewDatabase();
  const auto server = ServerOn(store);
  ASSERT_TRUE(Put(*server, Noted("Unit-1", "kept")).ok());
  const double before = Evaluated(*server, "Unit-1");
  EXPECT_GT(before, 0);
  EXPECT_EQ(server->Metric("hapmoe_storage_up"), 1);
  cluster.Kill();
  const grpc::Status status = Put(*server, RoundProfile("Unit-2"));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(ErrorInfoOf(status).reason(), "STORAGE_FAILED");
  EXPECT_THAT(status.error_message(), testing::HasSubstr("Nothing was changed (UNAVAILABLE)"));
  EXPECT_EQ(NotesOf(*server, "Unit-2"), "");
  EXPECT_EQ(Evaluated(*server, "Unit-1"), before);
  EXPECT_EQ(server->Metric("hapmoe_storage_up"), 0);
  cluster.Start();
  EXPECT_TRUE(Eventually([&] { return Put(*server, Noted("Unit-2", "new")).ok(); }));
  EXPECT_TRUE(Eventually([&] { return server->Metric("hapmoe_storage_up") == 1; }));
  // And what others stored meanwhile or later is taken in.
  const auto other = ServerOn(store);
  EXPECT_EQ(NotesOf(*other, "Unit-2"), "new");
  ASSERT_TRUE(Put(*other, Noted("Unit-3", "later")).ok());
  EXPECT_LT(TimeUntil([&] { return NotesOf(*server, "Unit-3") == "later"; }), kNoticed);
}

// Calls that wait for a database that does not answer hold up none that predict.
TEST(LostStorage, CallsThatPredictDoNotWaitForADatabaseThatDoesNotAnswer) {
  HAPMOE_NEED_POSTGRESQL();
  PostgresqlCluster cluster;
  const auto server = ServerOn(cluster.NewDatabase());
  cluster.Pause();
  std::vector<std::thread> writers;
  std::atomic<int> failed{0};
  for (int i = 0; i < 8; ++i) {
    writers.emplace_back([&] {
      if (!Put(*server, RoundProfile("Unit-1")).ok()) ++failed;
    });
  }
  std::this_thread::sleep_for(milliseconds(300));
  EXPECT_EQ(failed, 0);  // They wait.
  const auto begin = steady_clock::now();
  EXPECT_GT(Evaluated(*server, "H800"), 0);
  EXPECT_LT(steady_clock::now() - begin, seconds(3));
  EXPECT_EQ(failed, 0);
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(failed, 8);
  EXPECT_LT(steady_clock::now() - begin, seconds(30));
  cluster.Continue();
}

TEST(LostStorage, ADatabaseThatDoesNotAnswerDoesNotHoldUpTheEnd) {
  HAPMOE_NEED_POSTGRESQL();
  PostgresqlCluster cluster;
  auto server = ServerOn(cluster.NewDatabase());
  cluster.Pause();
  // Until it is in the middle of looking for changes.
  std::this_thread::sleep_for(milliseconds(1500));
  const auto begin = steady_clock::now();
  EXPECT_TRUE(server->server().Drain(seconds(10)));
  server.reset();
  EXPECT_LT(steady_clock::now() - begin, seconds(2));
  cluster.Continue();
}

class ProfileFiles : public testing::Test {
 protected:
  void Write(const std::string& file, const std::string& content) {
    std::ofstream(directory_.path() + "/" + file) << content;
  }
  void Start() {
    ServerOptions options = TestServer::Options();
    options.profiles_dir = directory_.path();
    options.profiles_period = milliseconds(20);
    server_ = std::make_unique<TestServer>(std::make_unique<SearchSolver>(), options);
  }
  bool Becomes(const std::string& accelerator, const std::string& notes) {
    return Eventually([&] { return NotesOf(*server_, accelerator) == notes; });
  }

  const TemporaryDirectory directory_;
  std::unique_ptr<TestServer> server_;
};

TEST_F(ProfileFiles, ThatChangeAreUsedWithoutARestart) {
  Write("a.json", PrintJson(Noted("Unit-1", "first")));
  Start();
  EXPECT_EQ(NotesOf(*server_, "Unit-1"), "first");
  Write("a.json", PrintJson(Noted("Unit-1", "second")));
  Write("b.json", PrintJson(Noted("Unit-2", "new")));
  EXPECT_TRUE(Becomes("Unit-1", "second"));
  EXPECT_TRUE(Becomes("Unit-2", "new"));
  EXPECT_EQ(server_->Metric("hapmoe_profile_reload_failures_total"), 0);
  fs::remove(directory_.path() + "/b.json");
  EXPECT_TRUE(Becomes("Unit-2", ""));
}

TEST_F(ProfileFiles, ThatAreBadKeepTheOldProfileAndAreCounted) {
  Write("a.json", PrintJson(Noted("Unit-1", "good")));
  Start();
  const double before = server_->Metric("hapmoe_profile_last_reload_timestamp_seconds");
  EXPECT_GT(before, 1e9);
  Write("a.json", "{ torn");
  EXPECT_TRUE(
      Eventually([&] { return server_->Metric("hapmoe_profile_reload_failures_total") == 1; }));
  EXPECT_EQ(NotesOf(*server_, "Unit-1"), "good");
  Write("a.json", PrintJson(Noted("Unit-1", "mended")));
  EXPECT_TRUE(Becomes("Unit-1", "mended"));
  EXPECT_EQ(server_->Metric("hapmoe_profile_reload_failures_total"), 1);
  EXPECT_GE(server_->Metric("hapmoe_profile_last_reload_timestamp_seconds"), before);
}

}  // namespace
}  // namespace hapmoe::server
