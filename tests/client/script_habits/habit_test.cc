#include "tests/client/script_habits/habit.h"

#include "absl/strings/str_join.h"
#include "gmock/gmock.h"

namespace hapmoe::client {
namespace {

using ::testing::HasSubstr;

std::vector<std::vector<std::string>> Found(const ScriptRun& run) {
  std::vector<std::vector<std::string>> launches;
  for (const Launch& launch : run.launches) {
    launches.push_back({launch.entry});
    launches.back().insert(launches.back().end(), launch.arguments.begin(), launch.arguments.end());
  }
  return launches;
}

}  // namespace

void PrintTo(const Habit& habit, std::ostream* out) { *out << habit.script; }

std::string HabitName(const ::testing::TestParamInfo<Habit>& info) { return info.param.name; }

ScriptHabitTest::ScriptHabitTest() {
  request_.arguments = GetParam().arguments;
  request_.environment = GetParam().environment;
  for (const auto& [name, text] : GetParam().files) Write(name, text);
}

void ScriptHabitTest::Check(const ScriptRun& run) const {
  const Habit& habit = GetParam();
  EXPECT_EQ(Found(run), habit.launches) << absl::StrJoin(run.notes, "\n");
  if (run.launches.empty() || habit.world_size < 0) return;
  EXPECT_EQ(run.launches[0].world_size.value_or(0), habit.world_size);
}

TEST_P(ScriptHabitTest, IsRead) {
  const absl::StatusOr<ScriptRun> run = ReadStatically(GetParam().script);
  if (*GetParam().uncertain != 0) {
    ASSERT_FALSE(run.ok());
    EXPECT_THAT(std::string(run.status().message()), HasSubstr(GetParam().uncertain));
    EXPECT_THAT(std::string(run.status().message()), HasSubstr("job.sh:"));
    return;
  }
  ASSERT_TRUE(run.ok()) << run.status();
  Check(*run);
}

// And the oracle: whatever both can read, they read alike, also environments and launchers' words.
TEST_P(ScriptHabitTest, IsSeenInTheSandbox) {
  static const bool has_sandbox = HasSandbox();
  if (!has_sandbox) GTEST_SKIP() << "no sandbox";
  const absl::StatusOr<ScriptRun> run = RunInSandbox(GetParam().script);
  ASSERT_TRUE(run.ok()) << run.status();
  Check(*run);
  const absl::StatusOr<ScriptRun> read = ReadStatically(GetParam().script);
  if (!read.ok()) return;
  ASSERT_EQ(read->launches.size(), run->launches.size());
  for (size_t i = 0; i < run->launches.size(); ++i) {
    EXPECT_EQ(LaunchJson(read->launches[i], ""), LaunchJson(run->launches[i], ""));
  }
}

}  // namespace hapmoe::client
