// Records in an SQLite file.
#ifndef HAPMOE_SERVER_STORAGE_SQLITE_STORAGE_H_
#define HAPMOE_SERVER_STORAGE_SQLITE_STORAGE_H_

#include <memory>
#include <string>
#include <utility>

#include "core/base/mutex.h"
#include "server/storage/record_storage.h"
#include "server/storage/waiter.h"

struct sqlite3;

namespace hapmoe::server {

// Several processes of one machine may use a file; not those of several machines over a network's
// file system. A write ahead log, synced at each write: a write costs one fsync, and a reader of
// another process never waits for it. A write waits for those of other processes for at most 5
// seconds. The file grows up to what was ever kept at one time, the log to some MiB. A file that is
// removed or replaced meanwhile is an error until the storage is opened again.
class SqliteStorage : public RecordStorage {
 public:
  // Creates the file where there is none, and its folder; brings an earlier schema up to date.
  // FailedPrecondition: written by a later version, or by another program. DataLoss: no database,
  // or a damaged one; it is left as it is.
  static absl::StatusOr<std::unique_ptr<SqliteStorage>> Open(const std::string& path);
  ~SqliteStorage() override;

  absl::StatusOr<RecordContents> Load(RecordKind kind, int64_t since) override;
  absl::StatusOr<int64_t> Apply(const RecordBatch& batch) override;
  void AwaitChange(std::chrono::milliseconds timeout) override { waiter_.Wait(timeout); }
  void EndWaits() override { waiter_.End(); }

 private:
  SqliteStorage(sqlite3* database, std::string path)
      : path_(std::move(path)), database_(database) {}

  absl::Status Prepare() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Notes which file was opened; fails once the path leads to another.
  absl::Status CheckFile() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Execute(const char* sql) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<int64_t> Version(RecordKind kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<int64_t> ApplyInTransaction(const RecordBatch& batch)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<RecordContents> LoadInTransaction(RecordKind kind, int64_t since)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string path_;
  Mutex mutex_;
  sqlite3* const database_ ABSL_PT_GUARDED_BY(mutex_);  // Null: it could not be opened.
  std::pair<uint64_t, uint64_t> file_ ABSL_GUARDED_BY(mutex_) = {0, 0};  // Device and number.
  Waiter waiter_;
};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_STORAGE_SQLITE_STORAGE_H_
