#include "server/feedback/known_plans.h"

#include <gtest/gtest.h>

#include <string>

namespace hapmoe::server {
namespace {

v1::IterationReport Of(int32_t world_size, size_t bytes = 0) {
  v1::IterationReport ran;
  ran.set_world_size(world_size);
  ran.mutable_job()->set_entry(std::string(bytes, 'x'));
  return ran;
}

TEST(KnownPlans, ForgetsWhatWasUsedLongestAgo) {
  KnownPlans plans(2, 1 << 20);
  plans.Remember("a", Of(1));
  plans.Remember("b", Of(2));
  EXPECT_EQ(plans.Find("a")->world_size(), 1);  // Used after b now.
  plans.Remember("c", Of(3));
  EXPECT_FALSE(plans.Find("b").has_value());
  EXPECT_EQ(plans.Find("a")->world_size(), 1);
  EXPECT_EQ(plans.Find("c")->world_size(), 3);
}

TEST(KnownPlans, HoldsNoMoreBytesThanAllowed) {
  KnownPlans plans(100, 1000);
  plans.Remember("a", Of(1, 600));
  plans.Remember("b", Of(2, 600));
  EXPECT_FALSE(plans.Find("a").has_value());
  EXPECT_TRUE(plans.Find("b").has_value());
  plans.Remember("c", Of(3, 2000));  // Too large for itself: nothing has to go for it.
  EXPECT_FALSE(plans.Find("c").has_value());
  EXPECT_TRUE(plans.Find("b").has_value());
}

TEST(KnownPlans, TheLastOfOneIdHolds) {
  KnownPlans plans(2, 1 << 20);
  plans.Remember("a", Of(1));
  plans.Remember("a", Of(2));
  EXPECT_EQ(plans.Find("a")->world_size(), 2);
}

}  // namespace
}  // namespace hapmoe::server
