#include "server/log/log.h"

#include <cmath>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hapmoe::server {
namespace {

using ::testing::EndsWith;
using ::testing::MatchesRegex;

TEST(JsonString, EscapesWhatJsonAndTerminalsCannotTake) {
  EXPECT_EQ(JsonString("plain"), "\"plain\"");
  EXPECT_EQ(JsonString("a\"b\\c"), "\"a\\\"b\\\\c\"");
  EXPECT_EQ(JsonString("\n\x1b[31m\x7f"), "\"\\u000a\\u001b[31m\\u007f\"");
  EXPECT_EQ(JsonString("\xc3\xa9"), "\"\xc3\xa9\"");
  EXPECT_EQ(JsonString("\xc3(\xff\xe2\x82"), "\"\\ufffd(\\ufffd\\ufffd\\ufffd\"");
}

TEST(LogLine, IsOneJsonObject) {
  testing::internal::CaptureStderr();
  LogLine(Severity::kWarning, "event")
      .Add("text", "x")
      .Add("number", 7)
      .Add("flag", true)
      .Add("none", std::nan(""));
  const std::string line = testing::internal::GetCapturedStderr();
  EXPECT_THAT(line, MatchesRegex("\\{\"time\":\"[0-9T:.-]+Z\",\"severity\":\"WARNING\".*\n"));
  EXPECT_THAT(line, EndsWith("\"event\":\"event\",\"text\":\"x\",\"number\":7,\"flag\":true,"
                             "\"none\":null}\n"));
}

}  // namespace
}  // namespace hapmoe::server
