// Certificates that follow their files.
#ifndef HAPMOE_SERVER_SECURITY_CREDENTIALS_H_
#define HAPMOE_SERVER_SECURITY_CREDENTIALS_H_

#include <grpc/grpc_security.h>
#include <grpcpp/security/server_credentials.h>

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "server/security/certificates.h"

namespace hapmoe::server {

// What a server serves TLS with. Connections that begin after the files have changed, by `refresh`
// at most, use what they hold then. Files with a fault leave what was, which is told in the log:
// so does a certificate that is there before its key.
//
// Thread safe.
class TlsCredentials {
 public:
  // Errors as ReadTlsFiles.
  static absl::StatusOr<std::unique_ptr<TlsCredentials>> Open(const TlsFiles& files);
  TlsCredentials(const TlsCredentials&) = delete;
  TlsCredentials& operator=(const TlsCredentials&) = delete;

  // For one server, which must end before this does.
  std::shared_ptr<grpc::ServerCredentials> ForServer();

  // When the certificate in use ends.
  absl::Time expiry() const;

 private:
  TlsCredentials(const TlsFiles& files, TlsTexts texts) : files_(files), texts_(std::move(texts)) {}

  // What gRPC asks for before every handshake.
  static grpc_ssl_certificate_config_reload_status Fetch(
      void* credentials, grpc_ssl_server_certificate_config** config);

  const TlsFiles files_;
  mutable Mutex mutex_;
  TlsTexts texts_ ABSL_GUARDED_BY(mutex_);
  bool told_ ABSL_GUARDED_BY(mutex_) = false;  // gRPC has texts_.
  std::chrono::steady_clock::time_point looked_ ABSL_GUARDED_BY(mutex_) =
      std::chrono::steady_clock::now();
  std::string fault_ ABSL_GUARDED_BY(mutex_);  // Of the files, as it was told last.
};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_SECURITY_CREDENTIALS_H_
