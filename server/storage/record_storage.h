// Where records that callers put are kept: profiles, and reports of iterations. What varies between
// backends is this and nothing else.
#ifndef HAPMOE_SERVER_STORAGE_RECORD_STORAGE_H_
#define HAPMOE_SERVER_STORAGE_RECORD_STORAGE_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace hapmoe::server {

// Kinds of records, each with versions of its own. kRecordKinds follows.
enum class RecordKind {
  kProfile,  // A serialized AcceleratorProfile by its ProfileKey.
  kReport,   // A serialized IterationReport by its name.
};

struct RecordKindFacts {
  const char* name;   // In databases.
  int versions_kept;  // Of one record, its removal included; at least 1.
};
inline constexpr RecordKindFacts kRecordKinds[] = {{"profile", 5}, {"report", 1}};

constexpr const RecordKindFacts& Facts(RecordKind kind) {
  return kRecordKinds[static_cast<int>(kind)];
}

// Removals of a kind are remembered for this many of its versions.
inline constexpr int64_t kRemovalsKept = 1000;

// Something that could not be loaded, and why.
struct LoadFault {
  std::string source;  // File or record.
  std::string message;
};

struct StoredRecord {
  std::string key;
  int64_t version = 0;                 // Of the kind, when the record was written.
  std::optional<std::string> content;  // nullopt: removed.
};

struct RecordContents {
  bool complete = false;  // Records that are not here do not exist; otherwise they are unchanged.
  // The whole ones, by key, the latest version of each first. Earlier ones follow it, for readers
  // that cannot make use of the latest; none follows a removal.
  std::vector<StoredRecord> records;
  int64_t version = 0;            // Of the kind: the highest that was ever given.
  std::vector<LoadFault> faults;  // Versions that are damaged. They are left as they are.
};

struct RecordChange {
  std::string key;
  std::optional<std::string> content;  // nullopt: remove; one that is not there is no error.
  int64_t version = 0;                 // At least this one is given.
};

struct RecordBatch {
  RecordKind kind = RecordKind::kProfile;
  std::vector<RecordChange> changes;
  // Of the kind before the changes; nullopt: any.
  std::optional<int64_t> expected_version;
  int64_t least_version = 0;  // Of the kind after the changes.
};

// Thread safe. Calls may block on a disk or a network, for some seconds at most: they are not for
// gRPC's threads, nor for those of calls that predict.
class RecordStorage {
 public:
  virtual ~RecordStorage() = default;

  // What changed after version `since` of the kind, by any process; all for 0, and when so much
  // changed that removals may have been forgotten.
  virtual absl::StatusOr<RecordContents> Load(RecordKind kind, int64_t since) = 0;

  // Makes all changes, each with a version of its own, and returns the kind's version after them.
  // Once this is OK they survive a crash of the process and of the machine.
  // Aborted: the version is not the expected one, and nothing changed. Unknown: the storage was
  // lost at a moment when the changes may have been made. Other errors: nothing changed.
  virtual absl::StatusOr<int64_t> Apply(const RecordBatch& batch) = 0;

  // Returns when another process may have changed something, and after `timeout` at the latest.
  // Called by one thread.
  virtual void AwaitChange(std::chrono::milliseconds timeout) = 0;
  // Ends AwaitChange, now and from now on, and what waits for a database (Cancelled): nothing else
  // may be asked of the storage then.
  virtual void EndWaits() = 0;
};

// Of a record with all that tells it from others (CRC-64/XZ), kept beside it.
int64_t RecordChecksum(RecordKind kind, absl::string_view key, int64_t version,
                       const std::optional<std::string>& content);

// CRC-64/XZ.
uint64_t Crc64(absl::string_view data, uint64_t crc = 0);

// Whether changes since `since` can be told apart, with the kind at `version`.
bool CanTellChanges(int64_t since, int64_t version);

// Collects what a backend reads.
class ContentsBuilder {
 public:
  ContentsBuilder(RecordKind kind, int64_t version, bool complete);

  // In the order of keys, the latest version first.
  void Add(StoredRecord record, int64_t checksum);

  RecordContents Build() && { return std::move(contents_); }

 private:
  const RecordKind kind_;
  RecordContents contents_;
};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_STORAGE_RECORD_STORAGE_H_
