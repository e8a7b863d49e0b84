// Who may change profiles and reports.
#ifndef HAPMOE_SERVER_SECURITY_WRITERS_H_
#define HAPMOE_SERVER_SECURITY_WRITERS_H_

#include <grpcpp/security/auth_context.h>

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace hapmoe::server {

// Immutable: thread safe.
class Writers {
 public:
  // Names as certificates of clients have them: an alternative name (host, address or URI), or the
  // common name. None: every client that gets through may write.
  explicit Writers(std::vector<std::string> names) : names_(std::move(names)) {}

  // OK, or NOT_PERMITTED with the names that the client showed. `context` may be null: no names.
  absl::Status Check(const grpc::AuthContext* context) const;

 private:
  const std::vector<std::string> names_;
};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_SECURITY_WRITERS_H_
