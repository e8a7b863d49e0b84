// Records in a PostgreSQL database, which several servers share.
#ifndef HAPMOE_SERVER_STORAGE_POSTGRESQL_STORAGE_H_
#define HAPMOE_SERVER_STORAGE_POSTGRESQL_STORAGE_H_

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "core/base/mutex.h"
#include "server/storage/postgresql_connection.h"
#include "server/storage/record_storage.h"
#include "server/storage/waiter.h"

namespace hapmoe::server {

// Tables hapmoe_schema, hapmoe_kinds and hapmoe_records in the first schema of the search path.
// Servers tell each other of writes by NOTIFY; where that does not get through, AwaitChange's
// timeout has to do. A connection that is lost is made anew by the next call. Calls take some
// seconds at most; after one that could not reach the database, others fail at once for a moment.
class PostgresqlStorage : public RecordStorage {
 public:
  struct Limits {
    std::chrono::milliseconds connect = std::chrono::seconds(3);
    std::chrono::milliseconds call = std::chrono::seconds(5);  // All statements of one together.
    std::chrono::milliseconds pause = std::chrono::milliseconds(500);  // After a lost connection.
  };

  // Creates the tables where there are none. FailedPrecondition: they are of a later version.
  static absl::StatusOr<std::unique_ptr<PostgresqlStorage>> Open(const std::string& uri) {
    return Open(uri, Limits());
  }
  static absl::StatusOr<std::unique_ptr<PostgresqlStorage>> Open(const std::string& uri,
                                                                 const Limits& limits);
  ~PostgresqlStorage() override;

  absl::StatusOr<RecordContents> Load(RecordKind kind, int64_t since) override;
  absl::StatusOr<int64_t> Apply(const RecordBatch& batch) override;
  void AwaitChange(std::chrono::milliseconds timeout) override;
  void EndWaits() override;

 private:
  using TimePoint = PostgresqlConnection::TimePoint;

  PostgresqlStorage(std::string uri, const Limits& limits, int wake)
      : uri_(std::move(uri)), limits_(limits), wake_(wake) {}

  // A connection for calls, the one of before if it is not lost.
  absl::Status Connect() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Migrate(TimePoint deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Notes that the database cannot be reached if the status says so, and ends the transaction.
  absl::Status Fail(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<RecordContents> LoadOnce(RecordKind kind, int64_t since)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Everything but the commit.
  absl::StatusOr<int64_t> Prepare(const RecordBatch& batch, TimePoint deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The commit, and what became of it where its answer is lost.
  absl::Status Commit(const RecordBatch& batch, int64_t version, TimePoint deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string uri_;
  const Limits limits_;
  const int wake_;  // An eventfd that ends waits.

  Mutex mutex_;  // One call at a time.
  std::unique_ptr<PostgresqlConnection> connection_ ABSL_GUARDED_BY(mutex_);
  TimePoint unreachable_until_ ABSL_GUARDED_BY(mutex_);
  absl::Status unreachable_ ABSL_GUARDED_BY(mutex_);

  std::unique_ptr<PostgresqlConnection> listener_;  // Used by the thread of AwaitChange.
  Waiter waiter_;
};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_STORAGE_POSTGRESQL_STORAGE_H_
