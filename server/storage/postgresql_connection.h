// A connection to PostgreSQL on which nothing waits for longer than it is told to.
#ifndef HAPMOE_SERVER_STORAGE_POSTGRESQL_CONNECTION_H_
#define HAPMOE_SERVER_STORAGE_POSTGRESQL_CONNECTION_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

struct pg_conn;
struct pg_result;

namespace hapmoe::server {

// Where a PostgreSQL URI leads, without its password or anything else that is secret.
std::string DescribePostgresql(const std::string& uri);

// Rows that a statement gave.
class PostgresqlRows {
 public:
  explicit PostgresqlRows(pg_result* result) : result_(result) {}
  ~PostgresqlRows();
  PostgresqlRows(PostgresqlRows&& other) noexcept
      : result_(std::exchange(other.result_, nullptr)) {}
  PostgresqlRows& operator=(PostgresqlRows&&) = delete;

  int size() const;
  bool IsNull(int row, int column) const;
  std::string Text(int row, int column) const;
  int64_t Int(int row, int column) const;        // Of a column of integers that are not null.
  std::string Bytes(int row, int column) const;  // Of a column of type bytea.

 private:
  pg_result* result_;  // Null: moved away.
};

// Statements are given up at their deadlines, after which the connection is lost. Used by one
// thread at a time.
class PostgresqlConnection {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // Waits until `deadline` at most, for names to be found apart. `wake` is a file that ends all
  // waits of the connection when it can be read; -1 for none.
  static absl::StatusOr<std::unique_ptr<PostgresqlConnection>> Connect(const std::string& uri,
                                                                       TimePoint deadline,
                                                                       int wake = -1);
  ~PostgresqlConnection();

  // A value of a statement: text, bytes or null.
  struct Value {
    Value(absl::string_view text) : content(text) {}            // NOLINT: the common case.
    Value(int64_t number) : content(std::to_string(number)) {}  // NOLINT
    static Value Bytes(std::optional<std::string> bytes) {
      Value value{absl::string_view()};
      value.content = std::move(bytes);
      value.binary = true;
      return value;
    }
    std::optional<std::string> content;
    bool binary = false;
  };

  // Runs one statement. Unavailable: the connection is lost, by a deadline too. Cancelled: by
  // `wake`. Otherwise the status tells what PostgreSQL did, and the connection goes on.
  absl::StatusOr<PostgresqlRows> Run(const char* sql, const std::vector<Value>& values,
                                     TimePoint deadline);

  // Waits for a notification until `deadline`; false if there was none or the connection is lost.
  bool AwaitNotification(TimePoint deadline);

  bool lost() const { return lost_; }

 private:
  PostgresqlConnection(pg_conn* connection, int wake) : connection_(connection), wake_(wake) {}

  enum class Event { kReady, kTime, kEnded };
  Event Await(bool read, bool write, TimePoint deadline) const;
  absl::Status Lose(absl::string_view what);
  // After an event that is not kReady.
  absl::Status Lose(Event event);
  absl::Status Send(TimePoint deadline);
  absl::StatusOr<pg_result*> Receive(TimePoint deadline);
  std::string Message() const;

  pg_conn* const connection_;
  const int wake_;
  bool lost_ = false;
};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_STORAGE_POSTGRESQL_CONNECTION_H_
