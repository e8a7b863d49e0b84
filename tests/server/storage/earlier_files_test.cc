#include "server/storage/earlier_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "hapmoe/v1/feedback.pb.h"
#include "hapmoe/v1/profiles.pb.h"
#include "server/profile_store/json_files.h"
#include "server/storage/memory_storage.h"
#include "server/storage/sqlite_storage.h"
#include "tests/server/testing/requests.h"
#include "tests/server/testing/temporary_directory.h"

namespace hapmoe::server {
namespace {

namespace fs = std::filesystem;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class EarlierFiles : public testing::Test {
 protected:
  EarlierFiles() {
    fs::create_directories(directory_.path() + "/profiles");
    fs::create_directories(directory_.path() + "/reports");
    WriteProfile("unit%2D2", "Unit-2", 7);
    WriteProfile("unit%2D1", "Unit-1", 9);
    std::ofstream(directory_.path() + "/profiles/.version") << "12\n";
    v1::StoredReport report;
    report.set_name("r0000000000000005");
    report.mutable_report()->set_iteration_seconds(1.5);
    std::ofstream(directory_.path() + "/reports/r0000000000000005.json") << PrintJson(report);
  }

  void WriteProfile(const std::string& file, const std::string& name, int64_t version) {
    v1::GetProfileResponse record;
    *record.mutable_profile() = RoundProfile(name);
    record.set_version(version);
    std::ofstream(directory_.path() + "/profiles/" + file + ".json") << PrintJson(record);
  }

  const TemporaryDirectory directory_;
  MemoryStorage storage_;
};

TEST_F(EarlierFiles, AreImportedWithTheirVersions) {
  const auto imported = ImportEarlierFiles(directory_.path(), storage_);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(imported->profiles, 2);
  EXPECT_EQ(imported->reports, 1);
  EXPECT_THAT(imported->faults, IsEmpty());
  const RecordContents profiles = storage_.Load(RecordKind::kProfile, 0).value();
  EXPECT_EQ(profiles.version, 12);
  ASSERT_THAT(profiles.records, SizeIs(2));
  EXPECT_EQ(profiles.records[0].key, "unit-1");
  EXPECT_EQ(profiles.records[0].version, 9);
  EXPECT_EQ(profiles.records[1].version, 7);
  v1::AcceleratorProfile profile;
  ASSERT_TRUE(profile.ParseFromString(*profiles.records[0].content));
  EXPECT_EQ(profile.SerializeAsString(), RoundProfile("Unit-1").SerializeAsString());
  const RecordContents reports = storage_.Load(RecordKind::kReport, 0).value();
  ASSERT_THAT(reports.records, SizeIs(1));
  EXPECT_EQ(reports.records[0].key, "r0000000000000005");
  v1::IterationReport report;
  ASSERT_TRUE(report.ParseFromString(*reports.records[0].content));
  EXPECT_EQ(report.iteration_seconds(), 1.5);
}

TEST_F(EarlierFiles, AreImportedOnceAndStay) {
  ASSERT_TRUE(ImportEarlierFiles(directory_.path(), storage_).ok());
  RecordBatch batch;
  batch.changes = {{"unit-1", std::nullopt}};
  ASSERT_TRUE(storage_.Apply(batch).ok());
  const auto again = ImportEarlierFiles(directory_.path(), storage_);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->profiles + again->reports, 0);
  EXPECT_FALSE(storage_.Load(RecordKind::kProfile, 0)->records[0].content.has_value());
  EXPECT_TRUE(fs::exists(directory_.path() + "/profiles/unit%2D1.json"));
}

TEST_F(EarlierFiles, BadOnesAreToldAndKeepNoneOut) {
  std::ofstream(directory_.path() + "/profiles/bad.json") << "{\"profile\": {";
  std::ofstream(directory_.path() + "/reports/bad.json") << "{}";
  const auto imported = ImportEarlierFiles(directory_.path(), storage_);
  ASSERT_TRUE(imported.ok());
  EXPECT_EQ(imported->profiles, 2);
  ASSERT_THAT(imported->faults, SizeIs(2));
  EXPECT_EQ(imported->faults[0].source, directory_.path() + "/profiles/bad.json");
}

TEST_F(EarlierFiles, AreLeftToTheServerThatStillRunsOnThem) {
  const int lock = open((directory_.path() + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(flock(lock, LOCK_EX | LOCK_NB), 0);
  EXPECT_EQ(ImportEarlierFiles(directory_.path(), storage_).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(storage_.Load(RecordKind::kProfile, 0)->version, 0);
  close(lock);
  EXPECT_EQ(ImportEarlierFiles(directory_.path(), storage_)->profiles, 2);
}

TEST_F(EarlierFiles, DirectoryWithoutAnyIsNoError) {
  const TemporaryDirectory empty;
  const auto imported = ImportEarlierFiles(empty.path() + "/none", storage_);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(imported->profiles + imported->reports, 0);
  EXPECT_EQ(storage_.Load(RecordKind::kProfile, 0)->version, 0);
}

}  // namespace
}  // namespace hapmoe::server
