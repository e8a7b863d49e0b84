#include "client/router_stats_file.h"

#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hapmoe::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(RouterStatsFileTest, ReadsOneListOfCountsForEachLayer) {
  const auto statistics = ParseRouterStatistics("stats.json", "[[120, 0, 97], [1, 2, 3e6]]");
  ASSERT_TRUE(statistics.ok()) << statistics.status();
  ASSERT_EQ(statistics->layers_size(), 2);
  EXPECT_THAT(statistics->layers(0).expert_tokens(), ElementsAre(120, 0, 97));
  EXPECT_THAT(statistics->layers(1).expert_tokens(), ElementsAre(1, 2, 3000000));
}

TEST(RouterStatsFileTest, AFaultIsASentenceThatSaysWhere) {
  for (const auto& [text, what] :
       {std::pair{"[[1, 2", "not JSON"},
        {"{\"layers\": []}", "must be a list with one list of token counts"},
        {"[]", "must be a list with one list of token counts"},
        {"[[1], 2]", "layer 1 must be a list of the tokens of each expert"},
        {"[[1], []]", "layer 1 must be a list of the tokens of each expert"},
        {"[[1, 2], [3, -4]]", "layer 1, expert 1: must be a whole number of tokens"},
        {"[[1, 0.5]]", "layer 0, expert 1: must be a whole number"},
        {"[[1e300]]", "layer 0, expert 0: must be a whole number"},
        {"[[\"7\"]]", "layer 0, expert 0: must be a whole number"}}) {
    const auto statistics = ParseRouterStatistics("stats.json", text);
    ASSERT_FALSE(statistics.ok()) << text;
    EXPECT_THAT(std::string(statistics.status().message()), HasSubstr("stats.json: ")) << text;
    EXPECT_THAT(std::string(statistics.status().message()), HasSubstr(what)) << text;
  }
}

}  // namespace
}  // namespace hapmoe::client
