#include "core/profile/operation_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace hapmoe::profile {
namespace {

constexpr Chip kChip = {
    .flops_per_second = 1e15, .memory_bytes_per_second = 1e12, .processors = 100};

TEST(OperationTable, WavesOfTilesAreCountedWhole) {
  // 100 tiles of 128 x 256 are one wave; one more row of tiles begins a second.
  EXPECT_DOUBLE_EQ(QuantisedFlops(TableKind::kGemm, {1280, 2560, 64, 1}, 100),
                   2.0 * 1280 * 2560 * 64);
  EXPECT_DOUBLE_EQ(QuantisedFlops(TableKind::kGemm, {12800, 256, 64, 1}, 100),
                   2.0 * 12800 * 256 * 64);
  // 101 rows of tiles of 128 x 128 on 100 processors: two waves, or 202 tiles of 64 x 128: three.
  EXPECT_DOUBLE_EQ(QuantisedFlops(TableKind::kGemm, {101 * 128, 128, 64, 1}, 100),
                   3 * 100 * 2.0 * 64 * 128 * 64);
  // Ten groups of 32 rows: every group fills a tile of 64 rows by half.
  EXPECT_DOUBLE_EQ(QuantisedFlops(TableKind::kGroupedGemm, {320, 1280, 64, 10}, 100),
                   100 * 2.0 * 64 * 128 * 64);
  // 150 blocks of attention on 100 processors take as long as 200.
  EXPECT_DOUBLE_EQ(QuantisedFlops(TableKind::kAttention, {1280, 1280, 64, 15}, 100),
                   Flops(TableKind::kAttention, {1280, 1280, 64, 15}) * 200 / 150);
}

TEST(OperationTable, CountsOperationsAndTraffic) {
  EXPECT_DOUBLE_EQ(Flops(TableKind::kGemm, {3, 5, 7, 1}), 210);
  // Half of two products of 16 x 16 x 8 for each of two heads.
  EXPECT_DOUBLE_EQ(Flops(TableKind::kAttention, {16, 16, 8, 2}), 2.0 * 16 * 16 * 8 * 2);
  EXPECT_DOUBLE_EQ(Flops(TableKind::kAttentionBackward, {16, 16, 8, 2}),
                   2.5 * 2.0 * 16 * 16 * 8 * 2);
  // 3 x 7 and two of 5 x 7 of one byte, 3 x 5 of two.
  EXPECT_DOUBLE_EQ(Traffic(TableKind::kGroupedGemm, {3, 5, 7, 2}, 1), 21 + 70 + 30);
}

TEST(OperationTable, BaseTimeIsFixedPlusTheSlowerOfArithmeticAndMemory) {
  const BaseFit fit = {.peak_ratio = 0.5,
                       .depth_half = 1000,
                       .fixed_seconds = 1e-6,
                       .traffic_ratio = 0.5,
                       .sustained_ratio = 0.8};
  // 2e9 operations, twice as many for the depth, at 0.4 of 1e15.
  EXPECT_DOUBLE_EQ(BaseSeconds(fit, TableKind::kGemm, {1000, 1000, 1000, 1}, kChip, 2, 0),
                   1e-6 + std::max(4e9 / 0.4e15, 6e6 / 0.5e12));
  EXPECT_DOUBLE_EQ(BaseSeconds(fit, TableKind::kGemm, {1000, 1000, 1000, 1}, kChip, 2, 94e6),
                   1e-6 + 100e6 / 0.5e12);
}

OperationTable Synthetic(int samples, double noise, unsigned seed, double stated_error = 1) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> octave(9, 14);
  std::normal_distribution<double> error(0, noise);
  const BaseFit fit = {.peak_ratio = 0.7, .fixed_seconds = 2e-6, .traffic_ratio = 0.8};
  OperationTable::Samples kept;
  for (int i = 0; i < samples; ++i) {
    const OperationShape shape = {std::round(std::exp2(octave(random))),
                                  std::round(std::exp2(octave(random))),
                                  std::round(std::exp2(octave(random))), 1};
    // Wide results are slower than the base says.
    const double truth = 0.05 * (std::log2(shape.n) - 11) + error(random);
    kept.shapes.push_back(shape);
    kept.seconds.push_back(BaseSeconds(fit, TableKind::kGemm, shape, kChip, 2) * std::exp(truth));
  }
  return OperationTable(TableKind::kGemm, MatrixPrecision::kBf16, fit, kChip, kept, stated_error,
                        "a test");
}

TEST(OperationTable, NeighboursCorrectTheBaseTime) {
  const OperationTable table = Synthetic(200, 0.01, 1);
  // The base alone is 0.0625 off on average, its neighbours know most of that.
  EXPECT_LT(table.LeaveOneOutError(), 0.035);
  EXPECT_GT(Synthetic(200, 0.3, 1).LeaveOneOutError(), 0.2);
  // An answer at a sample is the sample.
  for (size_t i = 0; i < 200; i += 20) {
    const TableAnswer answer = table.Seconds(TableKind::kGemm, table.samples().shapes[i], kChip, 0);
    EXPECT_NEAR(answer.seconds / table.samples().seconds[i], 1, 0.03);
    EXPECT_EQ(answer.octaves, 0);
  }
}

TEST(OperationTable, MoreWorkTakesLongerAndNothingBeatsThePeak) {
  const OperationTable table = Synthetic(200, 0.02, 2);
  std::mt19937 random(3);
  std::uniform_real_distribution<double> octave(8, 16);
  for (int i = 0; i < 1000; ++i) {
    const OperationShape shape = {std::exp2(octave(random)), std::exp2(octave(random)),
                                  std::exp2(octave(random)), 1};
    const double seconds = table.Seconds(TableKind::kGemm, shape, kChip, 0).seconds;
    EXPECT_GE(seconds * kChip.flops_per_second, Flops(TableKind::kGemm, shape));
    OperationShape larger = shape;
    (i % 3 == 0 ? larger.m : i % 3 == 1 ? larger.n : larger.k) *= 2;
    EXPECT_GT(table.Seconds(TableKind::kGemm, larger, kChip, 0).seconds, seconds);
  }
}

}  // namespace
}  // namespace hapmoe::profile
