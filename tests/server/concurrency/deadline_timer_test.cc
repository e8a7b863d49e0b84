#include "server/concurrency/deadline_timer.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace hapmoe::server {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;
using Cause = Interrupter::Cause;

// Waits for a trip; long enough for a loaded machine, short enough to fail a test.
bool TripsSoon(const Interrupter& interrupter) {
  const auto end = Clock::now() + std::chrono::seconds(10);
  while (!interrupter.tripped()) {
    if (Clock::now() > end) return false;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return true;
}

TEST(DeadlineTimer, TripsAtTheDeadlineAndNotBefore) {
  DeadlineTimer timer;
  auto interrupter = std::make_shared<Interrupter>();
  const auto deadline = Clock::now() + milliseconds(50);
  const auto registration = timer.Set(deadline, interrupter);
  ASSERT_TRUE(TripsSoon(*interrupter));
  EXPECT_GE(Clock::now(), deadline);
  EXPECT_EQ(interrupter->cause(), Cause::kTime);
  EXPECT_EQ(timer.pending(), 0u);
}

TEST(DeadlineTimer, TripsAtOnceWhenTheDeadlineHasPassed) {
  DeadlineTimer timer;
  auto interrupter = std::make_shared<Interrupter>();
  const auto registration = timer.Set(Clock::now() - milliseconds(1), interrupter);
  EXPECT_TRUE(interrupter->tripped());
}

TEST(DeadlineTimer, DoesNotTripWhatWasDropped) {
  DeadlineTimer timer;
  auto interrupter = std::make_shared<Interrupter>();
  {
    auto registration = timer.Set(Clock::now() + milliseconds(20), interrupter);
    EXPECT_EQ(timer.pending(), 1u);
    auto moved = std::move(registration);
    EXPECT_EQ(timer.pending(), 1u);
  }
  EXPECT_EQ(timer.pending(), 0u);
  std::this_thread::sleep_for(milliseconds(40));
  EXPECT_FALSE(interrupter->tripped());
}

TEST(DeadlineTimer, EarlierDeadlineSetLaterIsMetInTime) {
  DeadlineTimer timer;
  auto late = std::make_shared<Interrupter>();
  auto early = std::make_shared<Interrupter>();
  const auto hour = timer.Set(Clock::now() + std::chrono::hours(1), late);
  const auto soon = timer.Set(Clock::now() + milliseconds(10), early);
  EXPECT_TRUE(TripsSoon(*early));
  EXPECT_FALSE(late->tripped());
}

TEST(DeadlineTimer, DoesNotReplaceAnEarlierCause) {
  DeadlineTimer timer;
  auto interrupter = std::make_shared<Interrupter>();
  interrupter->Trip(Cause::kCancelled);
  const auto registration = timer.Set(Clock::now(), interrupter);
  EXPECT_EQ(interrupter->cause(), Cause::kCancelled);
}

TEST(DeadlineTimer, ManyThreadsSetAndDropDeadlines) {
  DeadlineTimer timer;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&timer, t] {
      for (int i = 0; i < 500; ++i) {
        auto interrupter = std::make_shared<Interrupter>();
        const auto registration =
            timer.Set(Clock::now() + std::chrono::microseconds((i * 7 + t) % 300), interrupter);
        if (i % 2 == 0) {
          while (!interrupter->tripped()) std::this_thread::yield();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(timer.pending(), 0u);
}

TEST(DeadlineTimer, CallsFunctionsAtTheirTime) {
  DeadlineTimer timer;
  std::atomic<int> called{0};
  const auto deadline = Clock::now() + milliseconds(30);
  const auto registration = timer.Call(deadline, [&] {
    EXPECT_GE(Clock::now(), deadline);
    ++called;
  });
  // One that has passed is called soon, by the timer and not by who sets it.
  const auto here = std::this_thread::get_id();
  const auto past = timer.Call(Clock::now() - milliseconds(1), [&] {
    EXPECT_NE(std::this_thread::get_id(), here);
    ++called;
  });
  auto dropped = timer.Call(deadline, [] { ADD_FAILURE(); });
  dropped.Drop();
  const auto end = Clock::now() + std::chrono::seconds(10);
  while (called < 2 && Clock::now() < end) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(called, 2);
}

TEST(DeadlineTimer, AFunctionMaySetAnother) {
  DeadlineTimer timer;
  auto interrupter = std::make_shared<Interrupter>();
  DeadlineTimer::Registration second;
  const auto first = timer.Call(
      Clock::now(), [&] { second = timer.Set(Clock::now() + milliseconds(5), interrupter); });
  EXPECT_TRUE(TripsSoon(*interrupter));
}

}  // namespace
}  // namespace hapmoe::server
