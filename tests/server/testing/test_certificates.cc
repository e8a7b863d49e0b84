#include "tests/server/testing/test_certificates.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace hapmoe::server {
namespace {

constexpr char kKey[] = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";

void Run(const std::string& directory, const std::string& arguments) {
  const std::string command = absl::StrCat("cd '", directory, "' && openssl ", arguments,
                                           " >log 2>&1 || { cat log; exit 1; }");
  if (std::system(command.c_str()) == 0) return;
  std::fprintf(stderr, "failed: openssl %s\n", arguments.c_str());
  std::abort();
}

}  // namespace

TestCertificates::TestCertificates() {
  Run(directory_.path(),
      absl::StrCat("req -x509 ", kKey, " -keyout ca.key -out ca.pem -days 2 -subj /CN=issuer"));
}

void TestCertificates::Issue(const std::string& name, const std::string& alternative_names,
                             int days) {
  const std::string& directory = directory_.path();
  Run(directory, absl::StrCat("req ", kKey, " -keyout new.key -out new.csr -subj /CN=", name));
  std::ofstream(Path("extensions")) << "subjectAltName=" << alternative_names << "\n";
  Run(directory, absl::StrCat("x509 -req -in new.csr -CA ca.pem -CAkey ca.key -days ", days,
                              " -extfile extensions -out new.pem"));
  for (const char* suffix : {"key", "pem"}) {
    std::rename(Path(absl::StrCat("new.", suffix)).c_str(),
                Path(absl::StrCat(name, ".", suffix)).c_str());
  }
}

}  // namespace hapmoe::server
