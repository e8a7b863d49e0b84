#include "server/storage/memory_storage.h"

#include <algorithm>

namespace hapmoe::server {

absl::StatusOr<RecordContents> MemoryStorage::Load(RecordKind kind, int64_t since) {
  MutexLock lock(mutex_);
  const Kind& stored = kinds_[static_cast<int>(kind)];
  const bool tells = CanTellChanges(since, stored.version);
  ContentsBuilder contents(kind, stored.version, /*complete=*/!tells);
  for (const auto& [key, versions] : stored.records) {
    for (const auto& [version, content] : versions) {
      if (tells && version <= since) break;
      contents.Add({key, version, content}, RecordChecksum(kind, key, version, content));
    }
  }
  return std::move(contents).Build();
}

absl::StatusOr<int64_t> MemoryStorage::Apply(const RecordBatch& batch) {
  MutexLock lock(mutex_);
  Kind& stored = kinds_[static_cast<int>(batch.kind)];
  if (batch.expected_version.value_or(stored.version) != stored.version) {
    return absl::AbortedError("changed meanwhile");
  }
  for (const RecordChange& change : batch.changes) {
    stored.version = std::max(stored.version + 1, change.version);
    if (!change.content.has_value() && stored.records.count(change.key) == 0) continue;
    Versions& versions = stored.records[change.key];
    versions.emplace(stored.version, change.content);
    while (versions.size() > static_cast<size_t>(Facts(batch.kind).versions_kept)) {
      versions.erase(std::prev(versions.end()));
    }
  }
  stored.version = std::max(stored.version, batch.least_version);
  for (auto record = stored.records.begin(); record != stored.records.end();) {
    const auto& [version, content] = *record->second.begin();
    const bool forgotten = !content.has_value() && version <= stored.version - kRemovalsKept;
    record = forgotten ? stored.records.erase(record) : std::next(record);
  }
  return stored.version;
}

}  // namespace hapmoe::server
