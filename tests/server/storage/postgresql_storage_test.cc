// What may befall a database. What every storage promises is in storage_conformance_test.cc.
#include "server/storage/postgresql_storage.h"

#include <libpq-fe.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/testing/postgresql_cluster.h"

namespace hapmoe::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using ::testing::HasSubstr;

constexpr RecordKind kProfile = RecordKind::kProfile;
constexpr PostgresqlStorage::Limits kLimits = {milliseconds(1000), milliseconds(1000),
                                               milliseconds(200)};

// Past the storage.
class Session {
 public:
  explicit Session(const std::string& uri) : connection_(PQconnectdb(uri.c_str())) {}
  ~Session() { PQfinish(connection_); }
  void Run(const std::string& sql) {
    PGresult* const result = PQexec(connection_, sql.c_str());
    const ExecStatusType status = PQresultStatus(result);
    EXPECT_TRUE(status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK)
        << PQerrorMessage(connection_);
    PQclear(result);
  }

 private:
  PGconn* const connection_;
};

class PostgresqlStorageTest : public testing::Test {
 protected:
  void SetUp() override {
    HAPMOE_NEED_POSTGRESQL();
    cluster_ = std::make_unique<PostgresqlCluster>();
    uri_ = cluster_->NewDatabase();
  }

  std::unique_ptr<PostgresqlStorage> Open() {
    auto storage = PostgresqlStorage::Open(uri_, kLimits);
    EXPECT_TRUE(storage.ok()) << storage.status();
    return storage.ok() ? *std::move(storage) : nullptr;
  }
  static absl::StatusOr<int64_t> Put(RecordStorage& storage, const std::string& content) {
    RecordBatch batch;
    batch.changes = {{"key", content}};
    return storage.Apply(batch);
  }
  // A call after the pause that follows a failure.
  static absl::StatusOr<int64_t> PutAfterAWhile(RecordStorage& storage) {
    std::this_thread::sleep_for(2 * kLimits.pause);
    return Put(storage, "later");
  }

  std::unique_ptr<PostgresqlCluster> cluster_;
  std::string uri_;
};

TEST_F(PostgresqlStorageTest, TellsAtOnceOfWhatAnotherWrites) {
  auto one = Open();
  auto other = Open();
  one->AwaitChange(milliseconds(1));  // Listens from now on.
  std::thread writer([&] {
    std::this_thread::sleep_for(milliseconds(100));
    EXPECT_TRUE(Put(*other, "1").ok());
  });
  const auto begin = steady_clock::now();
  one->AwaitChange(seconds(60));
  EXPECT_LT(steady_clock::now() - begin, seconds(20));
  writer.join();
  EXPECT_EQ(one->Load(kProfile, 0)->version, 1);
}

TEST_F(PostgresqlStorageTest, LostDatabaseFailsCallsSoonAndItsReturnNeedsNothing) {
  auto storage = Open();
  storage->AwaitChange(milliseconds(1));
  ASSERT_TRUE(Put(*storage, "1").ok());
  cluster_->Kill();
  for (int i = 0; i < 3; ++i) {
    const auto begin = steady_clock::now();
    EXPECT_EQ(Put(*storage, "lost").status().code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(storage->Load(kProfile, 0).status().code(), absl::StatusCode::kUnavailable);
    storage->AwaitChange(milliseconds(50));
    EXPECT_LT(steady_clock::now() - begin, seconds(10));
  }
  cluster_->Start();
  std::this_thread::sleep_for(2 * kLimits.pause);
  EXPECT_EQ(*storage->Load(kProfile, 0)->records[0].content, "1");
  EXPECT_EQ(Put(*storage, "2").value(), 2);
  // Listens again too.
  for (int i = 0; i < 3; ++i) storage->AwaitChange(milliseconds(10));
  auto other = Open();
  ASSERT_TRUE(Put(*other, "3").ok());
  const auto begin = steady_clock::now();
  storage->AwaitChange(seconds(60));
  EXPECT_LT(steady_clock::now() - begin, seconds(20));
}

// The connection that a server holds is older than the database's last start.
TEST_F(PostgresqlStorageTest, RestartOfTheDatabaseBetweenTwoCallsIsNotNoticed) {
  auto storage = Open();
  ASSERT_TRUE(Put(*storage, "1").ok());
  cluster_->Kill();
  cluster_->Start();
  EXPECT_EQ(Put(*storage, "2").value(), 2);
  cluster_->Kill();
  cluster_->Start();
  EXPECT_EQ(storage->Load(kProfile, 0)->version, 2);
}

TEST_F(PostgresqlStorageTest, KilledDatabaseLosesNothingAcknowledged) {
  auto storage = Open();
  for (int round = 0; round < 3; ++round) {
    std::atomic<int64_t> last{0};
    std::atomic<bool> stop{false};
    std::thread writer([&] {
      while (!stop) {
        const auto version = Put(*storage, std::string(20'000, 'x'));
        if (version.ok()) last = *version;
      }
    });
    while (last == 0) std::this_thread::sleep_for(milliseconds(1));
    std::this_thread::sleep_for(milliseconds(30 * round));
    cluster_->Kill();
    stop = true;
    writer.join();
    cluster_->Start();
    std::this_thread::sleep_for(2 * kLimits.pause);
    const auto contents = storage->Load(kProfile, 0);
    ASSERT_TRUE(contents.ok()) << contents.status();
    EXPECT_GE(contents->version, last);
    EXPECT_LE(contents->version, last + 1);
    EXPECT_TRUE(contents->faults.empty());
  }
}

TEST_F(PostgresqlStorageTest, SessionThatHoldsTheLockDelaysOthersForTheirTimeAtMost) {
  auto storage = Open();
  Session holder(uri_);
  holder.Run("BEGIN");
  holder.Run("SELECT * FROM hapmoe_kinds FOR UPDATE");
  EXPECT_TRUE(storage->Load(kProfile, 0).ok());  // Readers do not wait.
  const auto begin = steady_clock::now();
  EXPECT_EQ(Put(*storage, "1").status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_LT(steady_clock::now() - begin, seconds(10));
  holder.Run("COMMIT");
  EXPECT_EQ(Put(*storage, "1").value(), 1);
}

// As one behind a network that swallows everything: its processes are stopped.
TEST_F(PostgresqlStorageTest, DatabaseThatDoesNotAnswerFailsCallsInTime) {
  auto storage = Open();
  ASSERT_TRUE(Put(*storage, "1").ok());
  cluster_->Pause();
  const auto begin = steady_clock::now();
  EXPECT_FALSE(Put(*storage, "2").ok());
  EXPECT_FALSE(storage->Load(kProfile, 0).ok());
  EXPECT_LT(steady_clock::now() - begin, seconds(20));
  cluster_->Continue();
  EXPECT_TRUE(PutAfterAWhile(*storage).ok());
}

TEST_F(PostgresqlStorageTest, LaterSchemaIsRefused) {
  { auto storage = Open(); }
  Session(uri_).Run("INSERT INTO hapmoe_schema VALUES (99)");
  const absl::Status refusal = PostgresqlStorage::Open(uri_, kLimits).status();
  EXPECT_EQ(refusal.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refusal.message()),
              HasSubstr("later version of hapmoed, with schema 99"));
}

TEST_F(PostgresqlStorageTest, WritesAreSyncedThoughTheDatabaseIsSetNotTo) {
  Session(uri_).Run("ALTER ROLE hapmoe SET synchronous_commit = off");
  auto storage = Open();
  ASSERT_TRUE(Put(*storage, "1").ok());
  // At once: some tenths of a second later it would be on the disk anyway.
  cluster_->Kill();
  cluster_->Start();
  EXPECT_EQ(Open()->Load(kProfile, 0)->version, 1);
}

TEST_F(PostgresqlStorageTest, ReaderWithoutRightsToWriteFailsClearly) {
  { auto storage = Open(); }
  Session(uri_).Run(
      "CREATE ROLE guest LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO guest");
  std::string guest = uri_;
  guest.replace(guest.find("user=hapmoe"), 11, "user=guest");
  auto storage = PostgresqlStorage::Open(guest, kLimits);
  ASSERT_TRUE(storage.ok()) << storage.status();
  EXPECT_TRUE((*storage)->Load(kProfile, 0).ok());
  EXPECT_EQ(Put(**storage, "1").status().code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(PostgresqlStorageTest, EndOfWaitsEndsAWaitForAConnectionToo) {
  auto storage = Open();
  cluster_->Pause();
  std::thread ender([&] {
    std::this_thread::sleep_for(milliseconds(100));
    storage->EndWaits();
  });
  const auto begin = steady_clock::now();
  storage->AwaitChange(seconds(60));
  EXPECT_LT(steady_clock::now() - begin, seconds(20));
  ender.join();
  cluster_->Continue();
}

}  // namespace
}  // namespace hapmoe::server
