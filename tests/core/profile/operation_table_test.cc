#include "core/profile/operation_table.h"

#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace hapmoe::profile {
namespace {

// 1 TFLOP/s and 1 TB/s on 100 processors.
constexpr Chip kUnit = {
    .flops_per_second = 1e12, .memory_bytes_per_second = 1e12, .processors = 100};

OperationTable TableOf(OperationTable::Samples samples, const BaseFit& fit = {},
                       TableKind kind = TableKind::kGemm) {
  return OperationTable(kind, MatrixPrecision::kBf16, fit, kUnit, std::move(samples), 1, "test");
}

double SecondsOf(const OperationTable& table, const OperationShape& shape) {
  return table.Seconds(table.kind(), shape, kUnit, 0).seconds;
}

TEST(FlopsTest, CountsOperationsAndTraffic) {
  EXPECT_DOUBLE_EQ(Flops(TableKind::kGemm, {3, 5, 7, 1}), 210);
  // Half of two products of 16 x 16 x 8 for each of two heads.
  EXPECT_DOUBLE_EQ(Flops(TableKind::kAttention, {16, 16, 8, 2}), 2.0 * 16 * 16 * 8 * 2);
  EXPECT_DOUBLE_EQ(Flops(TableKind::kAttentionBackward, {16, 16, 8, 2}),
                   2.5 * 2.0 * 16 * 16 * 8 * 2);
  // 3 x 7 and two of 5 x 7 of one byte, 3 x 5 of two.
  EXPECT_DOUBLE_EQ(Traffic(TableKind::kGroupedGemm, {3, 5, 7, 2}, 1), 21 + 70 + 30);
}

TEST(QuantisedFlopsTest, CountsWholeTilesInWholeWaves) {
  struct Case {
    TableKind kind;
    OperationShape shape;
    double expected;
  };
  const std::vector<Case> cases = {
      // 10 x 10 tiles of 128 x 128 are one wave over 100: nothing is wasted.
      {TableKind::kGemm, {1280, 1280, 64}, 2.0 * 1280 * 1280 * 64},
      // One row more: 11 x 10 of 128 x 128 need two waves, as do 21 x 10 of 64 x 128, whose three
      // waves of half the size are less; 11 x 5 of 128 x 256 are one wave of twice the size.
      {TableKind::kGemm, {1281, 1280, 64}, 3.0 * 100 * 64 * 128 * 2 * 64},
      // The smallest tile costs a whole wave: 100 of 64 x 128.
      {TableKind::kGemm, {1, 1, 64}, 100.0 * 64 * 128 * 2 * 64},
      // 100 groups of one row take a tile each; together they take no more than one group.
      {TableKind::kGroupedGemm, {100, 128, 64, 100}, 100.0 * 64 * 128 * 2 * 64},
      // Ten groups of 32 rows: every group fills a tile of 64 rows by half.
      {TableKind::kGroupedGemm, {320, 1280, 64, 10}, 100 * 2.0 * 64 * 128 * 64},
      // 101 groups take a second wave.
      {TableKind::kGroupedGemm, {101, 128, 64, 101}, 2.0 * 100 * 64 * 128 * 2 * 64},
      // 25 heads of four blocks of 128 queries fill the wave.
      {TableKind::kAttention, {512, 512, 64, 25}, 2.0 * 25 * 512 * 512 * 64},
      // One head more takes a second wave.
      {TableKind::kAttention, {512, 512, 64, 26}, 2.0 * 50 * 512 * 512 * 64},
      {TableKind::kAttentionBackward, {512, 512, 64, 25}, 2.5 * 2 * 25 * 512 * 512 * 64},
      // One query takes a block of 128: one head of it a whole wave.
      {TableKind::kAttention, {1, 512, 64, 1}, 2.0 * 100 * 128 * 512 * 64},
  };
  for (const Case& c : cases) {
    EXPECT_DOUBLE_EQ(QuantisedFlops(c.kind, c.shape, 100), c.expected)
        << c.shape.m << " " << c.shape.n << " " << c.shape.groups;
  }
}

TEST(BaseSecondsTest, TakesTheSlowerOfArithmeticAndMemory) {
  // 2e9 operations in 2 ms; 2 B x (1e6 + 1e6 + 1e6) in 6 us.
  const OperationShape shape = {1000, 1000, 1000};
  EXPECT_DOUBLE_EQ(BaseSeconds({}, TableKind::kGemm, shape, kUnit, 2), 2e-3);
  // 3e9 bytes more: 3.006 ms.
  EXPECT_DOUBLE_EQ(BaseSeconds({}, TableKind::kGemm, shape, kUnit, 2, 3e9), 3.006e-3);
  const BaseFit fit = {.peak_ratio = 0.5, .depth_half = 1000, .fixed_seconds = 1e-3};
  // Half of the peak, and half of that at this depth, and what is fixed.
  EXPECT_DOUBLE_EQ(BaseSeconds(fit, TableKind::kGemm, shape, kUnit, 2), 9e-3);
  // Traffic at half of the memory's rate: 3.006e9 bytes in 6.012 ms, and what is fixed.
  const BaseFit streaming = {.fixed_seconds = 1e-3, .traffic_ratio = 0.5};
  EXPECT_DOUBLE_EQ(BaseSeconds(streaming, TableKind::kGemm, shape, kUnit, 2, 3e9), 7.012e-3);
  // A long run that keeps 0.8 of its clocks: arithmetic slows down, memory does not.
  const BaseFit slow = {.sustained_ratio = 0.8};
  EXPECT_DOUBLE_EQ(BaseSeconds(slow, TableKind::kGemm, shape, kUnit, 2), 2.5e-3);
  EXPECT_DOUBLE_EQ(BaseSeconds(slow, TableKind::kGemm, shape, kUnit, 2, 3e9), 3.006e-3);
}

TEST(OperationTableTest, FadesFromTheSampleToTheBase) {
  const OperationShape at = {1024, 1024, 1024};
  const double base = BaseSeconds({}, TableKind::kGemm, at, kUnit, 2);
  const OperationTable table = TableOf({{at}, {2 * base}});
  const TableAnswer answer = table.Seconds(TableKind::kGemm, at, kUnit, 0);
  EXPECT_EQ(answer.octaves, 0);
  // Weight 1 / 0.05^2 = 400 against 0.8 of no correction: 2^(400 / 400.8).
  EXPECT_NEAR(answer.seconds, base * std::pow(2, 400 / 400.8), 1e-6 * base);
  double before = answer.seconds / base;
  for (const double m : {2048.0, 4096.0, 65536.0, 1048576.0}) {
    const OperationShape far = {m, 1024, 1024};
    const double ratio = SecondsOf(table, far) / BaseSeconds({}, TableKind::kGemm, far, kUnit, 2);
    EXPECT_LT(ratio, before);
    EXPECT_GE(ratio, 1);
    before = ratio;
  }
  EXPECT_NEAR(before, 1, 1e-3);  // Ten octaves away.
  EXPECT_DOUBLE_EQ(table.Seconds(TableKind::kGemm, {4096, 1024, 1024}, kUnit, 0).octaves, 2);
}

TEST(OperationTableTest, AnswersWithTheBaseWithoutSamples) {
  const OperationTable table = TableOf({});
  const OperationShape shape = {300, 500, 700};
  const TableAnswer answer = table.Seconds(TableKind::kGemm, shape, kUnit, 0);
  EXPECT_DOUBLE_EQ(answer.seconds, BaseSeconds({}, TableKind::kGemm, shape, kUnit, 2));
  EXPECT_EQ(answer.octaves, std::numeric_limits<double>::infinity());
  EXPECT_EQ(table.LeaveOneOutError(), 0);
}

TEST(OperationTableTest, SamplesAreBurstsWhateverALongRunKeeps) {
  const OperationShape at = {4096, 4096, 4096};
  const double burst = 2 * BaseSeconds({}, TableKind::kGemm, at, kUnit, 2);
  const OperationTable samples = TableOf({{at}, {burst}});
  const OperationTable sustained = TableOf({{at}, {burst}}, {.sustained_ratio = 0.5});
  EXPECT_NEAR(SecondsOf(sustained, at), 2 * SecondsOf(samples, at), 1e-9);
}

// 60 shapes whose times are a smooth surface over the base.
OperationTable::Samples SmoothSamples(const BaseFit& fit, TableKind kind, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> octave(8, 13);
  OperationTable::Samples samples;
  for (int i = 0; i < 60; ++i) {
    const double groups = kind == TableKind::kGemm ? 1 : std::floor(std::exp2(octave(random) - 7));
    const OperationShape shape = {std::floor(std::exp2(octave(random))) * groups,
                                  std::floor(std::exp2(octave(random))),
                                  std::floor(std::exp2(octave(random))), groups};
    samples.shapes.push_back(shape);
    samples.seconds.push_back(BaseSeconds(fit, kind, shape, kUnit, 2) *
                              (1.1 + 0.1 * std::sin(std::log2(shape.m))));
  }
  return samples;
}

TEST(OperationTableTest, NeverBeatsTheDataSheet) {
  for (const TableKind kind : {TableKind::kGemm, TableKind::kGroupedGemm, TableKind::kAttention}) {
    const BaseFit fit = {.peak_ratio = 1, .fixed_seconds = 1e-6};
    OperationTable::Samples samples = SmoothSamples(fit, kind, 1);
    for (double& seconds : samples.seconds) seconds *= 0.5;  // Impossibly fast.
    const OperationTable table = TableOf(std::move(samples), fit, kind);
    std::mt19937 random(2);
    std::uniform_real_distribution<double> octave(0, 16);
    for (int i = 0; i < 1000; ++i) {
      const OperationShape shape = {std::ceil(std::exp2(octave(random))),
                                    std::ceil(std::exp2(octave(random))),
                                    std::ceil(std::exp2(octave(random))), 1};
      EXPECT_GE(SecondsOf(table, shape), Flops(kind, shape) / kUnit.flops_per_second)
          << shape.m << " " << shape.n << " " << shape.k;
    }
  }
}

TEST(OperationTableTest, MoreWorkTakesLonger) {
  const BaseFit fit = {
      .peak_ratio = 0.8, .quantised_ratio = 0.3, .depth_half = 128, .fixed_seconds = 3e-6};
  for (uint32_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(seed);
    const OperationTable table = TableOf(SmoothSamples(fit, TableKind::kGemm, seed), fit);
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> octave(7, 14);
    for (int i = 0; i < 300; ++i) {
      const OperationShape shape = {std::exp2(octave(random)), std::exp2(octave(random)),
                                    std::exp2(octave(random))};
      // The samples lie up to 1.2 times above the base; twice the work never takes less.
      for (const OperationShape& twice : {OperationShape{2 * shape.m, shape.n, shape.k},
                                          {shape.m, 2 * shape.n, shape.k},
                                          {shape.m, shape.n, 2 * shape.k}}) {
        EXPECT_GE(SecondsOf(table, twice), SecondsOf(table, shape))
            << shape.m << " " << shape.n << " " << shape.k;
      }
    }
  }
}

// Samples on either side of the base by a slope in n that the fit does not know, and by noise.
OperationTable SlopedTable(double noise) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> octave(9, 14);
  std::normal_distribution<double> error(0, noise);
  const BaseFit fit = {.peak_ratio = 0.7, .fixed_seconds = 2e-6, .traffic_ratio = 0.8};
  OperationTable::Samples samples;
  for (int i = 0; i < 200; ++i) {
    const OperationShape shape = {std::round(std::exp2(octave(random))),
                                  std::round(std::exp2(octave(random))),
                                  std::round(std::exp2(octave(random))), 1};
    const double truth = 0.05 * (std::log2(shape.n) - 11) + error(random);
    samples.shapes.push_back(shape);
    samples.seconds.push_back(BaseSeconds(fit, TableKind::kGemm, shape, kUnit, 2) *
                              std::exp(truth));
  }
  return TableOf(std::move(samples), fit);
}

TEST(OperationTableTest, NeighboursCorrectTheBaseTime) {
  const OperationTable table = SlopedTable(0.01);
  // The base alone is 0.0625 off on average, its neighbours know most of that.
  EXPECT_LT(table.LeaveOneOutError(), 0.035);
  EXPECT_GT(SlopedTable(0.3).LeaveOneOutError(), 0.2);
  for (size_t i = 0; i < 200; i += 20) {
    const TableAnswer answer = table.Seconds(TableKind::kGemm, table.samples().shapes[i], kUnit, 0);
    EXPECT_NEAR(answer.seconds / table.samples().seconds[i], 1, 0.03);
    EXPECT_EQ(answer.octaves, 0);
  }
}

TEST(OperationTableTest, LeaveOneOutErrorIsWhatTheOthersMiss) {
  // Two samples ten octaves apart cannot help each other: each is off by log 2.
  const OperationShape near = {64, 1024, 1024};
  const OperationShape far = {65536, 1024, 1024};
  const double base_near = BaseSeconds({}, TableKind::kGemm, near, kUnit, 2);
  const double base_far = BaseSeconds({}, TableKind::kGemm, far, kUnit, 2);
  EXPECT_NEAR(TableOf({{near, far}, {2 * base_near, 2 * base_far}}).LeaveOneOutError(), std::log(2),
              1e-3);
  // The same shape twice predicts itself.
  EXPECT_NEAR(TableOf({{near, near}, {2 * base_near, 2 * base_near}}).LeaveOneOutError(), 0, 2e-3);
  // A surface without bends is predicted well.
  const BaseFit fit = {.fixed_seconds = 1e-6};
  EXPECT_LT(TableOf(SmoothSamples(fit, TableKind::kGemm, 3), fit).LeaveOneOutError(), 0.11);
}

TEST(OperationTableTest, GroupsPayForTheirTilesInATableOfPlainProducts) {
  const BaseFit fit = {.quantised_ratio = 1};
  const OperationTable table = TableOf({}, fit);
  const OperationShape plain = {12800, 1280, 512};
  OperationShape grouped = plain;
  grouped.groups = 200;  // 64 rows each, whole tiles: nothing is wasted.
  const auto seconds = [&](const OperationShape& shape) {
    return table.Seconds(TableKind::kGroupedGemm, shape, kUnit, 0).seconds;
  };
  EXPECT_DOUBLE_EQ(seconds(grouped), seconds(plain));
  grouped.groups = 400;  // 32 rows each, half a tile.
  EXPECT_NEAR(seconds(grouped) / seconds(plain), 2, 1e-9);
}

}  // namespace
}  // namespace hapmoe::profile
