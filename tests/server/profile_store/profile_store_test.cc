#include "server/profile_store/profile_store.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/embedded/embedded.h"
#include "server/errors/errors.h"
#include "server/profile_store/json_files.h"
#include "server/storage/memory_storage.h"
#include "tests/server/testing/requests.h"
#include "tests/server/testing/temporary_directory.h"

namespace hapmoe::server {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Writes fail while `broken`.
class FlakyStorage : public MemoryStorage {
 public:
  absl::StatusOr<int64_t> Apply(const RecordBatch& batch) override {
    if (broken) return absl::ResourceExhaustedError("disk full");
    return MemoryStorage::Apply(batch);
  }
  bool broken = false;
};

class ProfileStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    v1::AcceleratorProfile built_in = RoundProfile("Built-In");
    built_in.add_aliases("built");
    built_in_ = PrintJson(built_in);
  }

  void WriteProfileFile(const std::string& file, const v1::AcceleratorProfile& profile) {
    std::ofstream(directory_ + "/" + file) << PrintJson(profile);
  }

  std::unique_ptr<ProfileStore> Open(
      std::shared_ptr<RecordStorage> storage = std::make_shared<MemoryStorage>()) {
    ProfileStore::Options options;
    options.built_in = {{"built-in.json", built_in_}};
    options.directory = directory_;
    options.storage = std::move(storage);
    return ProfileStore::Open(std::move(options)).value();
  }

  static v1::ProfileOrigin Origin(const ProfileStore& store, const std::string& name) {
    const ProfileEntryPtr entry = store.catalog()->Find(name);
    return entry == nullptr ? v1::PROFILE_ORIGIN_UNSPECIFIED : entry->origin;
  }

  const TemporaryDirectory temporary_;
  const std::string directory_ = temporary_.path();
  std::string built_in_;
};

TEST_F(ProfileStoreTest, StoredComesBeforeFileComesBeforeBuiltIn) {
  auto store = Open();
  EXPECT_EQ(Origin(*store, "built"), v1::PROFILE_ORIGIN_BUILT_IN);
  WriteProfileFile("a.json", RoundProfile("built-in"));
  EXPECT_THAT(store->ReloadDirectory(), IsEmpty());
  EXPECT_EQ(Origin(*store, "Built-In"), v1::PROFILE_ORIGIN_FILE);
  ASSERT_TRUE(store->Put(RoundProfile("BUILT-IN")).ok());
  EXPECT_EQ(Origin(*store, "Built-In"), v1::PROFILE_ORIGIN_STORED);
  ASSERT_TRUE(store->Delete("Built-In").ok());
  EXPECT_EQ(Origin(*store, "Built-In"), v1::PROFILE_ORIGIN_FILE);
  fs::remove(directory_ + "/a.json");
  EXPECT_THAT(store->ReloadDirectory(), IsEmpty());
  EXPECT_EQ(Origin(*store, "built"), v1::PROFILE_ORIGIN_BUILT_IN);
}

TEST_F(ProfileStoreTest, VersionGrowsWithEveryChangeAndOnlyThen) {
  auto store = Open();
  const int64_t start = store->catalog()->version();
  EXPECT_EQ(*store->Put(RoundProfile("Unit-1")), start + 1);
  EXPECT_EQ(store->catalog()->Find("Unit-1")->version, start + 1);
  EXPECT_EQ(store->catalog()->Find("built")->version, start);
  ASSERT_TRUE(store->Delete("Unit-1").ok());
  EXPECT_EQ(store->catalog()->version(), start + 2);
  store->ReloadDirectory();
  EXPECT_EQ(store->catalog()->version(), start + 2);
  WriteProfileFile("a.json", RoundProfile("Unit-2"));
  store->ReloadDirectory();
  EXPECT_EQ(store->catalog()->version(), start + 3);
  store->ReloadDirectory();
  EXPECT_EQ(store->catalog()->version(), start + 3);
}

TEST_F(ProfileStoreTest, BadFileIsReportedAndKeepsTheOldProfile) {
  WriteProfileFile("a.json", RoundProfile("Unit-1"));
  auto store = Open();
  EXPECT_THAT(store->faults(), IsEmpty());
  std::ofstream(directory_ + "/a.json") << "{ torn";
  const std::vector<LoadFault> faults = store->ReloadDirectory();
  ASSERT_THAT(faults, SizeIs(1));
  EXPECT_EQ(faults[0].source, directory_ + "/a.json");
  EXPECT_EQ(Origin(*store, "Unit-1"), v1::PROFILE_ORIGIN_FILE);
}

TEST_F(ProfileStoreTest, FileThatTakesANameOfAnotherKeepsTheOldOnesOfBoth) {
  WriteProfileFile("a.json", RoundProfile("Unit-1"));
  WriteProfileFile("b.json", RoundProfile("Unit-2"));
  auto store = Open();
  WriteProfileFile("b.json", RoundProfile("Unit-1"));
  EXPECT_THAT(store->ReloadDirectory(), SizeIs(1));
  EXPECT_EQ(Origin(*store, "Unit-1"), v1::PROFILE_ORIGIN_FILE);
  EXPECT_EQ(Origin(*store, "Unit-2"), v1::PROFILE_ORIGIN_FILE);
}

TEST_F(ProfileStoreTest, OldProfileOfABadFileGivesWayToAGoodFile) {
  WriteProfileFile("b.json", RoundProfile("Unit-2"));
  auto store = Open();
  v1::AcceleratorProfile taker = RoundProfile("Unit-1");
  taker.add_aliases("unit-2");
  WriteProfileFile("a.json", taker);
  std::ofstream(directory_ + "/b.json") << "{ torn";
  EXPECT_THAT(store->ReloadDirectory(), SizeIs(1));
  EXPECT_EQ(store->catalog()->size(), 2u);  // Built-In and Unit-1.
  EXPECT_EQ(store->catalog()->Find("Unit-2")->core->name, "Unit-1");
}

TEST_F(ProfileStoreTest, TakesInWhatAnotherServerStored) {
  const auto storage = std::make_shared<MemoryStorage>();
  auto one = Open(storage);
  auto other = Open(storage);
  ASSERT_TRUE(one->Put(RoundProfile("Unit-1")).ok());
  EXPECT_EQ(other->catalog()->Find("Unit-1"), nullptr);
  const int64_t before = other->catalog()->version();
  EXPECT_THAT(other->Refresh().value(), IsEmpty());
  EXPECT_NE(other->catalog()->Find("Unit-1"), nullptr);
  EXPECT_GT(other->catalog()->version(), before);
  const auto catalog = other->catalog();
  EXPECT_THAT(other->Refresh().value(), IsEmpty());
  EXPECT_EQ(other->catalog(), catalog);  // Nothing changed.
  ASSERT_TRUE(other->Delete("Unit-1").ok());
  EXPECT_THAT(one->Refresh().value(), IsEmpty());
  EXPECT_EQ(one->catalog()->Find("Unit-1"), nullptr);
}

TEST_F(ProfileStoreTest, WritesOnTopOfWhatAnotherServerStored) {
  const auto storage = std::make_shared<MemoryStorage>();
  auto one = Open(storage);
  auto other = Open(storage);
  v1::AcceleratorProfile taker = RoundProfile("Unit-1");
  taker.add_aliases("taken");
  const int64_t first = one->Put(taker).value();
  // Not refreshed; what the other stored counts nevertheless.
  EXPECT_EQ(ReasonOf(other->Put(RoundProfile("Taken")).status()), Reason::kProfileInvalid);
  EXPECT_GT(other->Put(RoundProfile("Unit-2")).value(), first);
  // A name that is free again in the same refresh.
  ASSERT_TRUE(one->Delete("Unit-1").ok());
  ASSERT_TRUE(one->Put(RoundProfile("Taken")).ok());
  EXPECT_THAT(other->Refresh().value(), IsEmpty());
  EXPECT_NE(other->catalog()->Find("Taken"), nullptr);
  EXPECT_EQ(other->catalog()->Find("Unit-1"), nullptr);
}

TEST_F(ProfileStoreTest, VersionBeforeTakesThePlaceOfOneThatCannotBeUsed) {
  const auto storage = std::make_shared<MemoryStorage>();
  v1::AcceleratorProfile invalid = RoundProfile("Unit-1");
  invalid.clear_vendor();
  RecordBatch batch;
  batch.changes = {{"unit-1", RoundProfile("Unit-1").SerializeAsString()},
                   {"unit-1", invalid.SerializeAsString()},
                   {"unit-1", "\xff\xff no profile"}};
  ASSERT_TRUE(storage->Apply(batch).ok());
  auto store = Open(storage);
  EXPECT_EQ(store->catalog()->Find("Unit-1")->version, 1);
  ASSERT_THAT(store->faults(), SizeIs(2));
  EXPECT_EQ(store->faults()[0].source, "stored profile unit-1, version 3");
  EXPECT_THAT(store->faults()[1].message, HasSubstr("profile.vendor"));
  // One that cannot be used leaves the one in force.
  ASSERT_TRUE(store->Put(RoundProfile("Unit-1")).ok());
  batch.changes = {{"unit-1", invalid.SerializeAsString()}};
  ASSERT_TRUE(storage->Apply(batch).ok());
  EXPECT_THAT(store->Refresh().value(), SizeIs(1));
  EXPECT_EQ(store->catalog()->Find("Unit-1")->version, 4);
}

TEST_F(ProfileStoreTest, DirectoryThatIsGoneKeepsItsProfiles) {
  WriteProfileFile("a.json", RoundProfile("Unit-1"));
  auto store = Open();
  fs::remove_all(directory_);
  EXPECT_THAT(store->ReloadDirectory(), SizeIs(1));
  EXPECT_EQ(Origin(*store, "Unit-1"), v1::PROFILE_ORIGIN_FILE);
}

TEST_F(ProfileStoreTest, BadFilesAtTheStartDoNotStopTheOthers) {
  std::ofstream(directory_ + "/a.json") << "[]";
  v1::AcceleratorProfile invalid = RoundProfile("Unit-1");
  invalid.clear_vendor();
  WriteProfileFile("b.json", invalid);
  WriteProfileFile("c.json", RoundProfile("Unit-2"));
  WriteProfileFile("d.json", RoundProfile("UNIT-2"));
  auto store = Open();
  ASSERT_THAT(store->faults(), SizeIs(3));
  EXPECT_THAT(store->faults()[1].message, HasSubstr("profile.vendor"));
  EXPECT_THAT(store->faults()[2].message, HasSubstr("another file"));
  EXPECT_EQ(store->catalog()->size(), 2u);  // Built-In and Unit-2.
}

TEST_F(ProfileStoreTest, NamesOfOtherProfilesAreTaken) {
  auto store = Open();
  v1::AcceleratorProfile profile = RoundProfile("BUILT");  // An alias of Built-In.
  profile.add_aliases("built-in");
  const auto put = store->Put(profile);
  EXPECT_EQ(put.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(put.status()), Reason::kProfileInvalid);
  EXPECT_EQ(MetadataOf(put.status(), "violations"), "2");
  // Also those that are hidden by a stored profile without them: they show again some day.
  ASSERT_TRUE(store->Put(RoundProfile("Built-In")).ok());
  EXPECT_FALSE(store->Put(RoundProfile("built")).ok());
}

TEST_F(ProfileStoreTest, FailedWriteChangesNothing) {
  const auto storage = std::make_shared<FlakyStorage>();
  auto store = Open(storage);
  ASSERT_TRUE(store->Put(RoundProfile("Unit-1")).ok());
  const int64_t version = store->catalog()->version();
  storage->broken = true;
  EXPECT_EQ(ReasonOf(store->Put(RoundProfile("Unit-2")).status()), Reason::kStorageFailed);
  EXPECT_EQ(ReasonOf(store->Delete("Unit-1")), Reason::kStorageFailed);
  EXPECT_EQ(store->catalog()->version(), version);
  EXPECT_NE(store->catalog()->Find("Unit-1"), nullptr);
  EXPECT_EQ(store->catalog()->Find("Unit-2"), nullptr);
}

TEST_F(ProfileStoreTest, ReaderKeepsItsCatalogWhileProfilesChange) {
  auto store = Open();
  const auto before = store->catalog();
  ASSERT_TRUE(store->Put(RoundProfile("Unit-1")).ok());
  EXPECT_EQ(before->Find("Unit-1"), nullptr);
  EXPECT_NE(store->catalog()->Find("Unit-1"), nullptr);
}

TEST_F(ProfileStoreTest, ManyThreadsReadAndWrite) {
  auto store = Open();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&store, t] {
      const std::string name = "Unit-" + std::to_string(t);
      for (int i = 0; i < 50; ++i) {
        ASSERT_TRUE(store->Put(RoundProfile(name)).ok());
        ASSERT_NE(store->catalog()->Find(name), nullptr);
        ASSERT_NE(store->catalog()->Find("built"), nullptr);
        ASSERT_TRUE(store->Delete(name).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(store->catalog()->version(), 1 + 4 * 50 * 2);
}

TEST_F(ProfileStoreTest, ManyServersOnOneStorageLoseNoWrite) {
  const auto storage = std::make_shared<MemoryStorage>();
  std::vector<std::unique_ptr<ProfileStore>> stores;
  for (int s = 0; s < 3; ++s) stores.push_back(Open(storage));
  std::vector<std::thread> threads;
  for (int s = 0; s < 3; ++s) {
    threads.emplace_back([&, s] {
      for (int i = 0; i < 20; ++i) {
        const auto version = stores[s]->Put(RoundProfile("Unit-" + std::to_string(10 * s + i % 7)));
        ASSERT_TRUE(version.ok()) << version.status();
        ASSERT_TRUE(stores[s]->Refresh().ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& store : stores) {
    ASSERT_TRUE(store->Refresh().ok());
    EXPECT_EQ(store->catalog()->size(), 1u + 3 * 7);
  }
}

TEST(BuiltInProfiles, AreAllSound) {
  ProfileStore::Options options;
  for (const EmbeddedFile& file : EmbeddedProfiles()) {
    options.built_in.push_back({file.name, file.content});
  }
  options.storage = std::make_shared<MemoryStorage>();
  const auto store = ProfileStore::Open(std::move(options));
  ASSERT_TRUE(store.ok());
  for (const LoadFault& fault : (*store)->faults()) {
    ADD_FAILURE() << fault.source << ": " << fault.message;
  }
  EXPECT_EQ((*store)->catalog()->size(), EmbeddedProfiles().size());
}

}  // namespace
}  // namespace hapmoe::server
