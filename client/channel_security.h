// How the connection to the planner is protected.
#ifndef HAPMOE_CLIENT_CHANNEL_SECURITY_H_
#define HAPMOE_CLIENT_CHANNEL_SECURITY_H_

#include <grpcpp/security/credentials.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace hapmoe::client {

struct ChannelSecurity {
  bool tls = false;         // Also where one of the files is named.
  std::string ca;           // PEM file of the issuers that are trusted; empty: the machine's.
  std::string certificate;  // PEM file that says who this client is; empty: nobody.
  std::string key;          // Its private key.
  std::string name;         // What the server's certificate says it is; empty: its address.

  bool enabled() const { return tls || !ca.empty() || !certificate.empty() || !key.empty(); }
};

// Plain text where it is not enabled. InvalidArgument: a file cannot be read, or one of certificate
// and key is missing.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> CredentialsOf(
    const ChannelSecurity& security);

}  // namespace hapmoe::client

#endif  // HAPMOE_CLIENT_CHANNEL_SECURITY_H_
