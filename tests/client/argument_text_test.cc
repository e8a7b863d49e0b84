#include "client/argument_text.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hapmoe::client {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

struct Reading {
  const char* name;
  std::string text;
  std::vector<std::string> arguments;
};

class ArgumentTextTest : public ::testing::TestWithParam<Reading> {};

TEST_P(ArgumentTextTest, IsRead) {
  const absl::StatusOr<std::vector<std::string>> arguments = ParseArgumentText(GetParam().text);
  ASSERT_TRUE(arguments.ok()) << arguments.status();
  EXPECT_THAT(*arguments, ElementsAreArray(GetParam().arguments));
}

INSTANTIATE_TEST_SUITE_P(
    Readings, ArgumentTextTest,
    ::testing::Values(
        Reading{"Empty", " \n\t", {}},
        Reading{"Words",
                "--num-layers 32\n--bf16\t--lr  1e-4\r\n",
                {"--num-layers", "32", "--bf16", "--lr", "1e-4"}},
        Reading{"SingleQuotes",
                "--layout 'Et*2|(tt|)*5' '$x `y` \\'",
                {"--layout", "Et*2|(tt|)*5", "$x `y` \\"}},
        Reading{"DoubleQuotes", R"(--x "a b" "\"\\\$\n" "")", {"--x", "a b", "\"\\$\\n", ""}},
        Reading{"QuotesInsideOfWords", R"(--a='b c'"d e"f)", {"--a=b cd ef"}},
        Reading{"Backslashes", "a\\ b \\# \\'", {"a b", "#", "'"}},
        Reading{"ContinuedLines", "--a \\\n  --b \"c\\\nd\"", {"--a", "--b", "cd"}},
        Reading{"Comments", "# all\n--a 1 # rest 'of line\n--b#c", {"--a", "1", "--b#c"}},
        Reading{"JsonList", "\n [\"--a\", \"b c\",\n \"\\u00fc\"]\n", {"--a", "b c", "\xc3\xbc"}},
        Reading{"EmptyJsonList", "[]", {}}),
    [](const auto& param) { return std::string(param.param.name); });

struct Refusal {
  const char* name;
  std::string text;
  std::string why;
};

class ArgumentTextRefusalTest : public ::testing::TestWithParam<Refusal> {};

TEST_P(ArgumentTextRefusalTest, IsRefused) {
  const absl::StatusOr<std::vector<std::string>> arguments = ParseArgumentText(GetParam().text);
  ASSERT_FALSE(arguments.ok());
  EXPECT_THAT(std::string(arguments.status().message()), HasSubstr(GetParam().why));
}

INSTANTIATE_TEST_SUITE_P(
    Refusals, ArgumentTextRefusalTest,
    ::testing::Values(Refusal{"Variable", "--a 1\n--save $DIR", "line 2: \"$\" is not expanded"},
                      Refusal{"VariableInQuotes", "\"${DIR}\"", "line 1: \"$\""},
                      Refusal{"Command", "--a `date`", "line 1: \"`\""},
                      Refusal{"OpenQuote", "--a\n'b\nc", "line 2: a quote is not closed"},
                      Refusal{"Nul", std::string("a\0b", 3), "NUL"},
                      Refusal{"JsonNumber", "[\"--a\", 32]", "element 2 of the list"},
                      Refusal{"JsonNested", "[[\"--a\"]]", "element 1 of the list"},
                      Refusal{"NotJson", "[\"--a\"", "not a JSON list"}),
    [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace hapmoe::client
