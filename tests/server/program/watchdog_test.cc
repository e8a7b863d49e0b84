#include "server/watchdog.h"

#include <chrono>
#include <thread>

#include "gtest/gtest.h"

namespace hapmoe::server {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(WatchdogDeathTest, EndsAProcessThatDoesNotEnd) {
  EXPECT_EXIT(
      {
        EndProcessAfter(milliseconds(20));
        std::this_thread::sleep_for(seconds(60));
      },
      ::testing::ExitedWithCode(1), "\"event\":\"ended_by_watchdog\",\"after_seconds\":0.02");
}

TEST(WatchdogDeathTest, LeavesAProcessThatEndsAlone) {
  EXPECT_EXIT(
      {
        EndProcessAfter(hours(1));
        exit(3);
      },
      ::testing::ExitedWithCode(3), "^$");
}

}  // namespace
}  // namespace hapmoe::server
