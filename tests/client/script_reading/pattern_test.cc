#include "client/script_reading/pattern.h"

#include "gtest/gtest.h"

namespace hapmoe::client::shell {
namespace {

TEST(PatternTest, Matches) {
  struct Case {
    const char* pattern;
    const char* text;
    bool matches;
  };
  for (const Case& each : {Case{"", "", true},
                           {"*", "", true},
                           {"a*c", "abbc", true},
                           {"a*c", "abbd", false},
                           {"?", "", false},
                           {"[a-c]x", "bx", true},
                           {"[!a-c]x", "bx", false},
                           {"[]]", "]", true},
                           {"[[:digit:]]*", "7b", true},
                           {"[abc", "[abc", true},
                           {"\\*", "*", true},
                           {"\\*", "x", false},
                           {"*a*b*c*", "xxaxxbxxcxx", true},
                           {"a-b", "a-b", true}}) {
    EXPECT_EQ(MatchesPattern(each.pattern, each.text), each.matches)
        << each.pattern << " " << each.text;
  }
}

TEST(PatternTest, KnowsPatterns) {
  EXPECT_TRUE(IsPattern("a*"));
  EXPECT_TRUE(IsPattern("[0]"));
  EXPECT_FALSE(IsPattern("a\\*[b"));
}

TEST(PatternTest, RemovesTheShortestOrTheLongest) {
  EXPECT_EQ(RemoveMatch("a.b.c", "*.", "#"), "b.c");
  EXPECT_EQ(RemoveMatch("a.b.c", "*.", "##"), "c");
  EXPECT_EQ(RemoveMatch("a.b.c", ".*", "%"), "a.b");
  EXPECT_EQ(RemoveMatch("a.b.c", ".*", "%%"), "a");
  EXPECT_EQ(RemoveMatch("abc", "x", "#"), "abc");
}

TEST(PatternTest, ReplacesTheLongest) {
  EXPECT_EQ(ReplaceMatches("aXbXc", "X", "-", "/"), "a-bXc");
  EXPECT_EQ(ReplaceMatches("aXbXc", "X", "-", "//"), "a-b-c");
  EXPECT_EQ(ReplaceMatches("aXbXc", "X*", "-", "//"), "a-");
  EXPECT_EQ(ReplaceMatches("abca", "a", "-", "/#"), "-bca");
  EXPECT_EQ(ReplaceMatches("abca", "a", "-", "/%"), "abc-");
  EXPECT_EQ(ReplaceMatches("abc", "", "-", "//"), "abc");
  EXPECT_EQ(ReplaceMatches("abc", "", "--", "/#"), "--abc");
  EXPECT_EQ(ReplaceMatches("abc", "", "-", "/%"), "abc-");
}

}  // namespace
}  // namespace hapmoe::client::shell
