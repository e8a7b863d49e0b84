#include "core/cost/compute_time.h"

#include <gtest/gtest.h>

#include "tests/core/testing/fixtures.h"

namespace hapmoe::cost {
namespace {

using hapmoe::testing::UnitProfile;
using profile::MatrixPrecision;
using profile::OperationShape;
using profile::OperationTable;
using profile::TableKind;

double Gemm(const ComputeTime& compute, const OperationShape& shape, Evidence& evidence) {
  return compute.Product(TableKind::kGemm, MatrixPrecision::kBf16, shape, 0, evidence);
}

TEST(ComputeTimeTest, RooflineTakesTheSlowerOfArithmeticAndMemory) {
  profile::AcceleratorProfile profile = UnitProfile();
  profile.memory_bytes_per_second = 6e9;
  const ComputeTime compute(profile);
  Evidence evidence;
  // 2e9 operations: 2 ms. Three matrices of 2e6 bytes: 1 ms.
  EXPECT_DOUBLE_EQ(Gemm(compute, {1000, 1000, 1000, 1}, evidence), 2e-3);
  // 24e6 bytes more: 5 ms.
  EXPECT_DOUBLE_EQ(compute.Product(TableKind::kGemm, MatrixPrecision::kBf16, {1000, 1000, 1000, 1},
                                   24e6, evidence),
                   5e-3);
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
  EXPECT_DOUBLE_EQ(Gemm(compute, {1000, 1000, 1000, 1}, evidence), 8e-3 + 1e-6);
}

TEST(ComputeTimeTest, TablesWinOverTheRooflineAndSayHowFarTheirSamplesAre) {
  profile::AcceleratorProfile profile = UnitProfile();
  // Twice as long as its base time at one shape.
  profile.tables.emplace_back(
      TableKind::kGemm, MatrixPrecision::kBf16, profile::BaseFit{},
      *profile.ChipFor(MatrixPrecision::kBf16),
      OperationTable::Samples{{{1024, 1024, 1024, 1}}, {2 * 2.147483648e-3}}, 0.7, "");
  const ComputeTime compute(profile);
  Evidence evidence;
  const double at = Gemm(compute, {1024, 1024, 1024, 1}, evidence);
  EXPECT_NEAR(at, 2 * 2.147483648e-3, 1e-5);
  EXPECT_EQ(evidence.measured_seconds, at);
  const double near = Gemm(compute, {2048, 1024, 1024, 1}, evidence);
  EXPECT_EQ(evidence.interpolated_seconds, near);
  const double far = Gemm(compute, {1 << 20, 1024, 1024, 1}, evidence);
  EXPECT_EQ(evidence.analytic_seconds, far);
  // Far from the sample its correction fades out.
  EXPECT_NEAR(far, 1024 * 2.147483648e-3, 0.01 * far);
}

TEST(ComputeTimeTest, GroupsOfFewRowsPayForWholeTiles) {
  const profile::AcceleratorProfile profile = UnitProfile();
  const ComputeTime compute(profile);
  Evidence evidence;
  // 64 rows in each of 10 groups, half a tile of 128: twice 2 x 640 x 100 x 100 operations.
  EXPECT_DOUBLE_EQ(compute.Product(TableKind::kGroupedGemm, MatrixPrecision::kBf16,
                                   {640, 100, 100, 10}, 0, evidence),
                   2 * 12.8e6 / 1e12);
}

TEST(ComputeTimeTest, BackwardOfAttentionWithoutATableOfItsOwnFollowsTheForwardOne) {
  profile::AcceleratorProfile profile = UnitProfile();
  profile.attention_forward_ratio = 0.6;
  profile.attention_backward_ratio = 0.4;
  profile.tables.emplace_back(
      TableKind::kAttention, MatrixPrecision::kBf16, profile::BaseFit{.peak_ratio = 0.5},
      *profile.ChipFor(MatrixPrecision::kBf16), OperationTable::Samples{}, 0, "");
  const ComputeTime compute(profile);
  model::Operation op;
  op.kind = model::OperationKind::kAttention;
  op.m = op.n = 4096;
  op.k = 128;
  op.groups = 8;
  const model::TrainingSpec training;
  Evidence evidence;
  // 2 x 4096 x 4096 x 128 x 8 operations at half the peak; five products at 0.4 / 0.6 of that rate.
  const double forward = 2.0 * 4096 * 4096 * 128 * 8 / 0.5e12;
  EXPECT_DOUBLE_EQ(compute.Forward(op, training, evidence), forward);
  EXPECT_DOUBLE_EQ(compute.Backward(op, training, evidence), 2.5 * forward * 0.6 / 0.4);
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
  // The weight gradient takes 4.5 % longer.
  EXPECT_DOUBLE_EQ(compute.Backward(op, training, evidence),
                   2.045 * compute.Forward(op, training, evidence));
  // Neither operand is a weight: nothing is added up.
  op.weight = false;
  EXPECT_DOUBLE_EQ(compute.Backward(op, training, evidence),
                   2 * compute.Forward(op, training, evidence));
}

TEST(ComputeTimeTest, EightBitProductsRunAtTheirOwnPeak) {
  profile::AcceleratorProfile profile = UnitProfile();
  profile.fp8_flops_per_second = 2e12;
  profile.memory_bytes_per_second = 1e12;
  const ComputeTime compute(profile);
  model::Operation op;
  op.kind = model::OperationKind::kGemm;
  op.m = op.n = op.k = 1000;
  model::TrainingSpec training;
  Evidence evidence;
  const double wide = compute.Forward(op, training, evidence);
  training.fp8 = true;
  // And its input is cast: four bytes of each of a million elements.
  EXPECT_DOUBLE_EQ(compute.Forward(op, training, evidence), wide / 2 + 4e-6);
  op.low_precision = false;
  EXPECT_DOUBLE_EQ(compute.Forward(op, training, evidence), wide);
}

TEST(ComputeTimeTest, CastsAreNotChargedTwiceWhereTheTableIncludesThem) {
  const auto forward_and_backward = [](bool includes_cast) {
    profile::AcceleratorProfile profile = UnitProfile();
    profile.fp8_flops_per_second = 2e12;
    profile.memory_bytes_per_second = 1e12;
    profile.tables.emplace_back(profile::TableKind::kGemm, MatrixPrecision::kFp8,
                                profile::BaseFit{.includes_cast = includes_cast},
                                *profile.ChipFor(MatrixPrecision::kFp8),
                                profile::OperationTable::Samples(), 1, "test");
    const ComputeTime compute(profile);
    model::Operation op;
    op.m = 3000;
    op.n = 2000;
    op.k = 1000;
    op.groups = 1;
    model::TrainingSpec training;
    training.fp8 = true;
    Evidence evidence;
    double seconds = 0;
    for (const auto kind : {model::OperationKind::kGemm, model::OperationKind::kGroupedGemm}) {
      op.kind = kind;
      seconds += compute.Forward(op, training, evidence) + compute.Backward(op, training, evidence);
    }
    return seconds;
  };
  // Four bytes of 3000 x 1000 elements of the input and 3000 x 2000 of the gradient, for each kind.
  EXPECT_NEAR(forward_and_backward(false) - forward_and_backward(true), 2 * 4 * 9e6 / 1e12, 1e-12);
}

}  // namespace
}  // namespace hapmoe::cost
