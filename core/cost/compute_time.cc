#include "core/cost/compute_time.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

namespace hapmoe::cost {
namespace {

using model::Operation;
using model::OperationKind;
using profile::AcceleratorProfile;
using profile::MatrixPrecision;
using profile::Sample;
using profile::SampleKind;

// Rows of a matrix tile: a group of fewer rows costs as much as a full tile.
constexpr double kTileRows = 128;
// Matrix products of attention's backward pass (dV, dP, dQ, dK, and P again) over its forward two.
constexpr double kAttentionBackwardOverForward = 2.5;

std::optional<SampleKind> SampleKindOf(OperationKind kind) {
  switch (kind) {
    case OperationKind::kGemm:
      return SampleKind::kGemm;
    case OperationKind::kGroupedGemm:
      return SampleKind::kGroupedGemm;
    case OperationKind::kAttention:
      return SampleKind::kAttention;
    case OperationKind::kStream:
    case OperationKind::kCollective:
      return std::nullopt;
  }
  return std::nullopt;
}

// Samples ordered so that those that differ only in m are neighbours.
class SampleTable {
 public:
  using Key = std::tuple<SampleKind, MatrixPrecision, int64_t, int64_t, int64_t>;

  explicit SampleTable(const std::vector<Sample>& samples) {
    for (const Sample& sample : samples) {
      rows_[Key(sample.kind, sample.precision, sample.n, sample.k,
                std::max<int64_t>(1, sample.groups))][sample.m] = sample.seconds;
    }
  }

  // Times by m of the samples that share everything else with `shape`, or null.
  const std::map<int64_t, double>* Find(const KernelShape& shape) const {
    const std::optional<SampleKind> kind = SampleKindOf(shape.kind);
    if (!kind.has_value() || shape.backward) return nullptr;
    const auto row = rows_.find(Key(*kind, shape.precision, shape.n, shape.k, shape.groups));
    return row == rows_.end() ? nullptr : &row->second;
  }

 private:
  std::map<Key, std::map<int64_t, double>> rows_;
};

class MeasuredTimer : public KernelTimer {
 public:
  explicit MeasuredTimer(std::shared_ptr<const SampleTable> table) : table_(std::move(table)) {}

  std::optional<double> Seconds(const KernelShape& shape) const override {
    const auto* row = table_->Find(shape);
    if (row == nullptr) return std::nullopt;
    const auto hit = row->find(shape.m);
    if (hit == row->end()) return std::nullopt;
    return hit->second;
  }

 private:
  std::shared_ptr<const SampleTable> table_;
};

// Linear in m between two samples; it never extrapolates.
class InterpolatingTimer : public KernelTimer {
 public:
  explicit InterpolatingTimer(std::shared_ptr<const SampleTable> table)
      : table_(std::move(table)) {}

  std::optional<double> Seconds(const KernelShape& shape) const override {
    const auto* row = table_->Find(shape);
    if (row == nullptr) return std::nullopt;
    const auto above = row->lower_bound(shape.m);
    if (above == row->end() || above == row->begin()) return std::nullopt;
    const auto below = std::prev(above);
    const double share = static_cast<double>(shape.m - below->first) /
                         static_cast<double>(above->first - below->first);
    return below->second + share * (above->second - below->second);
  }

 private:
  std::shared_ptr<const SampleTable> table_;
};

// The larger of arithmetic and memory time (Williams et al., CACM 52(4), 2009), plus the launch.
// A product of F operations reaches the share r F / (F + half) of the peak.
class RooflineTimer : public KernelTimer {
 public:
  explicit RooflineTimer(const AcceleratorProfile& profile) : profile_(profile) {}

  std::optional<double> Seconds(const KernelShape& shape) const override {
    const double memory = shape.bytes / (profile_.memory_bytes_per_second * profile_.memory_ratio);
    if (shape.kind == OperationKind::kStream) return memory + profile_.kernel_seconds;
    // The caller checked that the precision is supported; 8-bit products fall back to 16 bit.
    const double peak =
        profile_.PeakFlops(shape.precision)
            .value_or(profile_.PeakFlops(MatrixPrecision::kBf16)
                          .value_or(profile_.PeakFlops(MatrixPrecision::kFp16).value_or(1)));
    if (shape.kind == OperationKind::kAttention) {
      const double ratio =
          shape.backward ? profile_.attention_backward_ratio : profile_.attention_forward_ratio;
      return std::max(shape.flops / (peak * ratio), memory) + profile_.kernel_seconds;
    }
    double flops = shape.flops;
    if (shape.kind == OperationKind::kGroupedGemm && shape.groups > 0 && shape.m > 0) {
      const double rows = static_cast<double>(shape.m) / static_cast<double>(shape.groups);
      const double tiles = std::ceil(rows / kTileRows) * kTileRows;
      flops *= std::max(1.0, tiles / std::max(rows, 1.0));
    }
    const double arithmetic = (flops + profile_.matrix_half_flops) / (peak * profile_.matrix_ratio);
    return std::max(arithmetic, memory) + profile_.kernel_seconds;
  }

 private:
  const AcceleratorProfile& profile_;
};

double ElementBytes(MatrixPrecision precision) {
  switch (precision) {
    case MatrixPrecision::kFp8:
      return 1;
    case MatrixPrecision::kFp32:
      return 4;
    case MatrixPrecision::kBf16:
    case MatrixPrecision::kFp16:
      return 2;
  }
  return 2;
}

KernelShape ProductShape(OperationKind kind, MatrixPrecision precision, int64_t m, int64_t n,
                         int64_t k, int64_t groups) {
  KernelShape shape;
  shape.kind = kind;
  shape.precision = precision;
  shape.m = m;
  shape.n = n;
  shape.k = k;
  shape.groups = groups;
  const double rows = static_cast<double>(m);
  const double columns = static_cast<double>(n);
  const double depth = static_cast<double>(k);
  shape.flops = 2 * rows * columns * depth;
  shape.bytes = ElementBytes(precision) *
                (rows * depth + static_cast<double>(groups) * depth * columns + rows * columns);
  return shape;
}

// Queries, keys, values and the output, read and written once.
KernelShape AttentionShape(const Operation& op, MatrixPrecision precision, bool backward) {
  KernelShape shape;
  shape.kind = op.kind;
  shape.precision = precision;
  shape.m = op.m;
  shape.n = op.n;
  shape.k = op.k;
  shape.backward = backward;
  const double scale = backward ? kAttentionBackwardOverForward : 1;
  shape.flops = op.flops * scale;
  shape.bytes =
      4 * ElementBytes(precision) * static_cast<double>(op.m) * static_cast<double>(op.k) * scale;
  return shape;
}

KernelShape StreamShape(double bytes) {
  KernelShape shape;
  shape.kind = OperationKind::kStream;
  shape.bytes = bytes;
  return shape;
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

ComputeTime::ComputeTime(const AcceleratorProfile& profile) {
  if (!profile.samples.empty()) {
    const auto table = std::make_shared<const SampleTable>(profile.samples);
    measured_ = std::make_unique<MeasuredTimer>(table);
    interpolated_ = std::make_unique<InterpolatingTimer>(table);
  }
  roofline_ = std::make_unique<RooflineTimer>(profile);
}

double ComputeTime::Seconds(const KernelShape& shape, Evidence& evidence) const {
  if (measured_ != nullptr) {
    if (const auto seconds = measured_->Seconds(shape)) {
      evidence.measured_seconds += *seconds;
      return *seconds;
    }
    if (const auto seconds = interpolated_->Seconds(shape)) {
      evidence.interpolated_seconds += *seconds;
      return *seconds;
    }
  }
  const double seconds = *roofline_->Seconds(shape);
  evidence.analytic_seconds += seconds;
  return seconds;
}

double ComputeTime::Forward(const Operation& op, const model::TrainingSpec& training,
                            Evidence& evidence) const {
  const MatrixPrecision precision = MatrixPrecisionOf(training, op.low_precision);
  switch (op.kind) {
    case OperationKind::kGemm:
    case OperationKind::kGroupedGemm:
      return Seconds(ProductShape(op.kind, precision, op.m, op.n, op.k, op.groups), evidence);
    case OperationKind::kAttention:
      return Seconds(AttentionShape(op, precision, /*backward=*/false), evidence);
    case OperationKind::kStream:
      return op.bytes > 0 ? Seconds(StreamShape(op.bytes), evidence) : 0;
    case OperationKind::kCollective:
      return 0;
  }
  return 0;
}

double ComputeTime::Backward(const Operation& op, const model::TrainingSpec& training,
                             Evidence& evidence) const {
  const MatrixPrecision precision = MatrixPrecisionOf(training, op.low_precision);
  switch (op.kind) {
    case OperationKind::kGemm:
      // dA = dC B^T, dB = A^T dC.
      return Seconds(ProductShape(op.kind, precision, op.m, op.k, op.n, 1), evidence) +
             Seconds(ProductShape(op.kind, precision, op.k, op.n, op.m, 1), evidence);
    case OperationKind::kGroupedGemm:
      // The weight gradient contracts over each group's rows: as much work as the forward product.
      return Seconds(ProductShape(op.kind, precision, op.m, op.k, op.n, op.groups), evidence) +
             Seconds(ProductShape(op.kind, precision, op.m, op.n, op.k, op.groups), evidence);
    case OperationKind::kAttention:
      return Seconds(AttentionShape(op, precision, /*backward=*/true), evidence);
    case OperationKind::kStream:
      return op.backward_bytes > 0 ? Seconds(StreamShape(op.backward_bytes), evidence) : 0;
    case OperationKind::kCollective:
      return 0;
  }
  return 0;
}

}  // namespace hapmoe::cost
