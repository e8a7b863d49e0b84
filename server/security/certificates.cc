#include "server/security/certificates.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <fstream>
#include <memory>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/status_macros.h"

namespace hapmoe::server {
namespace {

template <auto kFree>
struct Free {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using Bio = std::unique_ptr<BIO, Free<BIO_free_all>>;
using Certificate = std::unique_ptr<X509, Free<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;

absl::Status Refuse(const std::string& file, absl::string_view what) {
  ERR_clear_error();
  return absl::InvalidArgumentError(absl::StrCat(file, " ", what));
}

absl::StatusOr<std::string> ReadFile(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();  // Iterators would throw at a directory.
  if (text.str().empty()) return Refuse(file, "cannot be read, or is empty");
  return text.str();
}

Bio Over(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

absl::StatusOr<Certificate> ParseCertificate(const std::string& text, const std::string& file) {
  Certificate certificate(PEM_read_bio_X509(Over(text).get(), nullptr, nullptr, nullptr));
  if (certificate == nullptr) return Refuse(file, "holds no PEM certificate");
  return certificate;
}

absl::StatusOr<Key> ParseKey(const std::string& text, const std::string& file) {
  // Without this, OpenSSL would ask the terminal for the password.
  const auto no_password = [](char*, int, int, void*) { return -1; };
  Key key(PEM_read_bio_PrivateKey(Over(text).get(), nullptr, no_password, nullptr));
  if (key == nullptr) return Refuse(file, "holds no PEM private key, or one with a password");
  return key;
}

absl::StatusOr<absl::Time> ExpiryOf(const Certificate& certificate, const std::string& file) {
  tm civil = {};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate.get()), &civil) != 1) {
    return Refuse(file, "holds a certificate whose end cannot be read");
  }
  return absl::FromTM(civil, absl::UTCTimeZone());
}

}  // namespace

absl::StatusOr<TlsTexts> ReadTlsFiles(const TlsFiles& files, absl::Time now) {
  if (files.certificate.empty() || files.key.empty()) {
    return absl::InvalidArgumentError("TLS needs both a certificate and its private key");
  }
  TlsTexts texts;
  HAPMOE_ASSIGN_OR_RETURN(texts.certificate, ReadFile(files.certificate));
  HAPMOE_ASSIGN_OR_RETURN(texts.key, ReadFile(files.key));
  HAPMOE_ASSIGN_OR_RETURN(const Certificate certificate,
                          ParseCertificate(texts.certificate, files.certificate));
  HAPMOE_ASSIGN_OR_RETURN(const Key key, ParseKey(texts.key, files.key));
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    return Refuse(files.key, absl::StrCat("is not the private key of ", files.certificate));
  }
  HAPMOE_ASSIGN_OR_RETURN(texts.expiry, ExpiryOf(certificate, files.certificate));
  if (texts.expiry <= now) {
    return Refuse(files.certificate,
                  absl::StrCat("has expired on ", absl::FormatTime(texts.expiry)));
  }
  if (files.client_ca.empty()) return texts;
  HAPMOE_ASSIGN_OR_RETURN(texts.client_ca, ReadFile(files.client_ca));
  HAPMOE_RETURN_IF_ERROR(ParseCertificate(texts.client_ca, files.client_ca).status());
  return texts;
}

}  // namespace hapmoe::server
