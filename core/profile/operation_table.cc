#include "core/profile/operation_table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace hapmoe::profile {
namespace {

struct Tile {
  double rows;
  double columns;
};
// Output tiles of matrix products (CUTLASS and its like); the kernel that wastes least is taken.
constexpr std::array<Tile, 4> kTiles = {Tile{128, 256}, {256, 128}, {128, 128}, {64, 128}};
// Queries that one block of fused attention works on.
constexpr double kAttentionRows = 128;
// Matrix products of attention's backward pass (dV, dP, dQ, dK, and P again) over its forward two.
constexpr double kAttentionBackward = 2.5;
constexpr double kOutputBytes = 2;
// Weights of samples: 1 / (kNear + squared octaves)^2, against one fixed weight of no correction.
constexpr float kNear = 0.05F;
constexpr float kPrior = 0.8F;

bool IsAttention(TableKind kind) {
  return kind == TableKind::kAttention || kind == TableKind::kAttentionBackward;
}

double PassesOf(TableKind kind) {
  return kind == TableKind::kAttentionBackward ? kAttentionBackward : 1;
}

std::array<float, 4> OctavesOf(const OperationShape& shape) {
  const auto octave = [](double x) { return static_cast<float>(std::log2(std::max(x, 1.0))); };
  return {octave(shape.m), octave(shape.n), octave(shape.k), octave(shape.groups)};
}

}  // namespace

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

double Flops(TableKind kind, const OperationShape& shape) {
  const double product = 2 * shape.m * shape.n * shape.k;
  return IsAttention(kind) ? product * shape.groups * PassesOf(kind) : product;
}

double QuantisedFlops(TableKind kind, const OperationShape& shape, double processors) {
  const double flops = Flops(kind, shape);
  if (IsAttention(kind)) {
    const double rows = std::ceil(shape.m / kAttentionRows);
    const double blocks = shape.groups * rows;
    return flops * std::ceil(blocks / processors) * processors / blocks * rows * kAttentionRows /
           shape.m;
  }
  double least = std::numeric_limits<double>::infinity();
  for (const Tile& tile : kTiles) {
    const double tiles = shape.groups * std::ceil(shape.m / shape.groups / tile.rows) *
                         std::ceil(shape.n / tile.columns);
    const double waves = std::ceil(tiles / processors);
    least = std::min(least, waves * processors * tile.rows * tile.columns * 2 * shape.k);
  }
  return std::max(least, flops);
}

double Traffic(TableKind kind, const OperationShape& shape, double element) {
  if (IsAttention(kind)) {
    return 2 * element * shape.groups * (shape.m + shape.n) * shape.k * PassesOf(kind);
  }
  return element * (shape.m * shape.k + shape.groups * shape.n * shape.k) +
         kOutputBytes * shape.m * shape.n;
}

double BaseSeconds(const BaseFit& fit, TableKind kind, const OperationShape& shape,
                   const Chip& chip, double element, double extra_bytes) {
  double flops = Flops(kind, shape);
  if (fit.quantised_ratio > 0) {
    flops += fit.quantised_ratio * (QuantisedFlops(kind, shape, chip.processors) - flops);
  }
  const double depth = IsAttention(kind) ? shape.n : shape.k;
  const double arithmetic = flops * (1 + fit.depth_half / std::max(depth, 1.0)) /
                            (chip.flops_per_second * fit.peak_ratio * fit.sustained_ratio);
  const double memory = (Traffic(kind, shape, element) + extra_bytes) /
                        (chip.memory_bytes_per_second * fit.traffic_ratio);
  return fit.fixed_seconds + std::max(arithmetic, memory);
}

OperationTable::OperationTable(TableKind kind, MatrixPrecision precision, const BaseFit& fit,
                               const Chip& chip, Samples samples, double stated_error,
                               std::string source)
    : kind_(kind),
      precision_(precision),
      fit_(fit),
      samples_(std::move(samples)),
      stated_error_(stated_error),
      source_(std::move(source)) {
  BaseFit burst = fit_;
  burst.sustained_ratio = 1;
  for (size_t i = 0; i < samples_.shapes.size(); ++i) {
    const OperationShape& shape = samples_.shapes[i];
    const std::array<float, 4> point = OctavesOf(shape);
    for (size_t d = 0; d < point.size(); ++d) octaves_[d].push_back(point[d]);
    const double base = BaseSeconds(burst, kind_, shape, chip, ElementBytes(precision_));
    residuals_.push_back(static_cast<float>(std::log(samples_.seconds[i] / base)));
  }
}

std::pair<float, float> OperationTable::Correction(const std::array<float, 4>& point,
                                                   int left_out) const {
  float weights = kPrior;
  float sum = 0;
  float nearest = std::numeric_limits<float>::infinity();
  const int count = static_cast<int>(residuals_.size());
  const float* m = octaves_[0].data();
  const float* n = octaves_[1].data();
  const float* k = octaves_[2].data();
  const float* groups = octaves_[3].data();
  for (int i = 0; i < count; ++i) {
    const float dm = m[i] - point[0];
    const float dn = n[i] - point[1];
    const float dk = k[i] - point[2];
    const float dg = groups[i] - point[3];
    const float distance = dm * dm + dn * dn + dk * dk + dg * dg;
    const float inverse = 1 / (kNear + distance);
    const float weight = i == left_out ? 0 : inverse * inverse;
    weights += weight;
    sum += weight * residuals_[static_cast<size_t>(i)];
    nearest = std::min(nearest, i == left_out ? nearest : distance);
  }
  return {sum / weights, nearest};
}

TableAnswer OperationTable::Seconds(TableKind kind, const OperationShape& shape, const Chip& chip,
                                    double extra_bytes) const {
  OperationShape known = shape;
  if (kind != kind_ && kind == TableKind::kGroupedGemm) known.groups = 1;
  const auto [residual, squared] = Correction(OctavesOf(known), -1);
  const double base = BaseSeconds(fit_, kind, shape, chip, ElementBytes(precision_), extra_bytes);
  // Never faster than the data sheet.
  const double least = Flops(kind, shape) / (chip.flops_per_second * fit_.sustained_ratio);
  return {std::max(least, base * std::exp(static_cast<double>(residual))),
          std::sqrt(static_cast<double>(squared))};
}

double OperationTable::LeaveOneOutError() const {
  if (residuals_.empty()) return 0;
  double sum = 0;
  for (size_t i = 0; i < residuals_.size(); ++i) {
    const std::array<float, 4> point = {octaves_[0][i], octaves_[1][i], octaves_[2][i],
                                        octaves_[3][i]};
    sum += std::fabs(Correction(point, static_cast<int>(i)).first - residuals_[i]);
  }
  return sum / static_cast<double>(residuals_.size());
}

}  // namespace hapmoe::profile
