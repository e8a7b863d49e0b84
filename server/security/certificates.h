// The files that TLS needs, and whether they are what they should be.
#ifndef HAPMOE_SERVER_SECURITY_CERTIFICATES_H_
#define HAPMOE_SERVER_SECURITY_CERTIFICATES_H_

#include <chrono>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace hapmoe::server {

// Names of PEM files.
struct TlsFiles {
  std::string certificate;  // The server's, then those that lead to its issuer. Empty: no TLS.
  std::string key;          // Its private key.
  // Issuers of the certificates that every client must show. Empty: clients show none.
  std::string client_ca;
  std::chrono::seconds refresh{10};  // How often the files are looked at again; at least 1 s.

  bool enabled() const { return !certificate.empty() || !key.empty() || !client_ca.empty(); }
};

// What the files hold.
struct TlsTexts {
  std::string certificate;
  std::string key;
  std::string client_ca;
  absl::Time expiry;  // When the certificate ends.

  bool operator==(const TlsTexts&) const = default;
};

// Reads files that are to be served with. InvalidArgument names the file: it is missing or no PEM,
// the key is another certificate's, or the certificate has expired.
absl::StatusOr<TlsTexts> ReadTlsFiles(const TlsFiles& files, absl::Time now);

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_SECURITY_CERTIFICATES_H_
