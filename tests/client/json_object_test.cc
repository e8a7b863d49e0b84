#include "client/json_object.h"

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace hapmoe::client {
namespace {

TEST(JsonObjectTest, FieldsComeInOrder) {
  EXPECT_EQ(JsonObject().Text(), "{}");
  EXPECT_EQ(JsonObject().AddString("id", "a").AddNumber("x", 1.5).AddBool("fits", true).Text(),
            R"({"id": "a", "x": 1.5, "fits": true})");
}

TEST(JsonObjectTest, StringsAreEscaped) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", R"("")"},
      {"a\"b\\c", R"("a\"b\\c")"},
      {"\n\t\x01\x7f", R"("\u000a\u0009\u0001\u007f")"},
      {"\xc3\xbc \xe2\x82\xac \xf0\x9f\x98\x80", "\"\xc3\xbc \xe2\x82\xac \xf0\x9f\x98\x80\""},
      {"\xff", R"("\ufffd")"},
      {"\xc0\xaf", R"("\ufffd\ufffd")"},                      // Overlong.
      {"\xed\xa0\x80", R"("\ufffd\ufffd\ufffd")"},            // A surrogate.
      {"\xe2\x82", R"("\ufffd\ufffd")"},                      // Cut short.
      {"\xf4\x90\x80\x80", R"("\ufffd\ufffd\ufffd\ufffd")"},  // Beyond U+10FFFF.
  };
  for (const auto& [text, json] : cases) EXPECT_EQ(JsonString(text), json);
}

TEST(JsonObjectTest, NumbersReadBackExactly) {
  EXPECT_EQ(JsonNumber(0.1), "0.1");
  EXPECT_EQ(JsonNumber(1e300), "1e+300");
  EXPECT_EQ(JsonNumber(std::nan("")), "null");
  EXPECT_EQ(JsonNumber(std::numeric_limits<double>::infinity()), "null");
  constexpr unsigned kSeed = 7;
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 1000; ++i) {
    const double value = std::ldexp(std::uniform_real_distribution<double>(-1, 1)(random),
                                    std::uniform_int_distribution<int>(-60, 60)(random));
    EXPECT_EQ(std::stod(JsonNumber(value)), value) << "seed " << kSeed;
  }
}

}  // namespace
}  // namespace hapmoe::client
