#include "core/cost/compute_time.h"

#include <gtest/gtest.h>

#include "tests/core/testing/fixtures.h"

namespace hapmoe::cost {
namespace {

using hapmoe::testing::UnitProfile;
using profile::MatrixPrecision;
using profile::Sample;
using profile::SampleKind;

KernelShape Product(int64_t m, int64_t n, int64_t k) {
  KernelShape shape;
  shape.m = m;
  shape.n = n;
  shape.k = k;
  shape.flops = 2.0 * static_cast<double>(m * n * k);
  return shape;
}

TEST(ComputeTimeTest, RooflineTakesTheSlowerOfArithmeticAndMemory) {
  profile::AcceleratorProfile profile = UnitProfile();
  profile.memory_bytes_per_second = 1e9;
  const ComputeTime compute(profile);
  Evidence evidence;
  KernelShape shape = Product(1000, 1000, 1000);  // 2e9 operations: 2 ms.
  shape.bytes = 1e6;                              // 1 ms.
  EXPECT_DOUBLE_EQ(compute.Seconds(shape, evidence), 2e-3);
  shape.bytes = 5e6;  // 5 ms.
  EXPECT_DOUBLE_EQ(compute.Seconds(shape, evidence), 5e-3);
  EXPECT_DOUBLE_EQ(evidence.analytic_seconds, 7e-3);
}

TEST(ComputeTimeTest, SmallProductsReachLessOfThePeak) {
  profile::AcceleratorProfile profile = UnitProfile();
  profile.matrix_ratio = 0.5;
  profile.matrix_half_flops = 2e9;
  profile.kernel_seconds = 1e-6;
  const ComputeTime compute(profile);
  Evidence evidence;
  // At matrix_half_flops operations half of the best ratio: 2e9 / (1e12 x 0.25).
  EXPECT_DOUBLE_EQ(compute.Seconds(Product(1000, 1000, 1000), evidence), 8e-3 + 1e-6);
}

TEST(ComputeTimeTest, ExactSamplesWinThenInterpolationThenTheRoofline) {
  profile::AcceleratorProfile profile = UnitProfile();
  for (const auto& [m, seconds] : {std::pair<int64_t, double>{100, 1.0}, {300, 2.0}}) {
    Sample sample;
    sample.m = m;
    sample.n = 10;
    sample.k = 20;
    sample.seconds = seconds;
    profile.samples.push_back(sample);
  }
  const ComputeTime compute(profile);
  Evidence evidence;
  EXPECT_EQ(compute.Seconds(Product(100, 10, 20), evidence), 1.0);
  EXPECT_EQ(evidence.measured_seconds, 1.0);
  EXPECT_EQ(compute.Seconds(Product(150, 10, 20), evidence), 1.25);
  EXPECT_EQ(evidence.interpolated_seconds, 1.25);
  // No extrapolation, and no other columns.
  compute.Seconds(Product(400, 10, 20), evidence);
  compute.Seconds(Product(100, 11, 20), evidence);
  EXPECT_EQ(evidence.measured_seconds, 1.0);
  EXPECT_EQ(evidence.interpolated_seconds, 1.25);
  EXPECT_GT(evidence.analytic_seconds, 0);
}

TEST(ComputeTimeTest, GroupsOfFewRowsPayForWholeTiles) {
  const profile::AcceleratorProfile profile = UnitProfile();
  const ComputeTime compute(profile);
  KernelShape shape = Product(640, 100, 100);
  shape.kind = model::OperationKind::kGroupedGemm;
  shape.groups = 10;  // 64 rows each, half a tile of 128.
  Evidence evidence;
  EXPECT_DOUBLE_EQ(compute.Seconds(shape, evidence), 2 * shape.flops / 1e12);
}

TEST(ComputeTimeTest, BackwardOfAProductIsTwoProducts) {
  const profile::AcceleratorProfile profile = UnitProfile();
  const ComputeTime compute(profile);
  model::Operation op;
  op.kind = model::OperationKind::kGemm;
  op.m = 1000;
  op.n = 2000;
  op.k = 500;
  const model::TrainingSpec training;
  Evidence evidence;
  EXPECT_DOUBLE_EQ(compute.Backward(op, training, evidence),
                   2 * compute.Forward(op, training, evidence));
}

TEST(ComputeTimeTest, EightBitProductsRunAtTheirOwnPeak) {
  profile::AcceleratorProfile profile = UnitProfile();
  profile.fp8_flops_per_second = 2e12;
  const ComputeTime compute(profile);
  model::Operation op;
  op.kind = model::OperationKind::kGemm;
  op.m = op.n = op.k = 1000;
  model::TrainingSpec training;
  Evidence evidence;
  const double wide = compute.Forward(op, training, evidence);
  training.fp8 = true;
  EXPECT_DOUBLE_EQ(compute.Forward(op, training, evidence), wide / 2);
  op.low_precision = false;
  EXPECT_DOUBLE_EQ(compute.Forward(op, training, evidence), wide);
}

}  // namespace
}  // namespace hapmoe::cost
