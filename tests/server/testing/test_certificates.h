// Certificates of a test's own, made by openssl.
#ifndef HAPMOE_TESTS_SERVER_TESTING_TEST_CERTIFICATES_H_
#define HAPMOE_TESTS_SERVER_TESTING_TEST_CERTIFICATES_H_

#include <string>

#include "tests/server/testing/temporary_directory.h"

namespace hapmoe::server {

// An issuer, and what it has issued, in a directory.
class TestCertificates {
 public:
  // Ends the test program where openssl does not do as it is told.
  TestCertificates();

  // Writes NAME.pem and NAME.key: common name `name`, alternative names as openssl takes them,
  // "DNS:localhost,IP:127.0.0.1" for example. Takes the place of one of that name.
  void Issue(const std::string& name, const std::string& alternative_names, int days = 2);

  std::string ca() const { return Path("ca.pem"); }
  std::string Path(const std::string& file) const { return directory_.path() + "/" + file; }

 private:
  TemporaryDirectory directory_;
};

}  // namespace hapmoe::server

#endif  // HAPMOE_TESTS_SERVER_TESTING_TEST_CERTIFICATES_H_
