#include "server/security/certificates.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/testing/test_certificates.h"

namespace hapmoe::server {
namespace {

using ::testing::HasSubstr;

class CertificatesTest : public ::testing::Test {
 protected:
  CertificatesTest() {
    certificates_.Issue("server", "DNS:localhost");
    certificates_.Issue("other", "DNS:localhost");
    files_ = {certificates_.Path("server.pem"), certificates_.Path("server.key"),
              certificates_.ca()};
    std::ofstream(certificates_.Path("empty"));
    std::ofstream(certificates_.Path("text")) << "-----BEGIN CERTIFICATE-----\nAAAA\n";
  }

  std::string Fault(absl::Time now = absl::Now()) const {
    const absl::Status status = ReadTlsFiles(files_, now).status();
    EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  }

  TestCertificates certificates_;
  TlsFiles files_;
};

TEST_F(CertificatesTest, FilesThatBelongTogetherAreTaken) {
  EXPECT_EQ(Fault(), "");
  files_.client_ca.clear();
  EXPECT_EQ(Fault(), "");
}

TEST_F(CertificatesTest, EveryFaultIsNamed) {
  const TlsFiles good = files_;
  files_.key.clear();
  EXPECT_THAT(Fault(), HasSubstr("both a certificate and its private key"));
  files_ = {"", "", good.client_ca};
  EXPECT_THAT(Fault(), HasSubstr("both a certificate and its private key"));
  for (const char* name : {"none", "empty", "text", "."}) {
    const std::string file = certificates_.Path(name);
    SCOPED_TRACE(file);
    files_ = good;
    files_.certificate = file;
    EXPECT_THAT(Fault(), HasSubstr(file + " "));
    files_ = good;
    files_.key = file;
    EXPECT_THAT(Fault(), HasSubstr(file + " "));
    files_ = good;
    files_.client_ca = file;
    EXPECT_THAT(Fault(), HasSubstr(file + " "));
  }
  files_ = good;
  files_.key = certificates_.Path("other.key");
  EXPECT_THAT(Fault(), HasSubstr("is not the private key of "));
}

TEST_F(CertificatesTest, TheEndIsKnown) {
  const absl::StatusOr<TlsTexts> texts = ReadTlsFiles(files_, absl::Now());
  ASSERT_TRUE(texts.ok()) << texts.status();
  EXPECT_GT(texts->expiry, absl::Now() + absl::Hours(47));
  EXPECT_LE(texts->expiry, absl::Now() + absl::Hours(48));
  EXPECT_EQ(Fault(texts->expiry - absl::Seconds(1)), "");
  EXPECT_THAT(Fault(texts->expiry), HasSubstr("has expired on"));
}

}  // namespace
}  // namespace hapmoe::server
