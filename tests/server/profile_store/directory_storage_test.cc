#include "server/profile_store/directory_storage.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/profile_store/json_files.h"
#include "tests/server/testing/requests.h"
#include "tests/server/testing/temporary_directory.h"

namespace hapmoe::server {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class DirectoryStorageTest : public testing::Test {
 protected:
  std::unique_ptr<DirectoryProfileStorage> Open() {
    auto storage = DirectoryProfileStorage::Open(directory_);
    EXPECT_TRUE(storage.ok()) << storage.status();
    return storage.ok() ? *std::move(storage) : nullptr;
  }

  const TemporaryDirectory temporary_;
  const std::string directory_ = temporary_.path() + "/state";
};

TEST_F(DirectoryStorageTest, KeepsWhatWasWritten) {
  {
    auto storage = Open();
    ASSERT_TRUE(storage->Write({3, RoundProfile("Unit-1")}).ok());
    ASSERT_TRUE(storage->Write({4, RoundProfile("Unit 2/../x")}).ok());
    ASSERT_TRUE(storage->Write({5, RoundProfile("UNIT-1")}).ok());  // The same profile.
  }
  const auto contents = Open()->Load();
  ASSERT_TRUE(contents.ok());
  EXPECT_THAT(contents->faults, IsEmpty());
  ASSERT_THAT(contents->profiles, SizeIs(2));
  EXPECT_EQ(contents->version, 5);
  EXPECT_TRUE(fs::exists(directory_ + "/profiles/unit%202%2F%2E%2E%2Fx.json"));
}

TEST_F(DirectoryStorageTest, VersionOutlivesTheProfileThatHadIt) {
  {
    auto storage = Open();
    ASSERT_TRUE(storage->Write({7, RoundProfile("Unit-1")}).ok());
    ASSERT_TRUE(storage->Remove("unit-1", 8).ok());
    ASSERT_TRUE(storage->Remove("never-there", 9).ok());
  }
  const auto contents = Open()->Load();
  ASSERT_TRUE(contents.ok());
  EXPECT_THAT(contents->profiles, IsEmpty());
  EXPECT_EQ(contents->version, 9);
}

TEST_F(DirectoryStorageTest, BadRecordsAreReportedAndLeftAlone) {
  {
    auto storage = Open();
    ASSERT_TRUE(storage->Write({1, RoundProfile("Unit-1")}).ok());
  }
  const std::string bad = directory_ + "/profiles/bad.json";
  std::ofstream(bad) << "{\"profile\": {\"no_such_field\": 1}}";
  const auto contents = Open()->Load();
  ASSERT_TRUE(contents.ok());
  EXPECT_THAT(contents->profiles, SizeIs(1));
  ASSERT_THAT(contents->faults, SizeIs(1));
  EXPECT_EQ(contents->faults[0].source, bad);
  EXPECT_THAT(contents->faults[0].message, HasSubstr("no_such_field"));
  EXPECT_TRUE(fs::exists(bad));
}

TEST_F(DirectoryStorageTest, RemovesWhatACrashLeftInTheMiddle) {
  Open();
  const std::string torn = directory_ + "/profiles/.new-abc123";
  std::ofstream(torn) << "{\"prof";
  auto storage = Open();
  EXPECT_FALSE(fs::exists(torn));
  EXPECT_THAT(storage->Load()->faults, IsEmpty());
}

TEST_F(DirectoryStorageTest, SecondUserIsKeptOut) {
  auto storage = Open();
  EXPECT_EQ(DirectoryProfileStorage::Open(directory_).status().code(),
            absl::StatusCode::kFailedPrecondition);
  storage.reset();
  EXPECT_NE(Open(), nullptr);
}

TEST_F(DirectoryStorageTest, FailsWhereItCannotWrite) {
  std::ofstream(directory_) << "a file";
  EXPECT_FALSE(DirectoryProfileStorage::Open(directory_).ok());
}

TEST_F(DirectoryStorageTest, KillAtAnyTimeLosesNothingAcknowledgedAndTearsNothing) {
  // A child process writes ever newer versions of one profile and says so; it is killed while it
  // does. What is there afterwards is whole, and no older than what was acknowledged.
  for (int round = 0; round < 5; ++round) {
    int acknowledged[2];
    ASSERT_EQ(pipe(acknowledged), 0);
    const pid_t child = fork();
    if (child == 0) {
      auto storage = DirectoryProfileStorage::Open(directory_);
      for (int64_t version = 1; storage.ok(); ++version) {
        v1::AcceleratorProfile profile = RoundProfile("Unit-1");
        profile.set_notes(std::string(20000, static_cast<char>('a' + version % 26)));
        if (!(*storage)->Write({version, profile}).ok()) break;
        if (write(acknowledged[1], &version, sizeof(version)) != sizeof(version)) break;
      }
      _exit(1);
    }
    close(acknowledged[1]);
    int64_t last = 0;
    // Some writes, then a moment in the middle of the next.
    for (int i = 0; i < 3 + round; ++i) {
      ASSERT_EQ(read(acknowledged[0], &last, sizeof(last)), ssize_t{sizeof(last)});
    }
    std::this_thread::sleep_for(std::chrono::microseconds(300 * round));
    kill(child, SIGKILL);
    while (read(acknowledged[0], &last, sizeof(last)) == ssize_t{sizeof(last)}) {
    }
    close(acknowledged[0]);
    int status = 0;
    waitpid(child, &status, 0);
    const auto contents = Open()->Load();
    ASSERT_TRUE(contents.ok());
    EXPECT_THAT(contents->faults, IsEmpty());
    ASSERT_THAT(contents->profiles, SizeIs(1));
    const StoredProfile& stored = contents->profiles[0];
    EXPECT_GE(stored.version, last);
    EXPECT_EQ(stored.profile.notes(),
              std::string(20000, static_cast<char>('a' + stored.version % 26)));
  }
}

TEST(JsonFiles, RefusesWhatIsNoSmallRegularFile) {
  EXPECT_FALSE(ReadSmallFile("/no/such/file").ok());
  EXPECT_FALSE(ReadSmallFile("/dev/zero").ok());
  EXPECT_FALSE(ReadSmallFile(testing::TempDir()).ok());
  const TemporaryDirectory temporary;
  const std::string pipe_path = temporary.path() + "/pipe";
  ASSERT_EQ(mkfifo(pipe_path.c_str(), 0600), 0);
  EXPECT_FALSE(ReadSmallFile(pipe_path).ok());  // Does not wait for a writer.
}

}  // namespace
}  // namespace hapmoe::server
