#include "server/storage/open_storage.h"

#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/testing/temporary_directory.h"

namespace hapmoe::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(OpenStorage, TakesAFileOfTheStateDirectoryWhereNothingIsSaid) {
  const TemporaryDirectory directory;
  ASSERT_TRUE(OpenStorage("", directory.path()).ok());
  EXPECT_TRUE(std::filesystem::exists(directory.path() + "/hapmoe.db"));
  EXPECT_EQ(DescribeStorage("", directory.path()), "sqlite:" + directory.path() + "/hapmoe.db");
  EXPECT_TRUE(OpenStorage("", "").ok());
  EXPECT_EQ(DescribeStorage("", ""), "memory:");
}

TEST(OpenStorage, TakesWhatIsSaid) {
  const TemporaryDirectory directory;
  ASSERT_TRUE(OpenStorage("sqlite:" + directory.path() + "/a.db", "/nowhere").ok());
  EXPECT_TRUE(std::filesystem::exists(directory.path() + "/a.db"));
  ASSERT_TRUE(OpenStorage("memory:", "/nowhere").ok());
}

struct Uri {
  const char* uri;
  const char* described;
};

class Uris : public testing::TestWithParam<Uri> {};

TEST_P(Uris, AreDescribedWithoutSecrets) {
  EXPECT_EQ(DescribeStorage(GetParam().uri, ""), GetParam().described);
  EXPECT_THAT(DescribeStorage(GetParam().uri, ""), Not(HasSubstr("secret")));
  const absl::Status status = OpenStorage(GetParam().uri, "").status();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("secret")));
}

// Port 1 of this machine: nobody listens.
INSTANTIATE_TEST_SUITE_P(
    Postgresql, Uris,
    testing::Values(Uri{"postgresql://me:secret@127.0.0.1:1/plans",
                        "postgresql://me@127.0.0.1:1/plans"},
                    Uri{"postgres://127.0.0.1:1/plans?user=me&password=secret",
                        "postgresql://me@127.0.0.1:1/plans"},
                    Uri{"postgresql://127.0.0.1:1/plans?user=me&pass%77ord=secret",
                        "postgresql://me@127.0.0.1:1/plans"},
                    Uri{"postgresql:///plans?host=/no/where&user=me&sslpassword=secret",
                        "postgresql://me@/no/where/plans"},
                    // Not URIs.
                    Uri{"postgresql://me:secret%zz@127.0.0.1:1/plans", "postgresql: (not a URI)"},
                    Uri{"mysql://me:secret@127.0.0.1:1/plans", "unknown"}, Uri{"secret", "unknown"},
                    Uri{"sqlite:", "sqlite:"}));

TEST(OpenStorage, RefusesWhatItDoesNotKnow) {
  for (const char* store :
       {"mysql://host/plans", "memory", "sqlite:", "/path", "postgresql://%zz"}) {
    EXPECT_EQ(OpenStorage(store, "").status().code(), absl::StatusCode::kInvalidArgument) << store;
  }
}

}  // namespace
}  // namespace hapmoe::server
