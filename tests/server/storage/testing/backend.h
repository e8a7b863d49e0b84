// The storages that a server may run on, each opened empty for a test.
#ifndef HAPMOE_TESTS_SERVER_STORAGE_TESTING_BACKEND_H_
#define HAPMOE_TESTS_SERVER_STORAGE_TESTING_BACKEND_H_

#include <memory>
#include <string>

#include "server/storage/record_storage.h"

namespace hapmoe::server {

// One database.
class Backend {
 public:
  virtual ~Backend() = default;
  // A storage on it, beside those that are open already. Null: it cannot be opened.
  virtual std::unique_ptr<RecordStorage> Open() = 0;
  virtual bool shared() const { return true; }  // Whether another storage sees the same.
  // Runs a statement past the storage, with the table of records for "RECORDS".
  virtual void Execute(const std::string& sql) = 0;
};

// `name`: "Memory", "Sqlite" or "Postgresql".
std::unique_ptr<Backend> MakeBackend(const std::string& name);

}  // namespace hapmoe::server

#endif  // HAPMOE_TESTS_SERVER_STORAGE_TESTING_BACKEND_H_
