#include "server/concurrency/call_registry.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace hapmoe::server {
namespace {

using std::chrono::milliseconds;
using Cause = Interrupter::Cause;

TEST(CallRegistry, CountsACallUntilItsTicketEnds) {
  CallRegistry registry;
  {
    std::optional<CallRegistry::Ticket> ticket = registry.Admit(nullptr);
    ASSERT_TRUE(ticket.has_value());
    EXPECT_EQ(registry.in_flight(), 1u);
    const CallRegistry::Ticket moved = *std::move(ticket);
    EXPECT_EQ(registry.in_flight(), 1u);
  }
  EXPECT_EQ(registry.in_flight(), 0u);
}

TEST(CallRegistry, AdmitsNothingOnceDraining) {
  CallRegistry registry;
  const auto before = registry.Admit(nullptr);
  registry.StartDrain();
  EXPECT_TRUE(registry.draining());
  EXPECT_FALSE(registry.Admit(nullptr).has_value());
  EXPECT_EQ(registry.in_flight(), 1u);
}

TEST(CallRegistry, WaitsForCallsInFlight) {
  CallRegistry registry;
  auto ticket = registry.Admit(nullptr);
  registry.StartDrain();
  EXPECT_FALSE(registry.WaitIdle(milliseconds(5)));
  std::thread call([&ticket] {
    std::this_thread::sleep_for(milliseconds(20));
    ticket.reset();
  });
  EXPECT_TRUE(registry.WaitIdle(std::chrono::seconds(10)));
  call.join();
}

TEST(CallRegistry, InterruptsOnlyWhatIsInFlight) {
  CallRegistry registry;
  auto ended = std::make_shared<Interrupter>();
  auto running = std::make_shared<Interrupter>();
  registry.Admit(ended).reset();
  const auto ticket = registry.Admit(running);
  const auto short_call = registry.Admit(nullptr);
  EXPECT_FALSE(registry.interrupted());
  registry.InterruptAll();
  EXPECT_TRUE(registry.interrupted());
  EXPECT_FALSE(ended->tripped());
  EXPECT_EQ(running->cause(), Cause::kTime);
}

TEST(CallRegistry, DrainsWhileManyThreadsCall) {
  CallRegistry registry;
  std::atomic<int> refused{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      while (true) {
        const auto ticket = registry.Admit(std::make_shared<Interrupter>());
        if (!ticket.has_value()) break;
      }
      ++refused;
    });
  }
  std::this_thread::sleep_for(milliseconds(10));
  registry.StartDrain();
  registry.InterruptAll();
  EXPECT_TRUE(registry.WaitIdle(std::chrono::seconds(10)));
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(refused, 4);
}

}  // namespace
}  // namespace hapmoe::server
