#include "server/concurrency/fair_queue.h"

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hapmoe::server {
namespace {

using ::testing::ElementsAre;

std::vector<int> Drain(FairQueue<int>& queue) {
  std::vector<int> items;
  while (!queue.empty()) items.push_back(queue.Pop());
  return items;
}

TEST(FairQueueTest, OneCallerIsServedInOrder) {
  FairQueue<int> queue(8);
  for (const int item : {1, 2, 3}) EXPECT_TRUE(queue.Push("a", item));
  EXPECT_THAT(Drain(queue), ElementsAre(1, 2, 3));
}

TEST(FairQueueTest, CallersTakeTurns) {
  FairQueue<int> queue(100);
  for (const int item : {1, 2, 3, 4}) ASSERT_TRUE(queue.Push("a", item));
  for (const int item : {10, 20}) ASSERT_TRUE(queue.Push("b", item));
  ASSERT_TRUE(queue.Push("c", 100));
  EXPECT_EQ(queue.Pop(), 1);
  // One that comes later waits for a turn of each of the others, not for all that they queued.
  ASSERT_TRUE(queue.Push("d", 1000));
  EXPECT_THAT(Drain(queue), ElementsAre(10, 100, 2, 1000, 20, 3, 4));
}

TEST(FairQueueTest, OneCallerLeavesHalfToOthers) {
  FairQueue<int> queue(8);
  int taken = 0;
  while (queue.Push("flood", taken)) ++taken;
  EXPECT_EQ(taken, 4);
  // 4 are left: the second takes 2, the third 1, the fourth the last.
  EXPECT_TRUE(queue.Push("b", 0));
  EXPECT_TRUE(queue.Push("b", 0));
  EXPECT_FALSE(queue.Push("b", 0));
  EXPECT_TRUE(queue.Push("c", 0));
  EXPECT_FALSE(queue.Push("c", 0));
  EXPECT_TRUE(queue.Push("d", 0));
  EXPECT_FALSE(queue.Push("e", 0));
  EXPECT_EQ(queue.size(), 8u);
}

TEST(FairQueueTest, WhatIsRemovedLeavesItsRoomAndNoTurn) {
  FairQueue<int> queue(4);
  for (const int item : {1, 2}) ASSERT_TRUE(queue.Push("a", item));
  ASSERT_TRUE(queue.Push("b", 10));
  ASSERT_TRUE(queue.Push("c", 100));
  EXPECT_FALSE(queue.Push("d", 1000));
  const auto is = [](int wanted) { return [wanted](int item) { return item == wanted; }; };
  EXPECT_EQ(queue.Remove("b", is(10)), 10);
  EXPECT_EQ(queue.Remove("b", is(10)), std::nullopt);
  EXPECT_EQ(queue.Remove("a", is(100)), std::nullopt);  // Another's.
  EXPECT_EQ(queue.Remove("a", is(2)), 2);
  EXPECT_EQ(queue.size(), 2u);
  EXPECT_TRUE(queue.Push("d", 1000));
  EXPECT_THAT(Drain(queue), ElementsAre(1, 100, 1000));
}

TEST(FairQueueTest, WithoutANameAllOfItMayBeFilled) {
  FairQueue<int> queue(3);
  for (int item = 0; item < 3; ++item) EXPECT_TRUE(queue.Push("", item));
  EXPECT_FALSE(queue.Push("", 3));
  FairQueue<int> none(0);
  EXPECT_FALSE(none.Push("", 0));
  EXPECT_FALSE(none.Push("a", 0));
  FairQueue<int> one(1);
  EXPECT_TRUE(one.Push("a", 0));
}

// Against what the header says, with callers that come and go.
TEST(FairQueueTest, NobodyHasASecondTurnBeforeTheOthersHadOne) {
  std::mt19937 random(5);
  FairQueue<std::pair<char, int>> queue(64);
  std::map<char, std::vector<int>> waiting;
  std::map<char, int> served_before;  // Of each that waits: items of others since its last turn.
  int next = 0;
  for (int step = 0; step < 20000; ++step) {
    if (random() % 2 == 0) {
      const char caller = static_cast<char>('a' + random() % 5);
      if (queue.Push(std::string(1, caller), {caller, next})) {
        if (waiting[caller].empty()) served_before[caller] = 0;
        waiting[caller].push_back(next++);
      }
    } else if (!queue.empty()) {
      const auto [caller, item] = queue.Pop();
      ASSERT_EQ(item, waiting[caller].front());
      waiting[caller].erase(waiting[caller].begin());
      served_before[caller] = 0;
      for (auto& [other, items] : waiting) {
        if (other == caller || items.empty()) continue;
        ASSERT_LT(served_before[other]++, 4) << other;
      }
    }
  }
  EXPECT_GT(next, 1000);
}

}  // namespace
}  // namespace hapmoe::server
