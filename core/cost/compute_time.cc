#include "core/cost/compute_time.h"

#include <algorithm>
#include <cmath>

namespace hapmoe::cost {
namespace {

using model::Operation;
using model::OperationKind;
using profile::Chip;
using profile::MatrixPrecision;
using profile::OperationShape;
using profile::OperationTable;
using profile::TableKind;

// Rows of a matrix tile: a group of fewer rows costs as much as a full tile.
constexpr double kTileRows = 128;
// Matrix products of attention's backward pass over its forward ones.
constexpr double kAttentionBackwardOverForward = 2.5;
// Weight gradients (transposed operands, accumulated) over products of the same size: 1.04 on
// A100-PCIe, 1.05 on B200, medians of 61 and 226 shapes. Input gradients: 0.99 and 1.01.
// (MooreThreads/SimuMax configs/system.)
constexpr double kWeightGradientOverForward = 1.045;
// Weight gradients are added to a buffer of 32 bit: read and written, less the 16-bit result.
constexpr double kAccumulateBytes = 4 + 4 - 2;
// Distances to the nearest sample, in octaves, up to which a shape counts as measured, and as
// lying between samples.
constexpr double kMeasuredOctaves = 0.15;
constexpr double kInterpolatedOctaves = 2;
// A cast to 8 bit reads two bytes of an element and writes it twice.
constexpr double kCastBytes = 2 + 1 + 1;

// A weight gradient contracts over the rows of each group.
OperationShape WeightGradient(const OperationShape& forward) {
  return {forward.k * forward.groups, forward.n, forward.m / forward.groups, forward.groups};
}

OperationShape InputGradient(const OperationShape& forward) {
  return {forward.m, forward.k, forward.n, forward.groups};
}

OperationShape ShapeOf(const Operation& op) {
  return {static_cast<double>(op.m), static_cast<double>(op.n), static_cast<double>(op.k),
          static_cast<double>(std::max<int64_t>(1, op.groups))};
}

profile::Term TermOf(TableKind kind, MatrixPrecision precision) {
  if (kind == TableKind::kAttention || kind == TableKind::kAttentionBackward) {
    return profile::Term::kAttention;
  }
  return precision == MatrixPrecision::kFp8 ? profile::Term::kLowPrecision
                                            : profile::Term::kProducts;
}

void AddEvidence(double seconds, double octaves, Evidence& evidence) {
  if (octaves <= kMeasuredOctaves) {
    evidence.measured_seconds += seconds;
  } else if (octaves <= kInterpolatedOctaves) {
    evidence.interpolated_seconds += seconds;
  } else {
    evidence.analytic_seconds += seconds;
  }
}

}  // namespace

MatrixPrecision MatrixPrecisionOf(const model::TrainingSpec& training, bool low_precision) {
  if (training.fp8 && low_precision) return MatrixPrecision::kFp8;
  switch (training.precision) {
    case model::Precision::kFp16:
      return MatrixPrecision::kFp16;
    case model::Precision::kFp32:
      return MatrixPrecision::kFp32;
    case model::Precision::kBf16:
      return MatrixPrecision::kBf16;
  }
  return MatrixPrecision::kBf16;
}

// The larger of arithmetic and memory time (Williams et al., CACM 52(4), 2009), plus the launch.
// A product of F operations reaches the share r F / (F + half) of the peak.
double ComputeTime::Roofline(TableKind kind, MatrixPrecision precision, const OperationShape& shape,
                             double extra_bytes) const {
  const double memory =
      (profile::Traffic(kind, shape, profile::ElementBytes(precision)) + extra_bytes) /
      (profile_.memory_bytes_per_second * profile_.memory_ratio);
  // The caller checked that the precision is supported; 8-bit products fall back to 16 bit.
  const double peak = profile_.PeakFlops(precision).value_or(
      profile_.PeakFlops(MatrixPrecision::kBf16)
          .value_or(profile_.PeakFlops(MatrixPrecision::kFp16).value_or(1)));
  double flops = profile::Flops(kind, shape);
  double arithmetic = 0;
  if (kind == TableKind::kAttention || kind == TableKind::kAttentionBackward) {
    const double ratio = kind == TableKind::kAttention ? profile_.attention_forward_ratio
                                                       : profile_.attention_backward_ratio;
    arithmetic = flops / (peak * ratio);
  } else {
    if (kind == TableKind::kGroupedGemm) {
      const double rows = shape.m / shape.groups;
      flops *= std::max(1.0, std::ceil(rows / kTileRows) * kTileRows / std::max(rows, 1.0));
    }
    arithmetic = (flops + profile_.matrix_half_flops) / (peak * profile_.matrix_ratio);
  }
  return std::max(arithmetic, memory) + profile_.kernel_seconds;
}

const OperationTable* ComputeTime::TableFor(TableKind kind, MatrixPrecision precision) const {
  const OperationTable* table = profile_.FindTable(kind, precision);
  return table == nullptr && kind == TableKind::kGroupedGemm
             ? profile_.FindTable(TableKind::kGemm, precision)
             : table;
}

double ComputeTime::Product(TableKind kind, MatrixPrecision precision, const OperationShape& shape,
                            double extra_bytes, Evidence& evidence) const {
  const OperationTable* table = TableFor(kind, precision);
  const std::optional<Chip> chip = profile_.ChipFor(precision);
  const double correction = profile_.corrections.of(TermOf(kind, precision));
  if (table == nullptr || !chip.has_value()) {
    const double seconds = correction * Roofline(kind, precision, shape, extra_bytes);
    evidence.analytic_seconds += seconds;
    return seconds;
  }
  const auto find = [&] { return table->Seconds(kind, shape, *chip, extra_bytes); };
  const profile::TableAnswer answer =
      memo_ == nullptr ? find() : memo_->Get({table, kind, shape, extra_bytes}, find);
  const double seconds = correction * answer.seconds;
  AddEvidence(seconds, answer.octaves, evidence);
  return seconds;
}

double ComputeTime::AttentionBackward(MatrixPrecision precision, const OperationShape& shape,
                                      Evidence& evidence) const {
  if (profile_.FindTable(TableKind::kAttentionBackward, precision) != nullptr ||
      profile_.FindTable(TableKind::kAttention, precision) == nullptr) {
    return Product(TableKind::kAttentionBackward, precision, shape, 0, evidence);
  }
  Evidence forward;
  const double seconds = Product(TableKind::kAttention, precision, shape, 0, forward) *
                         kAttentionBackwardOverForward * profile_.attention_forward_ratio /
                         profile_.attention_backward_ratio;
  evidence.analytic_seconds += seconds;
  return seconds;
}

double ComputeTime::Stream(double bytes, Evidence& evidence) const {
  if (bytes <= 0) return 0;
  const double seconds = profile_.corrections.of(profile::Term::kMemory) *
                         (bytes / (profile_.memory_bytes_per_second * profile_.memory_ratio) +
                          profile_.kernel_seconds);
  evidence.analytic_seconds += seconds;
  return seconds;
}

double ComputeTime::Cast(const Operation& op, const model::TrainingSpec& training, double elements,
                         Evidence& evidence) const {
  if (!training.fp8 || !op.low_precision) return 0;
  const OperationTable* table =
      TableFor(op.kind == OperationKind::kGemm ? TableKind::kGemm : TableKind::kGroupedGemm,
               MatrixPrecision::kFp8);
  // Such a table casts the operand for the forward product or the input gradient, and once more for
  // the weight gradient, which stands for the transposed copy.
  if (table != nullptr && table->fit().includes_cast) return 0;
  return Stream(kCastBytes * elements, evidence);
}

double ComputeTime::Forward(const Operation& op, const model::TrainingSpec& training,
                            Evidence& evidence) const {
  const MatrixPrecision precision = MatrixPrecisionOf(training, op.low_precision);
  const OperationShape shape = ShapeOf(op);
  switch (op.kind) {
    case OperationKind::kGemm:
      return Product(TableKind::kGemm, precision, shape, 0, evidence) +
             Cast(op, training, shape.m * shape.k, evidence);
    case OperationKind::kGroupedGemm:
      return Product(TableKind::kGroupedGemm, precision, shape, 0, evidence) +
             Cast(op, training, shape.m * shape.k, evidence);
    case OperationKind::kAttention:
      return Product(TableKind::kAttention, precision, shape, 0, evidence);
    case OperationKind::kStream:
      return Stream(op.bytes, evidence);
    case OperationKind::kCollective:
      return 0;
  }
  return 0;
}

double ComputeTime::Backward(const Operation& op, const model::TrainingSpec& training,
                             Evidence& evidence) const {
  const MatrixPrecision precision = MatrixPrecisionOf(training, op.low_precision);
  const OperationShape shape = ShapeOf(op);
  switch (op.kind) {
    case OperationKind::kGemm:
    case OperationKind::kGroupedGemm: {
      const TableKind kind =
          op.kind == OperationKind::kGemm ? TableKind::kGemm : TableKind::kGroupedGemm;
      const double accumulate = op.weight ? kAccumulateBytes * shape.groups * shape.n * shape.k : 0;
      return Product(kind, precision, InputGradient(shape), 0, evidence) +
             (op.weight ? kWeightGradientOverForward : 1) *
                 Product(kind, precision, WeightGradient(shape), accumulate, evidence) +
             Cast(op, training, shape.m * shape.n, evidence);
    }
    case OperationKind::kAttention:
      return AttentionBackward(precision, shape, evidence);
    case OperationKind::kStream:
      return Stream(op.backward_bytes, evidence);
    case OperationKind::kCollective:
      return 0;
  }
  return 0;
}

}  // namespace hapmoe::cost
