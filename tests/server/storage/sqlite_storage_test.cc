// What may befall a file. What every storage promises is in storage_conformance_test.cc.
#include "server/storage/sqlite_storage.h"

#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/testing/temporary_directory.h"

namespace hapmoe::server {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr RecordKind kProfile = RecordKind::kProfile;

absl::StatusOr<int64_t> Put(RecordStorage& storage, const std::string& key,
                            const std::string& content) {
  RecordBatch batch;
  batch.changes = {{key, content}};
  return storage.Apply(batch);
}

void Execute(const std::string& path, const std::string& sql) {
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &database), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
      << sqlite3_errmsg(database);
  sqlite3_close(database);
}

std::string ReadAll(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

class SqliteStorageTest : public testing::Test {
 protected:
  std::unique_ptr<SqliteStorage> Open() {
    auto storage = SqliteStorage::Open(path_);
    EXPECT_TRUE(storage.ok()) << storage.status();
    return storage.ok() ? *std::move(storage) : nullptr;
  }
  absl::Status Refusal() { return SqliteStorage::Open(path_).status(); }

  // Some records in a file that no one has open.
  void Fill() {
    auto storage = Open();
    for (int i = 0; i < 40; ++i) {
      ASSERT_TRUE(Put(*storage, "key" + std::to_string(i), std::string(5000, 'x')).ok());
    }
  }

  const TemporaryDirectory directory_;
  const std::string path_ = directory_.path() + "/state/deep/test.db";
};

TEST_F(SqliteStorageTest, SyncsEveryWriteInALog) {
  auto storage = Open();
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &database), SQLITE_OK);
  sqlite3_stmt* statement = nullptr;
  ASSERT_EQ(sqlite3_prepare_v2(database, "PRAGMA journal_mode", -1, &statement, nullptr),
            SQLITE_OK);
  ASSERT_EQ(sqlite3_step(statement), SQLITE_ROW);
  EXPECT_STREQ(reinterpret_cast<const char*>(sqlite3_column_text(statement, 0)), "wal");
  sqlite3_finalize(statement);
  sqlite3_close(database);
}

TEST_F(SqliteStorageTest, IsForItsOwnersEyes) {
  auto storage = Open();
  ASSERT_TRUE(Put(*storage, "a", "1").ok());
  for (const char* file : {"", "-wal", "-shm"}) {
    EXPECT_EQ(fs::status(path_ + file).permissions(),
              fs::perms::owner_read | fs::perms::owner_write)
        << file;
  }
}

TEST_F(SqliteStorageTest, LaterSchemaIsRefusedAndLeftAlone) {
  Fill();
  Execute(path_, "PRAGMA user_version = 99");
  const std::string before = ReadAll(path_);
  const absl::Status refusal = Refusal();
  EXPECT_EQ(refusal.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refusal.message()),
              HasSubstr("later version of hapmoed, with schema 99"));
  EXPECT_TRUE(ReadAll(path_) == before);
}

TEST_F(SqliteStorageTest, DatabaseOfAnotherProgramIsRefusedAndLeftAlone) {
  fs::create_directories(fs::path(path_).parent_path());
  Execute(path_, "CREATE TABLE songs (name TEXT)");
  const std::string before = ReadAll(path_);
  EXPECT_EQ(Refusal().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(ReadAll(path_) == before);
}

TEST_F(SqliteStorageTest, FileThatIsNoDatabaseIsRefusedAndLeftAlone) {
  fs::create_directories(fs::path(path_).parent_path());
  const std::string text(10'000, 'x');
  std::ofstream(path_) << text;
  const absl::Status refusal = Refusal();
  EXPECT_EQ(refusal.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(refusal.message()), HasSubstr("move it away"));
  EXPECT_TRUE(ReadAll(path_) == text);
}

TEST_F(SqliteStorageTest, FileThatWasCutShortIsRefused) {
  Fill();
  fs::resize_file(path_, fs::file_size(path_) / 2);
  EXPECT_EQ(Refusal().code(), absl::StatusCode::kDataLoss);
}

TEST_F(SqliteStorageTest, EmptyFileIsANewDatabase) {
  fs::create_directories(fs::path(path_).parent_path());
  std::ofstream{path_};
  EXPECT_TRUE(Put(*Open(), "a", "1").ok());
}

// Whatever byte is wrong: the file is refused, or a record is told, or what is read is right.
TEST_F(SqliteStorageTest, NoFlippedByteGoesByUnseen) {
  Fill();
  const std::string sound = ReadAll(path_);
  int refused = 0;
  int told = 0;
  for (size_t at = 0; at < sound.size(); at += sound.size() / 150) {
    SCOPED_TRACE(at);
    std::string damaged = sound;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x20);
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << damaged;
    auto storage = SqliteStorage::Open(path_);
    if (!storage.ok()) {
      ++refused;
      continue;
    }
    const auto contents = (*storage)->Load(kProfile, 0);
    if (!contents.ok()) {
      ++refused;
      continue;
    }
    if (!contents->faults.empty()) ++told;
    for (const StoredRecord& record : contents->records) {
      EXPECT_TRUE(record.content == std::string(5000, 'x')) << record.key;
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(told, 50);  // Most bytes are of contents.
}

TEST_F(SqliteStorageTest, FileThatIsRemovedOrReplacedIsNotWrittenAnyMore) {
  auto storage = Open();
  ASSERT_TRUE(Put(*storage, "a", "1").ok());
  fs::rename(path_, path_ + ".away");
  EXPECT_FALSE(Put(*storage, "a", "2").ok());
  EXPECT_FALSE(storage->Load(kProfile, 0).ok());
  std::ofstream{path_};
  EXPECT_EQ(Put(*storage, "a", "3").status().code(), absl::StatusCode::kUnavailable);
  fs::rename(path_ + ".away", path_);
  EXPECT_EQ(Put(*storage, "a", "4").value(), 2);
}

TEST_F(SqliteStorageTest, WriterThatHoldsTheFileDelaysOthersForSomeSecondsAtMost) {
  auto storage = Open();
  sqlite3* holder = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &holder), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(holder, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
  EXPECT_TRUE(storage->Load(kProfile, 0).ok());  // Readers do not wait.
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(Put(*storage, "a", "1").status().code(), absl::StatusCode::kUnavailable);
  const auto waited = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(waited, std::chrono::seconds(4));
  EXPECT_LE(waited, std::chrono::seconds(30));
  sqlite3_close(holder);
  EXPECT_EQ(Put(*storage, "a", "1").value(), 1);
}

TEST_F(SqliteStorageTest, ReadOnlyFileIsRefused) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write everything";
  Fill();
  ASSERT_EQ(chmod(path_.c_str(), 0400), 0);
  EXPECT_EQ(Refusal().code(), absl::StatusCode::kPermissionDenied);
}

// Writes until the disk takes no more; then nothing is half there, and room lets writes go on.
void FillTheDisk(SqliteStorage& storage, const std::function<void()>& make_room) {
  int64_t written = 0;
  absl::Status failure;
  for (int i = 0; i < 2000 && failure.ok(); ++i) {
    const auto version = Put(storage, "key" + std::to_string(i), std::string(20'000, 'x'));
    failure = version.status();
    if (version.ok()) written = *version;
  }
  ASSERT_FALSE(failure.ok());
  ASSERT_GT(written, 0);
  EXPECT_FALSE(Put(storage, "key", std::string(20'000, 'x')).ok());  // It stays so.
  const auto contents = storage.Load(kProfile, 0);
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_THAT(contents->faults, IsEmpty());
  EXPECT_EQ(contents->version, written);
  EXPECT_EQ(contents->records.size(), static_cast<size_t>(written));
  make_room();
  const auto version = Put(storage, "key", std::string(20'000, 'x'));
  ASSERT_TRUE(version.ok()) << version.status();
  EXPECT_EQ(*version, written + 1);
}

TEST_F(SqliteStorageTest, FileThatMayNotGrowFailsWritesUntilItMay) {
  auto storage = Open();
  signal(SIGXFSZ, SIG_IGN);  // As the server does.
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit tight = before;
  tight.rlim_cur = 300'000;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
  FillTheDisk(*storage, [&] { setrlimit(RLIMIT_FSIZE, &before); });
  setrlimit(RLIMIT_FSIZE, &before);
}

TEST_F(SqliteStorageTest, FullDiskFailsWritesUntilThereIsRoom) {
  bool mounted = false;
  // A disk of its own, which only this thread sees.
  std::thread([&] {
    const std::string disk = directory_.path() + "/disk";
    fs::create_directory(disk);
    mounted = unshare(CLONE_NEWNS) == 0 &&
              mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
              mount("none", disk.c_str(), "tmpfs", 0, "size=1m") == 0;
    if (!mounted) return;
    std::ofstream(disk + "/ballast") << std::string(200'000, 'x');
    auto storage = SqliteStorage::Open(disk + "/test.db");
    ASSERT_TRUE(storage.ok()) << storage.status();
    FillTheDisk(**storage, [&] {
      EXPECT_EQ(Put(**storage, "key", std::string(20'000, 'x')).status().code(),
                absl::StatusCode::kResourceExhausted);
      fs::remove(disk + "/ballast");
    });
    storage->reset();
    EXPECT_TRUE(SqliteStorage::Open(disk + "/test.db").ok());
    umount2(disk.c_str(), MNT_DETACH);
  }).join();
  if (!mounted) GTEST_SKIP() << "a disk of its own needs the right to mount one";
}

}  // namespace
}  // namespace hapmoe::server
