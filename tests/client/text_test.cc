#include "client/text.h"

#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace hapmoe::client {
namespace {

TEST(TextTest, SecondsHaveFourDigitsInTheUnitThatSuits) {
  const std::vector<std::pair<double, std::string>> cases = {
      {0, "0 s"},          {5.4321, "5.432 s"},   {54.321, "54.32 s"},    {543.21, "543.2 s"},
      {5432.1, "5432 s"},  {0.54321, "543.2 ms"}, {0.012345, "12.35 ms"}, {0.001, "1.000 ms"},
      {85e-6, "85.00 us"}, {-2.5, "-2.500 s"},
  };
  for (const auto& [seconds, text] : cases) EXPECT_EQ(SecondsText(seconds), text) << seconds;
}

TEST(TextTest, CountsAreGrouped) {
  EXPECT_EQ(CountText(0), "0");
  EXPECT_EQ(CountText(999), "999");
  EXPECT_EQ(CountText(1000), "1,000");
  EXPECT_EQ(CountText(-123456), "-123,456");
  EXPECT_EQ(CountText(1234567890), "1,234,567,890");
}

TEST(TextTest, BytesAndShares) {
  EXPECT_EQ(GibibytesText(80.0 * 1024 * 1024 * 1024), "80.00");
  EXPECT_EQ(PercentText(0.4213), "42.1 %");
}

TEST(TextTest, PrintableLeavesNoWayToMoveTheCursor) {
  EXPECT_EQ(Printable("plain \xc3\xbc"), "plain \xc3\xbc");
  EXPECT_EQ(Printable("a\x1b[2Jb\r\n\x7f"), "a\\x1b[2Jb\\x0d\\x0a\\x7f");
}

TEST(TextTest, NearestWordIsNearOrNothing) {
  const std::vector<std::string> words = {"--deadline", "--headroom", "--tp"};
  EXPECT_EQ(NearestWord("--dedline", words), "--deadline");
  EXPECT_EQ(NearestWord("--headrom", words), "--headroom");
  EXPECT_EQ(NearestWord("--something-else", words), "");
  EXPECT_EQ(NearestWord("x", {}), "");
}

TEST(TextTest, ColumnsAreAlignedAndLinesHaveNoTrailingSpaces) {
  TextTable table({TextTable::Align::kLeft, TextTable::Align::kRight, TextTable::Align::kLeft});
  table.AddRow({"Name", "N", "Note"});
  table.AddRow({"a", "100", ""});
  table.AddRow({"longer", "5"});
  EXPECT_EQ(table.Render(1),
            " Name      N  Note\n"
            " a       100\n"
            " longer    5\n");
}

}  // namespace
}  // namespace hapmoe::client
