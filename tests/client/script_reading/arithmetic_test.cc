#include "client/script_reading/arithmetic.h"

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace hapmoe::client::shell {
namespace {

class ArithmeticTest : public ::testing::Test {
 protected:
  ArithmeticTest() {
    variables_.get = [this](const std::string& name, absl::string_view index) {
      return values_[absl::StrCat(name, index)];
    };
    variables_.set = [this](const std::string& name, absl::string_view index, int64_t value) {
      values_[absl::StrCat(name, index)] = absl::StrCat(value);
    };
  }

  absl::StatusOr<int64_t> Run(absl::string_view text) { return Evaluate(text, variables_); }

  std::map<std::string, std::string> values_;
  ArithmeticVariables variables_;
};

TEST_F(ArithmeticTest, FollowsTheRulesOfC) {
  for (const auto& [text, value] : std::map<std::string, int64_t>{{"", 0},
                                                                  {"1 + 2 * 3", 7},
                                                                  {"(1 + 2) * 3", 9},
                                                                  {"2 ** 3 ** 2", 512},
                                                                  {"7 / 2", 3},
                                                                  {"-7 % 3", -1},
                                                                  {"1 << 4 | 1", 17},
                                                                  {"5 > 3 && 2 < 1", 0},
                                                                  {"!0 + ~0", 0},
                                                                  {"1 ? 2 : 3", 2},
                                                                  {"0x1F + 010", 39},
                                                                  {"2#101", 5},
                                                                  {"1, 2", 2},
                                                                  {"3 != 3", 0},
                                                                  {"0 || 1 && 0", 0},
                                                                  {"- -1", 1},
                                                                  {"6 ^ 3", 5},
                                                                  {"9 >= 9", 1},
                                                                  {"unset + 1", 1}}) {
    const absl::StatusOr<int64_t> result = Run(text);
    ASSERT_TRUE(result.ok()) << text << ": " << result.status();
    EXPECT_EQ(*result, value) << text;
  }
}

TEST_F(ArithmeticTest, ReadsAndSetsVariables) {
  values_ = {{"a", "3"}, {"b", "a + 1"}, {"c2", "7"}};
  EXPECT_EQ(*Run("a * b"), 12);
  EXPECT_EQ(*Run("c[2]"), 7);
  EXPECT_EQ(*Run("a++ + ++a"), 8);  // 3, then 5.
  EXPECT_EQ(*Run("d = a += 2"), 7);
  EXPECT_EQ(values_["d"], "7");
  // What is not looked at is not done.
  EXPECT_EQ(*Run("0 && (d = 1)"), 0);
  EXPECT_EQ(*Run("1 ? 5 : (d = 1)"), 5);
  EXPECT_EQ(values_["d"], "7");
}

TEST_F(ArithmeticTest, RefusesTheRest) {
  values_ = {{"x", "x"}, {"y", "1.5"}};
  for (const char* text :
       {"1 /0", "1 +", "(1", "x", "y", "08", "1 2", "$", "2#3", "++1", "2 ** -1"}) {
    EXPECT_FALSE(Run(text).ok()) << text;
  }
}

}  // namespace
}  // namespace hapmoe::client::shell
