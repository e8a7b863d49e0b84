// Chooses a storage.
#ifndef HAPMOE_SERVER_STORAGE_OPEN_STORAGE_H_
#define HAPMOE_SERVER_STORAGE_OPEN_STORAGE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/storage/record_storage.h"

namespace hapmoe::server {

// `store` is "memory:", "sqlite:PATH", a PostgreSQL URI, or empty: then an SQLite file in the state
// directory where there is one, otherwise memory.
// InvalidArgument: it is none of these. Other errors: the storage cannot be used now; the message
// holds no password.
absl::StatusOr<std::unique_ptr<RecordStorage>> OpenStorage(const std::string& store,
                                                           const std::string& state_dir);

// What OpenStorage opens, for a log: where it is, without passwords.
std::string DescribeStorage(const std::string& store, const std::string& state_dir);

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_STORAGE_OPEN_STORAGE_H_
