#include "client/channel_security.h"

#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"

namespace hapmoe::client {
namespace {

// An empty name gives an empty text.
absl::Status Read(const std::string& name, std::string& text) {
  if (name.empty()) return absl::OkStatus();
  std::ostringstream read;
  read << std::ifstream(name, std::ios::binary).rdbuf();  // Iterators would throw at a directory.
  text = read.str();
  // gRPC would take nothing for the machine's own issuers.
  if (!text.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " cannot be read, or is empty"));
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> CredentialsOf(
    const ChannelSecurity& security) {
  if (!security.enabled()) return grpc::InsecureChannelCredentials();
  if (security.certificate.empty() != security.key.empty()) {
    return absl::InvalidArgumentError("--tls-cert and --tls-key belong together");
  }
  grpc::SslCredentialsOptions options;
  for (const auto& [name, text] : {std::pair{&security.ca, &options.pem_root_certs},
                                   {&security.certificate, &options.pem_cert_chain},
                                   {&security.key, &options.pem_private_key}}) {
    if (absl::Status status = Read(*name, *text); !status.ok()) return status;
  }
  return grpc::SslCredentials(options);
}

}  // namespace hapmoe::client
