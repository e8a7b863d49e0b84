// A writer that is killed loses nothing that was acknowledged, and tears nothing. HAPMOE_KILLS in
// the environment says how often it is killed; acceptance takes 200.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/storage/record_storage.h"
#include "tests/server/storage/testing/backend.h"
#include "tests/server/testing/postgresql_cluster.h"

namespace hapmoe::server {
namespace {

constexpr int kKeys = 3;
constexpr size_t kBytes = 20'000;  // Several pages.

std::string ContentOf(int64_t version) {
  return std::to_string(version) +
         std::string(kBytes, static_cast<char>('a' + static_cast<int>(version % 26)));
}

// Writes versions of some records for ever, and tells of each once it is acknowledged. Every fifth
// change is a removal.
[[noreturn]] void WriteForEver(Backend& backend, int acknowledged) {
  const std::unique_ptr<RecordStorage> storage = backend.Open();
  if (storage == nullptr) _exit(1);
  int64_t version = storage->Load(RecordKind::kProfile, 0).value().version;
  for (;;) {
    ++version;
    RecordBatch batch;
    const bool removal = version % 5 == 0;
    batch.changes.push_back(
        {"key" + std::to_string(version % kKeys),
         removal ? std::nullopt : std::optional<std::string>(ContentOf(version))});
    batch.expected_version = version - 1;
    const absl::StatusOr<int64_t> applied = storage->Apply(batch);
    if (absl::IsAborted(applied.status())) {  // What the one before had sent when it was killed.
      version = storage->Load(RecordKind::kProfile, 0).value().version;
      continue;
    }
    if (!applied.ok()) _exit(1);
    if (write(acknowledged, &version, sizeof(version)) != sizeof(version)) _exit(1);
  }
}

class StorageKill : public testing::TestWithParam<const char*> {};

TEST_P(StorageKill, LosesNothingAcknowledgedAndTearsNothing) {
  if (std::string(GetParam()) == "Postgresql") HAPMOE_NEED_POSTGRESQL();
  const char* const kills = getenv("HAPMOE_KILLS");
  const int rounds = kills == nullptr ? 8 : std::atoi(kills);
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const std::unique_ptr<Backend> backend = MakeBackend(GetParam());
  int64_t last = 0;  // The latest that was acknowledged.
  int64_t seen = 0;  // The latest that was there before.
  int64_t written = 0;
  for (int round = 0; round < rounds; ++round) {
    int acknowledged[2];
    ASSERT_EQ(pipe(acknowledged), 0);
    const pid_t child = fork();
    if (child == 0) {
      close(acknowledged[0]);
      WriteForEver(*backend, acknowledged[1]);
    }
    close(acknowledged[1]);
    const int64_t before = last;
    // Mostly after a write, then up to 30 ms of whatever it is doing; otherwise while it opens.
    if (round % 4 != 0) {
      EXPECT_EQ(read(acknowledged[0], &last, sizeof(last)), ssize_t{sizeof(last)});
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 30'000));
    kill(child, SIGKILL);
    while (read(acknowledged[0], &last, sizeof(last)) == ssize_t{sizeof(last)}) {
    }
    close(acknowledged[0]);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer failed";
    written += last - before;

    const std::unique_ptr<RecordStorage> storage = backend->Open();
    ASSERT_NE(storage, nullptr);
    // PostgreSQL may be finishing what the killed writer sent last: as an ordinary reader would,
    // this one sees all of it or nothing.
    const absl::StatusOr<RecordContents> contents = storage->Load(RecordKind::kProfile, 0);
    ASSERT_TRUE(contents.ok()) << contents.status();
    EXPECT_THAT(contents->faults, testing::IsEmpty());
    EXPECT_GE(contents->version, last);
    // One that was not acknowledged any more, and one of the writer before this one, which
    // PostgreSQL may have finished after `seen` was read.
    const int64_t most_unseen = std::string(GetParam()) == "Postgresql" ? 2 : 1;
    EXPECT_LE(contents->version, std::max(last, seen) + most_unseen);
    seen = contents->version;
    std::map<std::string, int64_t> newest;
    for (const StoredRecord& record : contents->records) {
      newest.emplace(record.key, record.version);
      if (record.content.has_value()) {
        EXPECT_TRUE(*record.content == ContentOf(record.version)) << record.version;
      } else {
        EXPECT_EQ(record.version % 5, 0);
      }
    }
    for (int64_t version = contents->version;
         version > std::max<int64_t>(0, contents->version - kKeys); --version) {
      const auto found = newest.find("key" + std::to_string(version % kKeys));
      if (version % 5 == 0 && found == newest.end()) continue;  // Of what was never there.
      ASSERT_NE(found, newest.end());
      EXPECT_EQ(found->second, version);
    }
  }
  RecordProperty("changes_acknowledged", std::to_string(written));
  std::cout << rounds << " kills, " << written << " changes acknowledged, none lost\n";
}

INSTANTIATE_TEST_SUITE_P(Storages, StorageKill, testing::Values("Sqlite", "Postgresql"),
                         [](const auto& parameter) { return std::string(parameter.param); });

}  // namespace
}  // namespace hapmoe::server
