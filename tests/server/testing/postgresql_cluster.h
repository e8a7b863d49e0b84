// A PostgreSQL server of a test's own.
#ifndef HAPMOE_TESTS_SERVER_TESTING_POSTGRESQL_CLUSTER_H_
#define HAPMOE_TESTS_SERVER_TESTING_POSTGRESQL_CLUSTER_H_

#include <sys/types.h>

#include <string>

#include "tests/server/testing/temporary_directory.h"

namespace hapmoe::server {

// Listens on a socket in a temporary directory, and nowhere else. It ends with this object, or with
// the thread that started it. Runs as the user "postgres" where the test runs as root, which
// PostgreSQL refuses. Used by one thread.
class PostgresqlCluster {
 public:
  // Why there can be none here; empty where there can. With HAPMOE_REQUIRE_POSTGRESQL=1 in the
  // environment a reason fails the test.
  static std::string Missing();

  // Ends the test program if it cannot be started.
  PostgresqlCluster();
  ~PostgresqlCluster();

  void Start();
  // As a crash of the machine's processes would end it.
  void Kill();
  // All its processes stop, and hold their connections; then they go on.
  void Pause();
  void Continue();

  // Of a new, empty database.
  std::string NewDatabase();
  // Of a database of this cluster.
  std::string Uri(const std::string& database) const;

 private:
  void SignalAll(int signal) const;

  const TemporaryDirectory directory_;
  const std::string data_ = directory_.path() + "/data";
  pid_t postmaster_ = -1;
  int databases_ = 0;
};

}  // namespace hapmoe::server

// In a test that needs PostgreSQL.
#define HAPMOE_NEED_POSTGRESQL()                                                  \
  if (const std::string missing = ::hapmoe::server::PostgresqlCluster::Missing(); \
      !missing.empty()) {                                                         \
    const char* const required = getenv("HAPMOE_REQUIRE_POSTGRESQL");             \
    ASSERT_FALSE(required != nullptr && std::string(required) == "1") << missing; \
    GTEST_SKIP() << missing;                                                      \
  }                                                                               \
  static_assert(true, "")

#endif  // HAPMOE_TESTS_SERVER_TESTING_POSTGRESQL_CLUSTER_H_
