#include "server/storage/record_storage.h"

#include <atomic>
#include <chrono>
#include <set>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/storage/memory_storage.h"
#include "server/storage/observed_storage.h"
#include "server/storage/storage_watcher.h"

namespace hapmoe::server {
namespace {

TEST(Crc64, IsThatOfXz) {
  EXPECT_EQ(Crc64("123456789"), 0x995DC9BBDF1939FAu);  // The catalogue's check value.
  EXPECT_EQ(Crc64(""), 0u);
  EXPECT_EQ(Crc64("56789", Crc64("1234")), Crc64("123456789"));
}

TEST(RecordChecksum, TellsEveryPartOfARecord) {
  std::set<int64_t> sums;
  for (const RecordKind kind : {RecordKind::kProfile, RecordKind::kReport}) {
    for (const char* key : {"a", "b", "a:1"}) {
      for (const int64_t version : {1, 2, 11}) {
        sums.insert(RecordChecksum(kind, key, version, std::nullopt));
        for (const char* content : {"", "x", "y"}) {
          sums.insert(RecordChecksum(kind, key, version, content));
        }
      }
    }
  }
  EXPECT_EQ(sums.size(), 2u * 3 * 3 * 4);
}

TEST(ContentsBuilder, LeavesOutWhatIsDamagedAndWhatCameBeforeARemoval) {
  ContentsBuilder builder(RecordKind::kReport, 9, true);
  const auto add = [&](const std::string& key, int64_t version, std::optional<std::string> content,
                       int64_t error = 0) {
    const int64_t sum = RecordChecksum(RecordKind::kReport, key, version, content);
    builder.Add({key, version, std::move(content)}, sum + error);
  };
  add("a", 9, "newest", /*error=*/1);
  add("a", 4, "before");
  add("b", 7, std::nullopt);
  add("b", 3, "removed");
  add("c", 8, std::nullopt, /*error=*/1);
  add("c", 2, "there");
  const RecordContents contents = std::move(builder).Build();
  std::string found;
  for (const StoredRecord& record : contents.records) {
    found += record.key + std::to_string(record.version) + " ";
  }
  EXPECT_EQ(found, "a4 b7 c2 ");
  ASSERT_EQ(contents.faults.size(), 2u);
  EXPECT_EQ(contents.faults[0].source, "stored report a, version 9");
}

TEST(ObservedStorage, TellsFailuresAndTheirEnd) {
  class Flaky : public MemoryStorage {
   public:
    explicit Flaky(const bool& broken) : broken_(broken) {}
    absl::StatusOr<RecordContents> Load(RecordKind kind, int64_t since) override {
      if (broken_) return absl::UnavailableError("gone");
      return MemoryStorage::Load(kind, since);
    }
    absl::StatusOr<int64_t> Apply(const RecordBatch& batch) override {
      if (broken_) return absl::UnavailableError("gone");
      return MemoryStorage::Apply(batch);
    }

   private:
    const bool& broken_;
  };
  bool broken = false;
  std::string told;
  ObservedStorage storage(std::make_unique<Flaky>(broken), [&](const absl::Status& status) {
    told += status.ok() ? "works " : "fails ";
  });
  const auto load = [&] { (void)storage.Load(RecordKind::kReport, 0); };
  RecordBatch batch;
  load();
  batch.expected_version = 5;  // It is 0: refused, which is no failure.
  EXPECT_TRUE(absl::IsAborted(storage.Apply(batch).status()));
  EXPECT_EQ(told, "");
  broken = true;
  load();
  load();  // Nothing new.
  EXPECT_FALSE(storage.works());
  EXPECT_EQ(told, "fails ");
  (void)storage.Apply(batch);  // Someone lost something.
  EXPECT_EQ(told, "fails fails ");
  broken = false;
  load();
  load();
  EXPECT_TRUE(storage.works());
  EXPECT_EQ(told, "fails fails works ");
}

TEST(StorageWatcher, LooksEveryPeriodAndEndsAtOnce) {
  MemoryStorage storage;
  std::atomic<int> looks{0};
  {
    StorageWatcher watcher(storage, std::chrono::milliseconds(5), [&] { ++looks; });
    while (looks < 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const int ended = looks;
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_EQ(looks, ended);
  MemoryStorage other;
  const auto begin = std::chrono::steady_clock::now();
  {
    StorageWatcher watcher(other, std::chrono::hours(1), [&] { ++looks; });
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  EXPECT_EQ(looks, ended);
}

}  // namespace
}  // namespace hapmoe::server
