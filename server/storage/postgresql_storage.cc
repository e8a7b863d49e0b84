#include "server/storage/postgresql_storage.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace hapmoe::server {
namespace {

using std::chrono::steady_clock;
using Value = PostgresqlConnection::Value;

// Each brings the schema one version further; hapmoe_schema counts them. Statements of one step are
// run one by one.
const std::vector<std::vector<const char*>> kMigrations = {
    {"CREATE TABLE hapmoe_kinds (kind text PRIMARY KEY, version bigint NOT NULL)",
     "CREATE TABLE hapmoe_records (kind text NOT NULL, key text NOT NULL, version bigint NOT NULL,"
     " content bytea, checksum bigint NOT NULL, written_at timestamptz NOT NULL DEFAULT now(),"
     " PRIMARY KEY (kind, key, version))",
     // Contents are measured figures, which do not compress, and are read as a whole.
     "ALTER TABLE hapmoe_records ALTER COLUMN content SET STORAGE EXTERNAL",
     "CREATE INDEX hapmoe_records_by_version ON hapmoe_records (kind, version)"},
};

absl::string_view NameOf(RecordKind kind) { return Facts(kind).name; }

}  // namespace

absl::StatusOr<std::unique_ptr<PostgresqlStorage>> PostgresqlStorage::Open(const std::string& uri,
                                                                           const Limits& limits) {
  const int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake < 0) return absl::ErrnoToStatus(errno, "eventfd");
  std::unique_ptr<PostgresqlStorage> storage(new PostgresqlStorage(uri, limits, wake));
  MutexLock lock(storage->mutex_);
  HAPMOE_RETURN_IF_ERROR(storage->Connect());
  HAPMOE_RETURN_IF_ERROR(
      storage->Fail(storage->Migrate(steady_clock::now() + storage->limits_.call)));
  return storage;
}

PostgresqlStorage::~PostgresqlStorage() {
  listener_.reset();
  close(wake_);
}

absl::Status PostgresqlStorage::Connect() {
  if (connection_ != nullptr && !connection_->lost()) return absl::OkStatus();
  connection_.reset();
  // A call that was waiting for another that failed does not wait as long again.
  if (steady_clock::now() < unreachable_until_) return unreachable_;
  const TimePoint deadline = steady_clock::now() + limits_.connect;
  auto connection = PostgresqlConnection::Connect(uri_, deadline, wake_);
  if (!connection.ok()) return Fail(connection.status());
  connection_ = *std::move(connection);
  // PostgreSQL gives up a little before we do. One that hears no more of us, in the middle of a
  // transaction, keeps others waiting no longer either.
  const std::string call = std::to_string(limits_.call.count() * 9 / 10);
  const absl::Status set = connection_
                               ->Run(
                                   "SELECT set_config('statement_timeout', $1, false),"
                                   " set_config('lock_timeout', $1, false),"
                                   " set_config('idle_in_transaction_session_timeout', $1, false),"
                                   " CASE WHEN current_setting('synchronous_commit') = 'off'"
                                   " THEN set_config('synchronous_commit', 'on', false) END",
                                   {absl::string_view(call)}, deadline)
                               .status();
  if (!set.ok()) connection_.reset();
  return Fail(set);
}

absl::Status PostgresqlStorage::Fail(const absl::Status& status) {
  if (status.ok() || absl::IsAborted(status)) return status;
  if (connection_ != nullptr && !connection_->lost()) {
    (void)connection_->Run("ROLLBACK", {}, steady_clock::now() + limits_.connect);
  }
  if (absl::IsUnavailable(status)) {
    connection_.reset();
    unreachable_until_ = steady_clock::now() + limits_.pause;
    unreachable_ = status;
  }
  return status;
}

absl::Status PostgresqlStorage::Migrate(TimePoint deadline) {
  const auto run = [&](const char* sql) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return connection_->Run(sql, {}, deadline);
  };
  const auto schema = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) -> absl::StatusOr<int64_t> {
    HAPMOE_ASSIGN_OR_RETURN(const PostgresqlRows rows,
                            run("SELECT coalesce(max(version), 0) FROM hapmoe_schema"));
    return rows.Int(0, 0);
  };
  const auto known = static_cast<int64_t>(kMigrations.size());
  HAPMOE_ASSIGN_OR_RETURN(const PostgresqlRows table,
                          run("SELECT to_regclass('hapmoe_schema') IS NOT NULL"));
  int64_t found = 0;
  if (table.Text(0, 0) == "t") {
    HAPMOE_ASSIGN_OR_RETURN(found, schema());
  }
  if (found < known) {  // Otherwise no right to create tables is needed.
    HAPMOE_RETURN_IF_ERROR(run("BEGIN").status());
    // One server at a time. The number is of our own making.
    HAPMOE_RETURN_IF_ERROR(run("SELECT pg_advisory_xact_lock(5211834477620951)").status());
    // Not to_regclass again: in one session it may go on to say that there is none.
    HAPMOE_RETURN_IF_ERROR(
        run("CREATE TABLE IF NOT EXISTS hapmoe_schema (version integer NOT NULL)").status());
    HAPMOE_ASSIGN_OR_RETURN(found, schema());
    if (found < known) {
      for (int64_t step = found; step < known; ++step) {
        for (const char* sql : kMigrations[static_cast<size_t>(step)]) {
          HAPMOE_RETURN_IF_ERROR(run(sql).status());
        }
      }
      for (const RecordKindFacts& kind : kRecordKinds) {
        HAPMOE_RETURN_IF_ERROR(
            connection_
                ->Run("INSERT INTO hapmoe_kinds VALUES ($1, 0) ON CONFLICT (kind) DO NOTHING",
                      {absl::string_view(kind.name)}, deadline)
                .status());
      }
      HAPMOE_RETURN_IF_ERROR(
          connection_->Run("INSERT INTO hapmoe_schema VALUES ($1)", {known}, deadline).status());
    }
    HAPMOE_RETURN_IF_ERROR(run("COMMIT").status());
  }
  if (found > known) {
    return absl::FailedPreconditionError(
        absl::StrCat("PostgreSQL: written by a later version of hapmoed, with schema ", found,
                     " where this one knows ", known));
  }
  return absl::OkStatus();
}

absl::StatusOr<RecordContents> PostgresqlStorage::Load(RecordKind kind, int64_t since) {
  MutexLock lock(mutex_);
  const bool used = connection_ != nullptr;
  absl::StatusOr<RecordContents> contents = LoadOnce(kind, since);
  // A connection that was idle may have been lost long ago.
  if (used && absl::IsUnavailable(contents.status()) && connection_ == nullptr) {
    unreachable_until_ = TimePoint();
    contents = LoadOnce(kind, since);
  }
  return contents;
}

absl::StatusOr<RecordContents> PostgresqlStorage::LoadOnce(RecordKind kind, int64_t since) {
  HAPMOE_RETURN_IF_ERROR(Connect());
  const TimePoint deadline = steady_clock::now() + limits_.call;
  const absl::string_view name = NameOf(kind);
  const auto load = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) -> absl::StatusOr<RecordContents> {
    // What is written between the two statements is left for the next time.
    HAPMOE_ASSIGN_OR_RETURN(
        const PostgresqlRows kinds,
        connection_->Run("SELECT version FROM hapmoe_kinds WHERE kind = $1", {name}, deadline));
    const int64_t version = kinds.size() == 0 ? 0 : kinds.Int(0, 0);
    const bool tells = CanTellChanges(since, version);
    ContentsBuilder contents(kind, version, /*complete=*/!tells);
    if (tells && since == version) return std::move(contents).Build();
    HAPMOE_ASSIGN_OR_RETURN(
        const PostgresqlRows rows,
        connection_->Run("SELECT key, version, content, checksum FROM hapmoe_records"
                         " WHERE kind = $1 AND version > $2 AND version <= $3"
                         " ORDER BY key, version DESC",
                         {name, tells ? since : int64_t{-1}, version}, deadline));
    for (int row = 0; row < rows.size(); ++row) {
      StoredRecord record{rows.Text(row, 0), rows.Int(row, 1), std::nullopt};
      if (!rows.IsNull(row, 2)) record.content = rows.Bytes(row, 2);
      contents.Add(std::move(record), rows.Int(row, 3));
    }
    return std::move(contents).Build();
  };
  absl::StatusOr<RecordContents> contents = load();
  if (!contents.ok()) return Fail(contents.status());
  return contents;
}

absl::StatusOr<int64_t> PostgresqlStorage::Apply(const RecordBatch& batch) {
  MutexLock lock(mutex_);
  const bool used = connection_ != nullptr;
  HAPMOE_RETURN_IF_ERROR(Connect());
  TimePoint deadline = steady_clock::now() + limits_.call;
  absl::StatusOr<int64_t> version = Prepare(batch, deadline);
  if (used && absl::IsUnavailable(version.status())) {  // See Load.
    connection_.reset();
    HAPMOE_RETURN_IF_ERROR(Connect());
    deadline = steady_clock::now() + limits_.call;
    version = Prepare(batch, deadline);
  }
  if (absl::IsAborted(version.status())) {
    HAPMOE_RETURN_IF_ERROR(Fail(connection_->Run("ROLLBACK", {}, deadline).status()));
    return version;
  }
  if (!version.ok()) return Fail(version.status());
  HAPMOE_RETURN_IF_ERROR(Fail(Commit(batch, *version, deadline)));
  return version;
}

absl::StatusOr<int64_t> PostgresqlStorage::Prepare(const RecordBatch& batch, TimePoint deadline) {
  const absl::string_view kind = NameOf(batch.kind);
  HAPMOE_RETURN_IF_ERROR(connection_->Run("BEGIN", {}, deadline).status());
  // Locks the kind until the commit: versions become visible in their order.
  HAPMOE_ASSIGN_OR_RETURN(
      const PostgresqlRows rows,
      connection_->Run("SELECT version FROM hapmoe_kinds WHERE kind = $1 FOR UPDATE", {kind},
                       deadline));
  if (rows.size() == 0) return absl::DataLossError("PostgreSQL: a row of hapmoe_kinds is missing");
  int64_t version = rows.Int(0, 0);
  if (batch.expected_version.value_or(version) != version) {
    return absl::AbortedError("changed meanwhile");
  }
  for (const RecordChange& change : batch.changes) {
    const absl::string_view key = change.key;
    version = std::max(version + 1, change.version);
    if (!change.content.has_value()) {
      HAPMOE_ASSIGN_OR_RETURN(
          const PostgresqlRows there,
          connection_->Run("SELECT 1 FROM hapmoe_records WHERE kind = $1 AND key = $2 LIMIT 1",
                           {kind, key}, deadline));
      if (there.size() == 0) continue;
    }
    const int64_t checksum = RecordChecksum(batch.kind, change.key, version, change.content);
    HAPMOE_RETURN_IF_ERROR(
        connection_
            ->Run("INSERT INTO hapmoe_records (kind, key, version, content, checksum)"
                  " VALUES ($1, $2, $3, $4, $5)",
                  {kind, key, version, Value::Bytes(change.content), checksum}, deadline)
            .status());
    HAPMOE_RETURN_IF_ERROR(
        connection_
            ->Run("DELETE FROM hapmoe_records WHERE kind = $1 AND key = $2 AND version NOT IN"
                  " (SELECT version FROM hapmoe_records WHERE kind = $1 AND key = $2"
                  " ORDER BY version DESC LIMIT $3)",
                  {kind, key, int64_t{Facts(batch.kind).versions_kept}}, deadline)
            .status());
  }
  version = std::max(version, batch.least_version);
  HAPMOE_RETURN_IF_ERROR(
      connection_
          ->Run("DELETE FROM hapmoe_records AS record WHERE kind = $1 AND version <= $2 AND EXISTS"
                " (SELECT 1 FROM hapmoe_records AS removal WHERE removal.kind = $1"
                " AND removal.key = record.key AND removal.content IS NULL"
                " AND removal.version BETWEEN record.version AND $2)",
                {kind, version - kRemovalsKept}, deadline)
          .status());
  HAPMOE_RETURN_IF_ERROR(
      connection_
          ->Run("UPDATE hapmoe_kinds SET version = $2 WHERE kind = $1", {kind, version}, deadline)
          .status());
  HAPMOE_RETURN_IF_ERROR(connection_->Run("NOTIFY hapmoe_records", {}, deadline).status());
  return version;
}

absl::Status PostgresqlStorage::Commit(const RecordBatch& batch, int64_t version,
                                       TimePoint deadline) {
  absl::Status committed = connection_->Run("COMMIT", {}, deadline).status();
  if (!absl::IsUnavailable(committed) && !absl::IsCancelled(committed)) return committed;
  // The answer is lost. That version of the kind is ours if it was made at all: the kind was locked
  // until the commit, or the end of the connection.
  connection_.reset();
  unreachable_until_ = TimePoint();
  absl::Status unknown = absl::UnknownError(
      absl::StrCat(committed.message(), "; whether the change was made is not known"));
  if (batch.changes.empty() || !batch.changes.back().content.has_value() || !Connect().ok()) {
    return unknown;
  }
  const std::optional<std::string>& content = batch.changes.back().content;
  const auto rows = connection_->Run(
      "SELECT 1 FROM hapmoe_records WHERE kind = $1 AND key = $2 AND version = $3"
      " AND checksum = $4",
      {NameOf(batch.kind), absl::string_view(batch.changes.back().key), version,
       RecordChecksum(batch.kind, batch.changes.back().key, version, content)},
      steady_clock::now() + limits_.call);
  if (rows.ok() && rows->size() == 1) return absl::OkStatus();
  // It may still be on its way where the connection broke before the commit arrived.
  return unknown;
}

void PostgresqlStorage::AwaitChange(std::chrono::milliseconds timeout) {
  const TimePoint deadline = steady_clock::now() + timeout;
  if (listener_ == nullptr || listener_->lost()) {
    listener_.reset();
    auto connection =
        PostgresqlConnection::Connect(uri_, steady_clock::now() + limits_.connect, wake_);
    if (connection.ok() &&
        (*connection)->Run("LISTEN hapmoe_records", {}, steady_clock::now() + limits_.call).ok()) {
      listener_ = *std::move(connection);
      return;  // What changed before is not notified.
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now());
    waiter_.Wait(std::max(left, std::chrono::milliseconds(0)));
    return;
  }
  if (!listener_->AwaitNotification(deadline) && listener_->lost()) {
    // So that a database that ends at once again is not asked in a loop.
    waiter_.Wait(std::chrono::milliseconds(100));
  }
}

void PostgresqlStorage::EndWaits() {
  waiter_.End();
  const uint64_t one = 1;
  (void)!write(wake_, &one, sizeof(one));
}

}  // namespace hapmoe::server
