// What people write in launch scripts, each habit in a script of its own, read both ways: by
// running it in the sandbox, and without running it. Both must find the very launches.
//
// Each file of this directory holds the habits of one theme; habit_test.cc holds the tests.
#ifndef HAPMOE_TESTS_CLIENT_SCRIPT_HABITS_HABIT_H_
#define HAPMOE_TESTS_CLIENT_SCRIPT_HABITS_HABIT_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/client/script_fixture.h"

namespace hapmoe::client {

struct Habit {
  const char* name = "";
  const char* script = "";
  // Each launch: its entry, then its arguments.
  std::vector<std::vector<std::string>> launches = {{"t.py", "--a", "1", "--b"}};
  std::vector<std::string> arguments = {};
  std::vector<std::string> environment = {};
  std::vector<std::pair<std::string, std::string>> files = {};
  // Where only running the script tells: a part of what the static reading says.
  const char* uncertain = "";
  int64_t world_size = 1;  // Of the first launch; 0 where it does not say, -1 for any.
};

// gtest shows a habit by its script, and names a test by its habit.
void PrintTo(const Habit& habit, std::ostream* out);
std::string HabitName(const ::testing::TestParamInfo<Habit>& info);

class ScriptHabitTest : public ::testing::TestWithParam<Habit>, public ScriptFixture {
 protected:
  ScriptHabitTest();

  void Check(const ScriptRun& run) const;
};

}  // namespace hapmoe::client

#endif  // HAPMOE_TESTS_CLIENT_SCRIPT_HABITS_HABIT_H_
