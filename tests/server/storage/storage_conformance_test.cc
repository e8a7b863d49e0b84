// What every storage promises.
#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/storage/record_storage.h"
#include "tests/server/storage/testing/backend.h"
#include "tests/server/testing/postgresql_cluster.h"

namespace hapmoe::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr RecordKind kProfile = RecordKind::kProfile;
constexpr RecordKind kReport = RecordKind::kReport;

class StorageConformance : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (std::string(GetParam()) == "Postgresql") HAPMOE_NEED_POSTGRESQL();
    backend_ = MakeBackend(GetParam());
    storage_ = backend_->Open();
    ASSERT_NE(storage_, nullptr);
  }

  absl::StatusOr<int64_t> Put(RecordStorage& storage, const std::string& key,
                              std::optional<std::string> content, RecordKind kind = kProfile) {
    RecordBatch batch;
    batch.kind = kind;
    batch.changes.push_back({key, std::move(content)});
    return storage.Apply(batch);
  }
  int64_t Put(const std::string& key, std::optional<std::string> content,
              RecordKind kind = kProfile) {
    const auto version = Put(*storage_, key, std::move(content), kind);
    EXPECT_TRUE(version.ok()) << version.status();
    return version.value_or(-1);
  }

  // "key version=content", with "-" for a removal.
  static std::vector<std::string> Read(RecordStorage& storage, int64_t since = 0,
                                       RecordKind kind = kProfile) {
    const absl::StatusOr<RecordContents> contents = storage.Load(kind, since);
    EXPECT_TRUE(contents.ok()) << contents.status();
    if (!contents.ok()) return {};
    EXPECT_THAT(contents->faults, IsEmpty());
    std::vector<std::string> read;
    for (const StoredRecord& record : contents->records) {
      read.push_back(record.key + " " + std::to_string(record.version) + "=" +
                     record.content.value_or("-"));
    }
    return read;
  }
  std::vector<std::string> Read(int64_t since = 0, RecordKind kind = kProfile) {
    return Read(*storage_, since, kind);
  }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<RecordStorage> storage_;
};

TEST_P(StorageConformance, StartsEmpty) {
  const auto contents = storage_->Load(kProfile, 0);
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_TRUE(contents->complete);
  EXPECT_EQ(contents->version, 0);
  EXPECT_THAT(contents->records, IsEmpty());
}

TEST_P(StorageConformance, GivesBackWhatWasPutByteForByte) {
  std::string content;
  for (int i = 0; i < 100'000; ++i) content += static_cast<char>(i * 7 + i / 256);
  EXPECT_EQ(Put("bytes", content), 1);
  EXPECT_EQ(Put("empty", ""), 2);
  EXPECT_EQ(Put("o'hara \"x\" \\ %", "quoted"), 3);
  const auto contents = storage_->Load(kProfile, 0);
  ASSERT_TRUE(contents.ok());
  EXPECT_THAT(contents->faults, IsEmpty());
  ASSERT_EQ(contents->records.size(), 3u);
  EXPECT_TRUE(contents->records[0].content == content);
  EXPECT_EQ(contents->records[1].content, "");
  EXPECT_EQ(contents->records[2].key, "o'hara \"x\" \\ %");
}

TEST_P(StorageConformance, KindsAreApart) {
  EXPECT_EQ(Put("a", "profile"), 1);
  EXPECT_EQ(Put("a", "report", kReport), 1);
  EXPECT_THAT(Read(0, kProfile), ElementsAre("a 1=profile"));
  EXPECT_THAT(Read(0, kReport), ElementsAre("a 1=report"));
}

TEST_P(StorageConformance, KeepsSomeVersionsTheLatestFirst) {
  for (int i = 1; i <= 8; ++i) Put("a", std::to_string(i));
  EXPECT_THAT(Read(), ElementsAre("a 8=8", "a 7=7", "a 6=6", "a 5=5", "a 4=4"));
  for (int i = 1; i <= 3; ++i) Put("r", std::to_string(i), kReport);
  EXPECT_THAT(Read(0, kReport), ElementsAre("r 3=3"));
}

TEST_P(StorageConformance, RemovalsCountAndHideWhatWasThere) {
  Put("a", "1");
  EXPECT_EQ(Put("a", std::nullopt), 2);
  EXPECT_EQ(Put("never", std::nullopt), 3);  // No error, and a version of its own.
  EXPECT_THAT(Read(), ElementsAre("a 2=-"));
  Put("a", "4");
  EXPECT_THAT(Read(), ElementsAre("a 4=4", "a 2=-"));
}

TEST_P(StorageConformance, TellsWhatChangedSince) {
  Put("a", "1");
  Put("b", "2");
  Put("a", "3");
  Put("b", std::nullopt);
  EXPECT_THAT(Read(2), ElementsAre("a 3=3", "b 4=-"));
  EXPECT_THAT(Read(4), IsEmpty());
  EXPECT_FALSE(storage_->Load(kProfile, 4)->complete);
  // A version that was never given: a database that was put back to an earlier state.
  const auto all = storage_->Load(kProfile, 7);
  EXPECT_TRUE(all->complete);
  EXPECT_THAT(Read(7), ElementsAre("a 3=3", "a 1=1", "b 4=-"));
}

TEST_P(StorageConformance, ForgetsRemovalsAndThenTellsAll) {
  Put("gone", "1");
  Put("gone", std::nullopt);
  Put("back", "3");
  Put("back", std::nullopt);
  Put("back", "5");  // Older than the removals that are forgotten, and stays.
  Put("stays", "6");
  RecordBatch batch;
  batch.changes = {{"much later", "x", 6 + kRemovalsKept}};
  ASSERT_TRUE(storage_->Apply(batch).ok());
  std::set<std::string> there;
  for (const std::string& record : Read()) there.insert(record);
  EXPECT_EQ(there.count("gone 2=-"), 0u);
  EXPECT_EQ(there.count("gone 1=1"), 0u);
  EXPECT_EQ(there.count("back 5=5"), 1u);
  EXPECT_EQ(there.count("stays 6=6"), 1u);
  EXPECT_TRUE(storage_->Load(kProfile, 6)->complete);
  EXPECT_FALSE(storage_->Load(kProfile, 7)->complete);
}

TEST_P(StorageConformance, ABatchIsMadeAsAWholeWithVersionsInOrder) {
  RecordBatch batch;
  batch.changes = {{"a", "one", 3}, {"b", "two"}, {"a", "three", 10}};
  batch.least_version = 12;
  EXPECT_EQ(storage_->Apply(batch).value(), 12);
  EXPECT_THAT(Read(), ElementsAre("a 10=three", "a 3=one", "b 4=two"));
  EXPECT_EQ(Put("c", "next"), 13);
}

TEST_P(StorageConformance, RefusesAChangeOnTopOfWhatIsNotThereAnyMore) {
  RecordBatch batch;
  batch.changes = {{"a", "x"}};
  batch.expected_version = 0;
  EXPECT_EQ(storage_->Apply(batch).value(), 1);
  EXPECT_TRUE(absl::IsAborted(storage_->Apply(batch).status()));
  EXPECT_THAT(Read(), ElementsAre("a 1=x"));
  batch.expected_version = 1;
  EXPECT_EQ(storage_->Apply(batch).value(), 2);
}

TEST_P(StorageConformance, ThreadsLoseNoChange) {
  constexpr int kThreads = 4;
  constexpr int kChanges = 15;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kChanges; ++i) Put("k" + std::to_string(t), std::to_string(i));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(storage_->Load(kProfile, 0)->version, kThreads * kChanges);
}

TEST_P(StorageConformance, SurvivesBeingOpenedAgain) {
  if (!backend_->shared()) GTEST_SKIP() << "keeps nothing";
  Put("a", "1");
  Put("a", std::nullopt);
  Put("b", "3");
  storage_ = backend_->Open();
  ASSERT_NE(storage_, nullptr);
  EXPECT_THAT(Read(), ElementsAre("a 2=-", "b 3=3"));
  EXPECT_EQ(Put("c", "4"), 4);
}

TEST_P(StorageConformance, TwoOfOneDatabaseSeeEachOther) {
  if (!backend_->shared()) GTEST_SKIP() << "is not shared";
  const std::unique_ptr<RecordStorage> other = backend_->Open();
  ASSERT_NE(other, nullptr);
  Put("a", "1");
  EXPECT_THAT(Read(*other), ElementsAre("a 1=1"));
  EXPECT_EQ(Put(*other, "a", "2").value(), 2);
  EXPECT_THAT(Read(1), ElementsAre("a 2=2"));
  // At the same time, each on top of the other: one of two is refused, and none is lost.
  std::vector<std::thread> threads;
  for (RecordStorage* storage : {storage_.get(), other.get()}) {
    threads.emplace_back([storage] {
      for (int made = 0; made < 20;) {
        RecordBatch batch;
        batch.changes = {{"n", std::to_string(made)}};
        batch.expected_version = storage->Load(kProfile, 0).value().version;
        const auto version = storage->Apply(batch);
        ASSERT_TRUE(version.ok() || absl::IsAborted(version.status())) << version.status();
        if (version.ok()) ++made;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(storage_->Load(kProfile, 0)->version, 2 + 2 * 20);
}

TEST_P(StorageConformance, ServersThatStartTogetherMakeTheDatabaseOnce) {
  if (!backend_->shared()) GTEST_SKIP() << "is not shared";
  storage_.reset();
  for (int round = 0; round < 5; ++round) {
    backend_ = MakeBackend(GetParam());
    std::vector<std::thread> starts;
    for (int i = 0; i < 6; ++i) {
      starts.emplace_back([&] {
        const std::unique_ptr<RecordStorage> storage = backend_->Open();
        ASSERT_NE(storage, nullptr);
        const auto version = Put(*storage, "a", "x");
        EXPECT_TRUE(version.ok()) << version.status();
      });
    }
    for (std::thread& start : starts) start.join();
    EXPECT_EQ(backend_->Open()->Load(kProfile, 0)->version, 6);
  }
}

TEST_P(StorageConformance, ADamagedVersionIsToldAndTheOneBeforeStands) {
  if (!backend_->shared()) GTEST_SKIP() << "cannot be damaged";
  Put("a", "old");
  Put("a", "new");
  Put("b", "1");
  backend_->Execute("UPDATE RECORDS SET content = 'nEw' WHERE key = 'a' AND version = 2");
  // Under the name of another.
  backend_->Execute("UPDATE RECORDS SET key = 'c' WHERE key = 'b'");
  const auto contents = storage_->Load(kProfile, 0);
  ASSERT_TRUE(contents.ok()) << contents.status();
  ASSERT_EQ(contents->records.size(), 1u);
  EXPECT_EQ(contents->records[0].content, "old");
  ASSERT_EQ(contents->faults.size(), 2u);
  EXPECT_EQ(contents->faults[0].source, "stored profile a, version 2");
  EXPECT_EQ(contents->faults[1].source, "stored profile c, version 3");
  EXPECT_EQ(Put("a", "newest"), 4);  // Which mends it.
  EXPECT_EQ(*storage_->Load(kProfile, 0)->records[0].content, "newest");
}

TEST_P(StorageConformance, WaitsEndAtTheirTimeAndWhenTheyAreToldTo) {
  storage_->AwaitChange(milliseconds(0));  // The first may have something to prepare.
  const auto begin = steady_clock::now();
  storage_->AwaitChange(milliseconds(50));
  EXPECT_GE(steady_clock::now() - begin, milliseconds(45));
  std::thread ender([&] {
    std::this_thread::sleep_for(milliseconds(50));
    storage_->EndWaits();
  });
  storage_->AwaitChange(std::chrono::hours(1));
  ender.join();
  storage_->AwaitChange(std::chrono::hours(1));
}

INSTANTIATE_TEST_SUITE_P(Storages, StorageConformance,
                         testing::Values("Memory", "Sqlite", "Postgresql"),
                         [](const auto& parameter) { return std::string(parameter.param); });

}  // namespace
}  // namespace hapmoe::server
