// List expressions have the value that Python gives them.
#include "core/engine/layer_pattern.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hapmoe::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;

TEST(EvaluateLayerPattern, JoinsAndRepeats) {
  EXPECT_THAT(EvaluateLayerPattern("[0,1]"), Optional(ElementsAre(0, 1)));
  EXPECT_THAT(EvaluateLayerPattern("[0]*2+[1]*3"), Optional(ElementsAre(0, 0, 1, 1, 1)));
  EXPECT_THAT(EvaluateLayerPattern("([1]*2+[0])*2"), Optional(ElementsAre(1, 1, 0, 1, 1, 0)));
  EXPECT_THAT(EvaluateLayerPattern("2*[1]"), Optional(ElementsAre(1, 1)));
  EXPECT_THAT(EvaluateLayerPattern("[1]*(1+2)"), Optional(ElementsAre(1, 1, 1)));
  EXPECT_THAT(EvaluateLayerPattern("[1,]*2"), Optional(ElementsAre(1, 1)));
  EXPECT_THAT(EvaluateLayerPattern("[1]*0"), Optional(IsEmpty()));
  EXPECT_THAT(EvaluateLayerPattern("[1+2*3]"), Optional(ElementsAre(7)));
}

TEST(EvaluateLayerPattern, RefusesWhatIsNoFlatList) {
  for (const char* text : {"",        "1",      "1+2",  "[",      "[1",     "[1]]",  "[1]+1",
                           "[1]*[2]", "[1]**2", "[,]",  "[1 ,0]", "[[1]]",  "([1]",  "[-1]",
                           "[01]",    "[a]",    "[1]+", "()",     "[1](2)", "[1][0]"}) {
    EXPECT_EQ(EvaluateLayerPattern(text), std::nullopt) << text;
  }
}

TEST(EvaluateLayerPattern, BoundsWhatItBuilds) {
  EXPECT_TRUE(EvaluateLayerPattern("[0]*10000").has_value());
  EXPECT_FALSE(EvaluateLayerPattern("[0]*10001").has_value());
  EXPECT_FALSE(EvaluateLayerPattern("[0]*9999+[0]*2").has_value());
  EXPECT_FALSE(EvaluateLayerPattern("([0]*1000)*1000*1000*1000").has_value());
  EXPECT_FALSE(EvaluateLayerPattern("[0]*99999999999999999999999").has_value());
  EXPECT_FALSE(EvaluateLayerPattern(std::string(100000, '(')).has_value());
  EXPECT_FALSE(EvaluateLayerPattern(std::string(50, '(') + "[0]" + std::string(50, ')')));
  EXPECT_FALSE(EvaluateLayerPattern(std::string(1000, '[')).has_value());
}

}  // namespace
}  // namespace hapmoe::engine
