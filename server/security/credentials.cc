#include "server/security/credentials.h"

#include <grpc/grpc.h>

#include <utility>

#include "absl/time/clock.h"
#include "core/base/status_macros.h"
#include "server/log/log.h"

namespace hapmoe::server {
namespace {

// gRPC's own class for credentials that it is asked for anew is not among those that it shows.
class FetchedCredentials : public grpc::ServerCredentials {
 public:
  FetchedCredentials(grpc_ssl_client_certificate_request_type request,
                     grpc_ssl_server_certificate_config_callback fetch, void* argument)
      : credentials_(grpc_ssl_server_credentials_create_with_options(
            grpc_ssl_server_credentials_create_options_using_config_fetcher(request, fetch,
                                                                            argument))) {}
  ~FetchedCredentials() override { grpc_server_credentials_release(credentials_); }

  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  grpc_server_credentials* const credentials_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TlsCredentials>> TlsCredentials::Open(const TlsFiles& files) {
  HAPMOE_ASSIGN_OR_RETURN(TlsTexts texts, ReadTlsFiles(files, absl::Now()));
  return std::unique_ptr<TlsCredentials>(new TlsCredentials(files, std::move(texts)));
}

std::shared_ptr<grpc::ServerCredentials> TlsCredentials::ForServer() {
  return std::make_shared<FetchedCredentials>(
      files_.client_ca.empty() ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                               : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY,
      &TlsCredentials::Fetch, this);
}

absl::Time TlsCredentials::expiry() const {
  MutexLock lock(mutex_);
  return texts_.expiry;
}

grpc_ssl_certificate_config_reload_status TlsCredentials::Fetch(
    void* credentials, grpc_ssl_server_certificate_config** config) {
  TlsCredentials& self = *static_cast<TlsCredentials*>(credentials);
  MutexLock lock(self.mutex_);
  const auto now = std::chrono::steady_clock::now();
  if (now - self.looked_ >= self.files_.refresh) {
    self.looked_ = now;
    absl::StatusOr<TlsTexts> texts = ReadTlsFiles(self.files_, absl::Now());
    const std::string fault(texts.status().message());
    if (fault != self.fault_ && !fault.empty()) {
      LogLine(Severity::kError, "certificate_refused").Add("message", fault);
    }
    self.fault_ = fault;
    if (texts.ok() && *texts != self.texts_) {
      LogLine(Severity::kInfo, "certificate_taken").Add("expiry", absl::FormatTime(texts->expiry));
      self.texts_ = *std::move(texts);
      self.told_ = false;
    }
  }
  if (self.told_) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
  const grpc_ssl_pem_key_cert_pair pair = {self.texts_.key.c_str(),
                                           self.texts_.certificate.c_str()};
  // gRPC wants issuers of clients also where it asks no client for a certificate.
  const std::string& issuers =
      self.texts_.client_ca.empty() ? self.texts_.certificate : self.texts_.client_ca;
  *config = grpc_ssl_server_certificate_config_create(issuers.c_str(), &pair, 1);
  self.told_ = true;
  return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
}

}  // namespace hapmoe::server
