#include "core/base/block_vector.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "gtest/gtest.h"

namespace hapmoe {
namespace {

constexpr size_t kBlock = BlockVector<int64_t>::kBlock;

TEST(BlockVectorTest, HoldsWhatItWasGiven) {
  BlockVector<std::unique_ptr<size_t>> vector;
  MemoryCharge charge;
  EXPECT_TRUE(vector.empty());
  EXPECT_TRUE(vector.begin() == vector.end());
  for (size_t i = 0; i < 3 * kBlock + 1; ++i) {
    EXPECT_EQ(vector.size(), i);
    EXPECT_TRUE(vector.Add(std::make_unique<size_t>(i), charge));
  }
  size_t next = 0;
  for (const auto& element : vector) EXPECT_EQ(*element, next++);
  EXPECT_EQ(next, vector.size());
  *vector[kBlock] = 7;
  EXPECT_EQ(*vector[kBlock], 7u);
}

TEST(BlockVectorTest, ElementsOfFullBlocksStayWhereTheyAre) {
  BlockVector<int64_t> vector;
  MemoryCharge charge;
  for (size_t i = 0; i < kBlock; ++i) vector.Add(1, charge);
  const int64_t* first = &vector[0];
  for (size_t i = 0; i < 100 * kBlock; ++i) vector.Add(2, charge);
  EXPECT_EQ(first, &vector[0]);
}

TEST(BlockVectorTest, ClearedItGrowsInTheSameMemory) {
  BlockVector<int64_t> vector;
  MemoryBudget budget(1 << 20, 1);
  Interrupter stop;
  MemoryMeter meter(budget, stop);
  MemoryCharge charge(&meter);
  const auto fill = [&] {
    for (size_t i = 0; i < 2 * kBlock + 5; ++i)
      EXPECT_TRUE(vector.Add(static_cast<int64_t>(i), charge));
  };
  fill();
  const int64_t bytes = meter.used_bytes();
  vector.Clear();
  EXPECT_TRUE(vector.empty());
  fill();
  EXPECT_EQ(meter.used_bytes(), bytes);
  EXPECT_EQ(vector[2 * kBlock], static_cast<int64_t>(2 * kBlock));
}

TEST(BlockVectorTest, ChargesWhatItTakesAndStopsWhereThatIsRefused) {
  BlockVector<int64_t> vector;
  constexpr int64_t kBytes = static_cast<int64_t>(kBlock * sizeof(int64_t));
  MemoryBudget budget(4 * kBytes, 1);
  Interrupter stop;
  MemoryMeter meter(budget, stop);
  MemoryCharge charge(&meter);
  while (vector.Add(1, charge)) {
  }
  // The list of blocks takes some of it.
  EXPECT_EQ(vector.size(), 3 * kBlock);
  EXPECT_GE(meter.used_bytes(), 3 * kBytes);
  EXPECT_TRUE(stop.tripped());
  EXPECT_FALSE(vector.Add(1, charge));
  EXPECT_EQ(vector.size(), 3 * kBlock);
  // Little takes little.
  BlockVector<int64_t> small;
  MemoryBudget other(kBytes, 1);
  MemoryMeter small_meter(other, stop);
  MemoryCharge small_charge(&small_meter);
  EXPECT_TRUE(small.Add(1, small_charge));
  EXPECT_LE(small_meter.used_bytes(), 64);
}

}  // namespace
}  // namespace hapmoe
