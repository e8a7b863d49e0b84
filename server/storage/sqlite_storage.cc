#include "server/storage/sqlite_storage.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "server/storage/back_off.h"

namespace hapmoe::server {
namespace {

namespace fs = std::filesystem;

constexpr int kBusyTimeoutMilliseconds = 5000;
constexpr int kApplicationId = 0x48504D45;  // "HPME".

// Each brings the schema one version further; the file's user_version counts them.
constexpr const char* kMigrations[] = {
    "CREATE TABLE kinds (kind TEXT NOT NULL PRIMARY KEY, version INTEGER NOT NULL);"
    "CREATE TABLE records (kind TEXT NOT NULL, key TEXT NOT NULL, version INTEGER NOT NULL,"
    " content BLOB, checksum INTEGER NOT NULL, written_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,"
    " PRIMARY KEY (kind, key, version));"
    "CREATE INDEX records_by_version ON records (kind, version);",
};
constexpr int kSchemaVersion = std::size(kMigrations);

absl::Status ToStatus(int code, const std::string& path, absl::string_view message) {
  const std::string text = absl::StrCat(path, ": ", message);
  switch (code & 0xFF) {
    case SQLITE_FULL:
      return absl::ResourceExhaustedError(text);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::DataLossError(text);
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_AUTH:
      return absl::PermissionDeniedError(text);
    default:
      return absl::UnavailableError(text);
  }
}

// One statement. Errors stay: later calls do nothing, and status() tells the first.
class Statement {
 public:
  Statement(sqlite3* database, const std::string& path, const char* sql)
      : database_(database), path_(path) {
    Check(sqlite3_prepare_v2(database, sql, -1, &statement_, nullptr));
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& Bind(int64_t value) {
    if (ok_) Check(sqlite3_bind_int64(statement_, ++bound_, value));
    return *this;
  }
  // The text must outlive the statement's steps.
  Statement& Bind(absl::string_view text) {
    if (ok_) {
      Check(sqlite3_bind_text64(statement_, ++bound_, text.data(), text.size(), SQLITE_STATIC,
                                SQLITE_UTF8));
    }
    return *this;
  }
  Statement& Bind(const std::optional<std::string>& blob) {
    if (!ok_) return *this;
    ++bound_;
    Check(!blob.has_value()
              ? sqlite3_bind_null(statement_, bound_)
              : sqlite3_bind_blob64(statement_, bound_, blob->data(), blob->size(), SQLITE_STATIC));
    return *this;
  }

  // Whether there is a row. False after an error.
  bool Step() {
    if (!ok_) return false;
    const int code = sqlite3_step(statement_);
    if (code == SQLITE_ROW) return true;
    if (code != SQLITE_DONE) Check(code);
    return false;
  }
  absl::Status Run() {
    while (Step()) {
    }
    return status_;
  }

  int64_t Int(int column) { return sqlite3_column_int64(statement_, column); }
  std::string Text(int column) {
    const void* data = sqlite3_column_blob(statement_, column);
    const auto size = static_cast<size_t>(sqlite3_column_bytes(statement_, column));
    return data == nullptr ? "" : std::string(static_cast<const char*>(data), size);
  }
  bool IsNull(int column) { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }

  const absl::Status& status() const { return status_; }

 private:
  void Check(int code) {
    if (code == SQLITE_OK) return;
    ok_ = false;
    status_ = ToStatus(code, path_, sqlite3_errmsg(database_));
  }

  sqlite3* const database_;
  const std::string& path_;
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
  bool ok_ = true;
  absl::Status status_;
};

// The first value of the first row of a statement that gives one.
absl::StatusOr<std::string> ReadValue(sqlite3* database, const std::string& path, const char* sql) {
  Statement statement(database, path, sql);
  std::string value;
  if (statement.Step()) value = statement.Text(0);
  HAPMOE_RETURN_IF_ERROR(statement.status());
  return value;
}

// A folder that is created is on the disk before the file in it is.
absl::Status CreateFolder(const fs::path& folder) {
  std::error_code error;
  if (folder.empty() || fs::exists(folder, error)) return absl::OkStatus();
  fs::create_directories(folder, error);
  if (error) return absl::ErrnoToStatus(error.value(), folder.string());
  const fs::path parent = folder.has_parent_path() ? folder.parent_path() : fs::path(".");
  const int file = open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return absl::ErrnoToStatus(errno, parent.string());
  const int synced = fsync(file);
  const int cause = errno;
  close(file);
  return synced == 0 ? absl::OkStatus() : absl::ErrnoToStatus(cause, parent.string());
}

}  // namespace

absl::StatusOr<std::unique_ptr<SqliteStorage>> SqliteStorage::Open(const std::string& path) {
  HAPMOE_RETURN_IF_ERROR(CreateFolder(fs::path(path).parent_path()));
  // For its owner's eyes; SQLite gives its log the same rights. Only where there is none: closing a
  // file ends the locks that this process holds on it.
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file >= 0) close(file);
  sqlite3* database = nullptr;
  const int code =
      sqlite3_open_v2(path.c_str(), &database,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  std::unique_ptr<SqliteStorage> storage(new SqliteStorage(database, path));
  if (code != SQLITE_OK) {
    return ToStatus(code, path, database == nullptr ? "no memory" : sqlite3_errmsg(database));
  }
  MutexLock lock(storage->mutex_);
  const absl::Status prepared = storage->Prepare();
  if (absl::IsDataLoss(prepared)) {
    return absl::DataLossError(absl::StrCat(
        prepared.message(), ". The file is left as it is: restore a copy, save what can be with ",
        "`sqlite3 FILE .recover`, or move it away to start without what was stored."));
  }
  HAPMOE_RETURN_IF_ERROR(prepared);
  return storage;
}

SqliteStorage::~SqliteStorage() { sqlite3_close(database_); }

absl::Status SqliteStorage::CheckFile() {
  struct stat facts;
  if (stat(path_.c_str(), &facts) != 0) return absl::ErrnoToStatus(errno, path_);
  const std::pair<uint64_t, uint64_t> file = {facts.st_dev, facts.st_ino};
  if (file_ == std::pair<uint64_t, uint64_t>{0, 0}) file_ = file;
  if (file_ == file) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(path_, ": was replaced while it is in use"));
}

absl::Status SqliteStorage::Execute(const char* sql) {
  const int code = sqlite3_exec(database_, sql, nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : ToStatus(code, path_, sqlite3_errmsg(database_));
}

absl::Status SqliteStorage::Prepare() {
  sqlite3_extended_result_codes(database_, 1);
  sqlite3_busy_timeout(database_, kBusyTimeoutMilliseconds);
  // Nothing is written before it is known whose file this is.
  const auto check = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) -> absl::StatusOr<int> {
    HAPMOE_ASSIGN_OR_RETURN(const std::string id,
                            ReadValue(database_, path_, "PRAGMA application_id"));
    HAPMOE_ASSIGN_OR_RETURN(const std::string version,
                            ReadValue(database_, path_, "PRAGMA user_version"));
    HAPMOE_ASSIGN_OR_RETURN(const std::string tables,
                            ReadValue(database_, path_, "SELECT count(*) FROM sqlite_schema"));
    const bool empty = id == "0" && version == "0" && tables == "0";
    if (!empty && id != absl::StrCat(kApplicationId)) {
      return absl::FailedPreconditionError(absl::StrCat(path_, ": a database of another program"));
    }
    const int schema = std::stoi(version);
    if (schema > kSchemaVersion) {
      return absl::FailedPreconditionError(
          absl::StrCat(path_, ": written by a later version of hapmoed, with schema ", schema,
                       " where this one knows ", kSchemaVersion));
    }
    return schema;
  };
  HAPMOE_RETURN_IF_ERROR(Execute("BEGIN"));  // All of one moment.
  const absl::Status ours = check().status();
  (void)Execute("ROLLBACK");
  HAPMOE_RETURN_IF_ERROR(ours);
  HAPMOE_RETURN_IF_ERROR(Execute("PRAGMA trusted_schema = OFF"));
  HAPMOE_RETURN_IF_ERROR(Execute("PRAGMA synchronous = FULL"));
  HAPMOE_RETURN_IF_ERROR(Execute("PRAGMA journal_size_limit = 4194304"));
  // Of several servers that start on a new file one changes its mode, and SQLite does not wait for
  // that as it does for other locks.
  absl::StatusOr<std::string> mode = ReadValue(database_, path_, "PRAGMA journal_mode = WAL");
  for (int attempt = 1; absl::IsUnavailable(mode.status()) && attempt < kMostAttempts; ++attempt) {
    BackOff(attempt);
    mode = ReadValue(database_, path_, "PRAGMA journal_mode = WAL");
  }
  HAPMOE_RETURN_IF_ERROR(mode.status());
  if (*mode != "wal") {
    return absl::FailedPreconditionError(
        absl::StrCat(path_, ": its file system cannot hold a write ahead log"));
  }
  HAPMOE_RETURN_IF_ERROR(Execute("BEGIN IMMEDIATE"));
  // Another process may have been here since.
  const auto migrate = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) -> absl::Status {
    HAPMOE_ASSIGN_OR_RETURN(const int schema, check());
    for (int step = schema; step < kSchemaVersion; ++step) {
      HAPMOE_RETURN_IF_ERROR(Execute(kMigrations[step]));
    }
    if (schema < kSchemaVersion) {
      HAPMOE_RETURN_IF_ERROR(Execute(absl::StrCat("PRAGMA application_id = ", kApplicationId,
                                                  "; PRAGMA user_version = ", kSchemaVersion)
                                         .c_str()));
    }
    HAPMOE_ASSIGN_OR_RETURN(const std::string sound,
                            ReadValue(database_, path_, "PRAGMA quick_check(1)"));
    if (sound != "ok") return absl::DataLossError(absl::StrCat(path_, ": damaged: ", sound));
    HAPMOE_RETURN_IF_ERROR(Execute("COMMIT"));
    return CheckFile();
  };
  absl::Status migrated = migrate();
  if (!migrated.ok()) (void)Execute("ROLLBACK");
  return migrated;
}

absl::StatusOr<int64_t> SqliteStorage::Version(RecordKind kind) {
  Statement statement(database_, path_, "SELECT version FROM kinds WHERE kind = ?");
  statement.Bind(absl::string_view(Facts(kind).name));
  const int64_t version = statement.Step() ? statement.Int(0) : 0;
  HAPMOE_RETURN_IF_ERROR(statement.status());
  return version;
}

absl::StatusOr<RecordContents> SqliteStorage::Load(RecordKind kind, int64_t since) {
  MutexLock lock(mutex_);
  HAPMOE_RETURN_IF_ERROR(CheckFile());
  HAPMOE_RETURN_IF_ERROR(Execute("BEGIN"));  // The version and the records are of one moment.
  absl::StatusOr<RecordContents> contents = LoadInTransaction(kind, since);
  (void)Execute("ROLLBACK");
  return contents;
}

absl::StatusOr<RecordContents> SqliteStorage::LoadInTransaction(RecordKind kind, int64_t since) {
  HAPMOE_ASSIGN_OR_RETURN(const int64_t version, Version(kind));
  const bool tells = CanTellChanges(since, version);
  ContentsBuilder contents(kind, version, /*complete=*/!tells);
  if (tells && since == version) return std::move(contents).Build();
  Statement statement(database_, path_,
                      "SELECT key, version, content, checksum FROM records"
                      " WHERE kind = ? AND version > ? ORDER BY key, version DESC");
  statement.Bind(absl::string_view(Facts(kind).name)).Bind(tells ? since : int64_t{-1});
  while (statement.Step()) {
    StoredRecord record{statement.Text(0), statement.Int(1), std::nullopt};
    if (!statement.IsNull(2)) record.content = statement.Text(2);
    contents.Add(std::move(record), statement.Int(3));
  }
  HAPMOE_RETURN_IF_ERROR(statement.status());
  return std::move(contents).Build();
}

absl::StatusOr<int64_t> SqliteStorage::Apply(const RecordBatch& batch) {
  MutexLock lock(mutex_);
  HAPMOE_RETURN_IF_ERROR(CheckFile());
  HAPMOE_RETURN_IF_ERROR(Execute("BEGIN IMMEDIATE"));
  absl::StatusOr<int64_t> version = ApplyInTransaction(batch);
  if (version.ok()) {
    const absl::Status committed = Execute("COMMIT");
    if (committed.ok()) return version;
    version = committed;
  }
  // Some failures end the transaction themselves.
  if (sqlite3_get_autocommit(database_) == 0) (void)Execute("ROLLBACK");
  return version;
}

absl::StatusOr<int64_t> SqliteStorage::ApplyInTransaction(const RecordBatch& batch) {
  HAPMOE_ASSIGN_OR_RETURN(int64_t version, Version(batch.kind));
  if (batch.expected_version.value_or(version) != version) {
    return absl::AbortedError("changed meanwhile");
  }
  const absl::string_view kind = Facts(batch.kind).name;
  for (const RecordChange& change : batch.changes) {
    version = std::max(version + 1, change.version);
    if (!change.content.has_value()) {
      Statement there(database_, path_, "SELECT 1 FROM records WHERE kind = ? AND key = ?");
      const bool found = there.Bind(kind).Bind(absl::string_view(change.key)).Step();
      HAPMOE_RETURN_IF_ERROR(there.status());
      if (!found) continue;
    }
    const int64_t checksum = RecordChecksum(batch.kind, change.key, version, change.content);
    HAPMOE_RETURN_IF_ERROR(Statement(database_, path_,
                                     "INSERT INTO records (kind, key, version, content, checksum)"
                                     " VALUES (?, ?, ?, ?, ?)")
                               .Bind(kind)
                               .Bind(absl::string_view(change.key))
                               .Bind(version)
                               .Bind(change.content)
                               .Bind(checksum)
                               .Run());
    HAPMOE_RETURN_IF_ERROR(
        Statement(database_, path_,
                  "DELETE FROM records WHERE kind = ?1 AND key = ?2 AND version NOT IN"
                  " (SELECT version FROM records WHERE kind = ?1 AND key = ?2"
                  " ORDER BY version DESC LIMIT ?3)")
            .Bind(kind)
            .Bind(absl::string_view(change.key))
            .Bind(int64_t{Facts(batch.kind).versions_kept})
            .Run());
  }
  version = std::max(version, batch.least_version);
  HAPMOE_RETURN_IF_ERROR(
      Statement(database_, path_,
                "DELETE FROM records WHERE kind = ?1 AND version <= ?2 AND EXISTS"
                " (SELECT 1 FROM records AS removal WHERE removal.kind = ?1"
                " AND removal.key = records.key AND removal.content IS NULL"
                " AND removal.version BETWEEN records.version AND ?2)")
          .Bind(kind)
          .Bind(version - kRemovalsKept)
          .Run());
  HAPMOE_RETURN_IF_ERROR(
      Statement(database_, path_, "INSERT OR REPLACE INTO kinds (kind, version) VALUES (?, ?)")
          .Bind(kind)
          .Bind(version)
          .Run());
  return version;
}

}  // namespace hapmoe::server
