#include "server/storage/open_storage.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/storage/memory_storage.h"
#include "server/storage/postgresql_connection.h"
#include "server/storage/postgresql_storage.h"
#include "server/storage/sqlite_storage.h"

namespace hapmoe::server {
namespace {

constexpr char kFileName[] = "hapmoe.db";

bool IsPostgresql(const std::string& store) {
  return absl::StartsWith(store, "postgresql://") || absl::StartsWith(store, "postgres://");
}

std::string WithDefault(const std::string& store, const std::string& state_dir) {
  if (!store.empty()) return store;
  return state_dir.empty() ? "memory:" : absl::StrCat("sqlite:", state_dir, "/", kFileName);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RecordStorage>> OpenStorage(const std::string& store,
                                                           const std::string& state_dir) {
  const std::string chosen = WithDefault(store, state_dir);
  absl::string_view path = chosen;
  if (chosen == "memory:") return std::make_unique<MemoryStorage>();
  if (absl::ConsumePrefix(&path, "sqlite:") && !path.empty()) {
    return SqliteStorage::Open(std::string(path));
  }
  if (IsPostgresql(chosen)) return PostgresqlStorage::Open(chosen);
  // Does not repeat what it was given: there may be a password in it.
  return absl::InvalidArgumentError(
      "--store must be memory:, sqlite:PATH or postgresql://USER@HOST/DATABASE");
}

std::string DescribeStorage(const std::string& store, const std::string& state_dir) {
  std::string chosen = WithDefault(store, state_dir);
  if (IsPostgresql(chosen)) return DescribePostgresql(chosen);
  if (chosen == "memory:" || absl::StartsWith(chosen, "sqlite:")) return chosen;
  return "unknown";
}

}  // namespace hapmoe::server
