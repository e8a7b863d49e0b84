#include "core/base/memory_budget.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace hapmoe {
namespace {

using Cause = Interrupter::Cause;

// 100 bytes for 2: shares of 25 each, 50 common.
TEST(MemoryBudgetTest, AShareIsNobodyElses) {
  MemoryBudget budget(100, 2);
  EXPECT_EQ(budget.most_alone_bytes(), 75);
  Interrupter greedy_stops;
  Interrupter modest_stops;
  MemoryMeter greedy(budget, greedy_stops);
  MemoryMeter modest(budget, modest_stops);
  EXPECT_TRUE(greedy.Charge(75));
  EXPECT_FALSE(greedy.Charge(1));
  EXPECT_TRUE(modest.Charge(25));
  EXPECT_FALSE(modest.Charge(1));
  EXPECT_EQ(budget.used_bytes(), 100);
}

TEST(MemoryBudgetTest, WhatIsCommonIsForWhoComesFirst) {
  MemoryBudget budget(100, 2);
  Interrupter stops[2];
  MemoryMeter first(budget, stops[0]);
  MemoryMeter second(budget, stops[1]);
  EXPECT_TRUE(first.Charge(65));    // 40 of the common ones.
  EXPECT_FALSE(second.Charge(36));  // 11 more than its share; 10 are left.
  EXPECT_TRUE(second.Charge(35));
  first.Release(65);
  EXPECT_TRUE(second.Charge(40));
}

TEST(MemoryBudgetTest, OneSlotHasAll) {
  MemoryBudget budget(100, 1);
  EXPECT_EQ(budget.most_alone_bytes(), 100);
  Interrupter stop;
  MemoryMeter meter(budget, stop);
  EXPECT_TRUE(meter.Charge(100));
  EXPECT_FALSE(meter.Charge(1));
}

TEST(MemoryBudgetTest, MoreThanTheSlotsHaveOnlyWhatIsCommon) {
  MemoryBudget budget(100, 2);
  Interrupter stop;
  auto first = std::make_unique<MemoryMeter>(budget, stop);
  MemoryMeter second(budget, stop);
  MemoryMeter third(budget, stop);
  EXPECT_TRUE(third.Charge(50));
  EXPECT_FALSE(third.Charge(1));
  EXPECT_TRUE(second.Charge(25));
  third.Release(50);
  first.reset();
  MemoryMeter fourth(budget, stop);  // Has the first one's slot.
  EXPECT_TRUE(fourth.Charge(75));
}

TEST(MemoryMeterTest, ARefusalStopsTheComputationAndIsTold) {
  MemoryBudget budget(100, 1);
  Interrupter stop;
  MemoryMeter meter(budget, stop);
  EXPECT_TRUE(meter.Charge(60));
  EXPECT_FALSE(stop.tripped());
  EXPECT_EQ(meter.wanted_bytes(), 0);
  EXPECT_FALSE(meter.Charge(50));
  EXPECT_EQ(stop.cause(), Cause::kMemory);
  EXPECT_EQ(meter.wanted_bytes(), 110);
  EXPECT_EQ(meter.used_bytes(), 60);
  EXPECT_FALSE(meter.Charge(45));
  EXPECT_EQ(meter.wanted_bytes(), 110);  // The most.
  meter.Release(60);
  EXPECT_EQ(meter.used_bytes(), 0);
  EXPECT_EQ(meter.peak_bytes(), 60);
  EXPECT_EQ(budget.used_bytes(), 0);
}

TEST(MemoryMeterTest, AnEarlierCauseIsNotOverwritten) {
  MemoryBudget budget(1, 1);
  Interrupter stop;
  stop.Trip(Cause::kCancelled);
  MemoryMeter meter(budget, stop);
  EXPECT_FALSE(meter.Charge(2));
  EXPECT_EQ(stop.cause(), Cause::kCancelled);
}

TEST(MemoryChargeTest, IsGivenBackWithItsHolder) {
  MemoryBudget budget(100, 1);
  Interrupter stop;
  MemoryMeter meter(budget, stop);
  {
    MemoryCharge charge(&meter);
    EXPECT_TRUE(charge.Add(30));
    MemoryCharge moved = std::move(charge);
    EXPECT_EQ(meter.used_bytes(), 30);
    MemoryCharge other(&meter);
    EXPECT_TRUE(other.Add(40));
    other = std::move(moved);
    EXPECT_EQ(meter.used_bytes(), 30);
    other.Subtract(10);
    EXPECT_EQ(meter.used_bytes(), 20);
  }
  EXPECT_EQ(meter.used_bytes(), 0);
}

TEST(MemoryChargeTest, WithoutAMeterNothingIsRefused) {
  MemoryCharge charge;
  EXPECT_TRUE(charge.Add(int64_t{1} << 60));
  std::vector<int64_t> numbers;
  EXPECT_TRUE(charge.Reserve(numbers, 3));
}

// Growing from 4 to 8 numbers of 8 bytes takes 32 + 64 bytes for a moment.
TEST(MemoryChargeTest, AVectorGrowsWithinItsMemory) {
  MemoryBudget budget(100, 1);
  Interrupter stop;
  MemoryMeter meter(budget, stop);
  MemoryCharge charge(&meter);
  std::vector<int64_t> numbers;
  EXPECT_TRUE(charge.Reserve(numbers, 4));
  EXPECT_EQ(meter.used_bytes(), 32);
  numbers.assign(4, 7);
  EXPECT_TRUE(charge.Reserve(numbers, 5));
  EXPECT_EQ(numbers.capacity(), 8u);
  EXPECT_EQ(meter.used_bytes(), 64);
  EXPECT_EQ(meter.peak_bytes(), 96);
  EXPECT_TRUE(charge.Reserve(numbers, 8));
  EXPECT_FALSE(charge.Reserve(numbers, 9));
  EXPECT_EQ(numbers, std::vector<int64_t>(4, 7));
  EXPECT_EQ(meter.used_bytes(), 64);
  EXPECT_EQ(meter.wanted_bytes(), 64 + 128);
}

TEST(MemoryBudgetTest, IsKeptByManyThreads) {
  MemoryBudget budget(1000, 4);
  std::atomic<bool> exceeded{false};
  std::atomic<int> charged{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 200; ++round) {
        Interrupter stop;
        MemoryMeter meter(budget, stop);
        MemoryCharge charges[2] = {MemoryCharge(&meter), MemoryCharge(&meter)};
        std::thread helper([&] {
          for (int k = 0; k < 20; ++k) (void)charges[1].Add(10 + i);
        });
        for (int k = 0; k < 20; ++k) {
          if (charges[0].Add(30)) ++charged;
          if (budget.used_bytes() > 1000) exceeded = true;
        }
        helper.join();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(exceeded);
  EXPECT_GT(charged, 0);
  EXPECT_EQ(budget.used_bytes(), 0);
}

}  // namespace
}  // namespace hapmoe
