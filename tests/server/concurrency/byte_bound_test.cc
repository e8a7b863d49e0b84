#include "server/concurrency/byte_bound.h"

#include <limits>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace hapmoe::server {
namespace {

TEST(ByteBoundTest, TakesUpToItsBound) {
  ByteBound bound(10);
  EXPECT_TRUE(bound.Take(6));
  EXPECT_FALSE(bound.Take(5));
  EXPECT_EQ(bound.taken(), 6u);
  EXPECT_TRUE(bound.Take(4));
  EXPECT_TRUE(bound.Take(0));
  EXPECT_FALSE(bound.Take(1));
  EXPECT_FALSE(bound.Take(std::numeric_limits<size_t>::max()));
  bound.Give(6);
  EXPECT_TRUE(bound.Take(6));
}

TEST(ByteBoundTest, IsNeverExceededByManyThreads) {
  ByteBound bound(100);
  std::atomic<bool> exceeded{false};
  std::atomic<int> taken{0};
  std::vector<std::thread> threads;
  for (size_t bytes : {7u, 13u, 40u, 60u}) {
    threads.emplace_back([&, bytes] {
      for (int i = 0; i < 20000; ++i) {
        if (!bound.Take(bytes)) continue;
        ++taken;
        if (bound.taken() > 100) exceeded = true;
        bound.Give(bytes);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(exceeded);
  EXPECT_GT(taken, 0);
  EXPECT_EQ(bound.taken(), 0u);
}

}  // namespace
}  // namespace hapmoe::server
