#include "server/profile_store/json_files.h"

#include <sys/stat.h>

#include "gtest/gtest.h"
#include "tests/server/testing/temporary_directory.h"

namespace hapmoe::server {
namespace {

TEST(JsonFiles, RefusesWhatIsNoSmallRegularFile) {
  EXPECT_FALSE(ReadSmallFile("/no/such/file").ok());
  EXPECT_FALSE(ReadSmallFile("/dev/zero").ok());
  EXPECT_FALSE(ReadSmallFile(testing::TempDir()).ok());
  const TemporaryDirectory temporary;
  const std::string pipe_path = temporary.path() + "/pipe";
  ASSERT_EQ(mkfifo(pipe_path.c_str(), 0600), 0);
  EXPECT_FALSE(ReadSmallFile(pipe_path).ok());  // Does not wait for a writer.
}

}  // namespace
}  // namespace hapmoe::server
