#include "tests/server/storage/testing/backend.h"

#include <libpq-fe.h>
#include <sqlite3.h>

#include <iostream>

#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "server/storage/memory_storage.h"
#include "server/storage/postgresql_storage.h"
#include "server/storage/sqlite_storage.h"
#include "tests/server/testing/postgresql_cluster.h"
#include "tests/server/testing/temporary_directory.h"

namespace hapmoe::server {
namespace {

template <typename Storage>
std::unique_ptr<RecordStorage> OrNull(absl::StatusOr<std::unique_ptr<Storage>> storage) {
  if (storage.ok()) return *std::move(storage);
  std::cerr << storage.status() << std::endl;
  return nullptr;
}

class MemoryBackend : public Backend {
 public:
  std::unique_ptr<RecordStorage> Open() override { return std::make_unique<MemoryStorage>(); }
  bool shared() const override { return false; }
  void Execute(const std::string&) override { FAIL(); }
};

class SqliteBackend : public Backend {
 public:
  std::unique_ptr<RecordStorage> Open() override { return OrNull(SqliteStorage::Open(path_)); }
  void Execute(const std::string& sql) override {
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open(path_.c_str(), &database), SQLITE_OK);
    const std::string statement = absl::StrReplaceAll(sql, {{"RECORDS", "records"}});
    EXPECT_EQ(sqlite3_exec(database, statement.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
        << sqlite3_errmsg(database);
    sqlite3_close(database);
  }

 private:
  const TemporaryDirectory directory_;
  const std::string path_ = directory_.path() + "/state/test.db";
};

class PostgresqlBackend : public Backend {
 public:
  std::unique_ptr<RecordStorage> Open() override { return OrNull(PostgresqlStorage::Open(uri_)); }
  void Execute(const std::string& sql) override {
    PGconn* const connection = PQconnectdb(uri_.c_str());
    const std::string statement = absl::StrReplaceAll(sql, {{"RECORDS", "hapmoe_records"}});
    PGresult* const result = PQexec(connection, statement.c_str());
    EXPECT_EQ(PQresultStatus(result), PGRES_COMMAND_OK) << PQerrorMessage(connection);
    PQclear(result);
    PQfinish(connection);
  }

 private:
  // One for the test program; it ends with it.
  static PostgresqlCluster& Cluster() {
    static PostgresqlCluster cluster;
    return cluster;
  }

  const std::string uri_ = Cluster().NewDatabase();
};

}  // namespace

std::unique_ptr<Backend> MakeBackend(const std::string& name) {
  if (name == "Memory") return std::make_unique<MemoryBackend>();
  if (name == "Sqlite") return std::make_unique<SqliteBackend>();
  return std::make_unique<PostgresqlBackend>();
}

}  // namespace hapmoe::server
