#include "server/storage/postgresql_connection.h"

#include <libpq-fe.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/status_macros.h"

namespace hapmoe::server {
namespace {

using std::chrono::steady_clock;

absl::Status ToStatus(absl::string_view state, absl::string_view message) {
  if (absl::StartsWith(state, "53")) return absl::ResourceExhaustedError(message);  // Disk full.
  if (absl::StartsWith(state, "XX")) return absl::DataLossError(message);
  if (absl::StartsWith(state, "28") || state == "42501") {
    return absl::PermissionDeniedError(message);
  }
  // PostgreSQL gave up, for a lock that another session holds for example.
  if (state == "57014" || state == "55P03") return absl::DeadlineExceededError(message);
  return absl::FailedPreconditionError(message);
}

// Of a server that will take no more writes: it ends, or is a replica by now. Another may be found
// under the same name.
bool EndsConnection(absl::string_view state) {
  return absl::StartsWith(state, "57P") || absl::StartsWith(state, "08") || state == "25006" ||
         state == "25P03";
}

}  // namespace

std::string DescribePostgresql(const std::string& uri) {
  PQconninfoOption* const options = PQconninfoParse(uri.c_str(), nullptr);
  if (options == nullptr) return "postgresql: (not a URI)";
  const absl::Cleanup freer = [options] { PQconninfoFree(options); };
  const auto value = [options](absl::string_view keyword) -> std::string {
    for (const PQconninfoOption* option = options; option->keyword != nullptr; ++option) {
      if (keyword == option->keyword && option->val != nullptr) return option->val;
    }
    return "";
  };
  const std::string host = value("host").empty() ? value("hostaddr") : value("host");
  const std::string port = value("port");
  return absl::StrCat("postgresql://", value("user"), value("user").empty() ? "" : "@", host,
                      port.empty() ? "" : ":", port, "/", value("dbname"));
}

PostgresqlRows::~PostgresqlRows() { PQclear(result_); }

int PostgresqlRows::size() const { return PQntuples(result_); }

bool PostgresqlRows::IsNull(int row, int column) const {
  return PQgetisnull(result_, row, column) != 0;
}

std::string PostgresqlRows::Text(int row, int column) const {
  return std::string(PQgetvalue(result_, row, column),
                     static_cast<size_t>(PQgetlength(result_, row, column)));
}

int64_t PostgresqlRows::Int(int row, int column) const {
  return std::strtoll(PQgetvalue(result_, row, column), nullptr, 10);
}

std::string PostgresqlRows::Bytes(int row, int column) const {
  size_t size = 0;
  const std::string text = Text(row, column);
  unsigned char* const bytes =
      PQunescapeBytea(reinterpret_cast<const unsigned char*>(text.c_str()), &size);
  if (bytes == nullptr) return "";  // No memory; the checksum tells.
  const absl::Cleanup freer = [bytes] { PQfreemem(bytes); };
  return std::string(reinterpret_cast<const char*>(bytes), size);
}

absl::StatusOr<std::unique_ptr<PostgresqlConnection>> PostgresqlConnection::Connect(
    const std::string& uri, TimePoint deadline, int wake) {
  PQconninfoOption* const options = PQconninfoParse(uri.c_str(), nullptr);
  // libpq's own message may repeat a part of the password.
  if (options == nullptr) return absl::InvalidArgumentError("not the URI of a PostgreSQL database");
  PQconninfoFree(options);
  // Of two values of one keyword the later holds: those of the URI.
  const char* const keywords[] = {"application_name",     "keepalives_idle",  "keepalives_interval",
                                  "keepalives_count",     "tcp_user_timeout", "client_encoding",
                                  "target_session_attrs", "dbname",           nullptr};
  const char* const values[] = {"hapmoed", "10",         "5",         "3",    "10000",
                                "UTF8",    "read-write", uri.c_str(), nullptr};
  pg_conn* const raw = PQconnectStartParams(keywords, values, /*expand_dbname=*/1);
  if (raw == nullptr) return absl::ResourceExhaustedError("no memory");
  std::unique_ptr<PostgresqlConnection> connection(new PostgresqlConnection(raw, wake));
  PostgresPollingStatusType next =
      PQstatus(raw) == CONNECTION_BAD ? PGRES_POLLING_FAILED : PGRES_POLLING_WRITING;
  while (next != PGRES_POLLING_OK) {
    if (next == PGRES_POLLING_FAILED) return connection->Lose(connection->Message());
    const Event event =
        connection->Await(next == PGRES_POLLING_READING, next == PGRES_POLLING_WRITING, deadline);
    if (event != Event::kReady) return connection->Lose(event);
    next = PQconnectPoll(raw);
  }
  PQsetnonblocking(raw, 1);
  // Notices are not errors, and standard error is the log's.
  PQsetNoticeProcessor(
      raw, [](void*, const char*) {}, nullptr);
  return connection;
}

PostgresqlConnection::~PostgresqlConnection() { PQfinish(connection_); }

std::string PostgresqlConnection::Message() const {
  std::string message(absl::StripAsciiWhitespace(PQerrorMessage(connection_)));
  std::replace(message.begin(), message.end(), '\n', ' ');
  return message;
}

absl::Status PostgresqlConnection::Lose(absl::string_view what) {
  lost_ = true;
  return absl::UnavailableError(absl::StrCat("PostgreSQL: ", what));
}

absl::Status PostgresqlConnection::Lose(Event event) {
  if (event == Event::kTime) return Lose("no answer in time");
  lost_ = true;
  return absl::CancelledError("PostgreSQL: the storage ends");
}

PostgresqlConnection::Event PostgresqlConnection::Await(bool read, bool write,
                                                        TimePoint deadline) const {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now());
    if (left.count() <= 0) return Event::kTime;
    pollfd files[2] = {{PQsocket(connection_),
                        static_cast<int16_t>((read ? POLLIN : 0) | (write ? POLLOUT : 0)), 0},
                       {wake_, POLLIN, 0}};
    const int64_t wait = std::min<int64_t>(left.count(), 60'000);
    const int ready = poll(files, 2, static_cast<int>(wait));
    if (ready < 0 && errno != EINTR) return Event::kReady;  // libpq finds the same and says it.
    if (ready <= 0) continue;
    return files[1].revents != 0 ? Event::kEnded : Event::kReady;
  }
}

absl::Status PostgresqlConnection::Send(TimePoint deadline) {
  for (;;) {
    const int left = PQflush(connection_);
    if (left == 0) return absl::OkStatus();
    if (left < 0) return Lose(Message());
    const Event event = Await(/*read=*/true, /*write=*/true, deadline);
    if (event != Event::kReady) return Lose(event);
    if (PQconsumeInput(connection_) == 0) return Lose(Message());
  }
}

absl::StatusOr<pg_result*> PostgresqlConnection::Receive(TimePoint deadline) {
  while (PQisBusy(connection_) != 0) {
    const Event event = Await(/*read=*/true, /*write=*/false, deadline);
    if (event != Event::kReady) return Lose(event);
    if (PQconsumeInput(connection_) == 0) return Lose(Message());
  }
  return PQgetResult(connection_);
}

absl::StatusOr<PostgresqlRows> PostgresqlConnection::Run(const char* sql,
                                                         const std::vector<Value>& values,
                                                         TimePoint deadline) {
  if (lost_) return absl::UnavailableError("PostgreSQL: the connection is lost");
  std::vector<const char*> contents;
  std::vector<int> lengths;
  std::vector<int> formats;
  for (const Value& value : values) {
    contents.push_back(value.content.has_value() ? value.content->c_str() : nullptr);
    lengths.push_back(value.content.has_value() ? static_cast<int>(value.content->size()) : 0);
    formats.push_back(value.binary ? 1 : 0);
  }
  if (PQsendQueryParams(connection_, sql, static_cast<int>(values.size()), nullptr, contents.data(),
                        lengths.data(), formats.data(), 0) == 0) {
    return Lose(Message());
  }
  HAPMOE_RETURN_IF_ERROR(Send(deadline));
  // One result, then null.
  HAPMOE_ASSIGN_OR_RETURN(pg_result * result, Receive(deadline));
  PostgresqlRows rows(result);
  for (;;) {
    HAPMOE_ASSIGN_OR_RETURN(pg_result * more, Receive(deadline));
    if (more == nullptr) break;
    PQclear(more);
  }
  const ExecStatusType status = PQresultStatus(result);
  if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK) return rows;
  const char* const field = PQresultErrorField(result, PG_DIAG_SQLSTATE);
  const char* const text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
  const std::string state = field == nullptr ? "" : field;
  const std::string message = text == nullptr ? Message() : text;
  if (PQstatus(connection_) == CONNECTION_BAD || EndsConnection(state)) return Lose(message);
  return ToStatus(state, absl::StrCat("PostgreSQL: ", message, " (", state, ")"));
}

bool PostgresqlConnection::AwaitNotification(TimePoint deadline) {
  bool found = false;
  while (!lost_) {
    if (PQconsumeInput(connection_) == 0) {
      (void)Lose(Message());
      break;
    }
    while (PGnotify* const notification = PQnotifies(connection_)) {
      PQfreemem(notification);
      found = true;
    }
    if (found || Await(/*read=*/true, /*write=*/false, deadline) != Event::kReady) break;
  }
  return found;
}

}  // namespace hapmoe::server
