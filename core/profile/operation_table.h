// Measured times of one kind of operation on one accelerator type, and what lies between them.
#ifndef HAPMOE_CORE_PROFILE_OPERATION_TABLE_H_
#define HAPMOE_CORE_PROFILE_OPERATION_TABLE_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace hapmoe::profile {

enum class MatrixPrecision { kBf16, kFp16, kFp8, kFp32 };

enum class TableKind { kGemm, kGroupedGemm, kAttention, kAttentionBackward };

// A shape that a time is known or asked for. Matrix products: C[m,n] = A[m,k] B[k,n], in `groups`
// products of m / groups rows each. Causal attention: m queries and n keys of each sequence, heads
// of k elements (the mean of query and value heads), `groups` sequences times heads.
struct OperationShape {
  double m = 0;
  double n = 0;
  double k = 0;
  double groups = 1;
};

// What one accelerator can do, as far as operation times depend on it.
struct Chip {
  double flops_per_second = 0;  // Peak, in the precision at hand.
  double memory_bytes_per_second = 0;
  double processors = 1;  // Streaming multiprocessors, compute units or cube cores.
};

// Parameters of the base time of a kind of operation:
//   fixed + max( F' (1 + depth_half / depth) / (peak x peak_ratio x sustained_ratio),
//                bytes / (bandwidth x traffic_ratio) )
// F' lies between the operations asked for and those of whole tiles in whole waves over all
// processors; depth is what a tile is accumulated over: k, or the keys of attention.
struct BaseFit {
  double peak_ratio = 1;
  double quantised_ratio = 0;  // 0: F' is what is asked for; 1: whole tiles and waves.
  double depth_half = 0;
  double fixed_seconds = 0;
  double traffic_ratio = 1;
  // Arithmetic rate that a long run under its power limit keeps of that of the samples, which are
  // short bursts.
  double sustained_ratio = 1;
  // Times include casting the first operand to the precision, from 16 bit.
  bool includes_cast = false;
};

// Operations of a shape: 2 m n k, and for attention those of the visible half of its two products
// forward, two and a half times that backward.
double Flops(TableKind kind, const OperationShape& shape);
// The same, of whole tiles in whole waves.
double QuantisedFlops(TableKind kind, const OperationShape& shape, double processors);
// Bytes that are read and written once. `element`: bytes of an input element; outputs have two.
double Traffic(TableKind kind, const OperationShape& shape, double element);

// `extra_bytes`: traffic beside the operands', accumulating into 32 bit for example.
double BaseSeconds(const BaseFit& fit, TableKind kind, const OperationShape& shape,
                   const Chip& chip, double element, double extra_bytes = 0);

// Bytes of an element of a precision.
double ElementBytes(MatrixPrecision precision);

// What a table knows about one shape.
struct TableAnswer {
  double seconds = 0;
  double octaves = 0;  // Distance to the nearest sample; infinite without samples.
};

// A fit with the samples it was made from. The time of a shape is its base time, corrected by how
// far the samples around it are from theirs: inverse distances in octaves, fading out where no
// sample is near. Immutable, thread safe.
class OperationTable {
 public:
  // One entry for each sample in all vectors.
  struct Samples {
    std::vector<OperationShape> shapes;
    std::vector<double> seconds;
  };

  OperationTable() = default;
  OperationTable(TableKind kind, MatrixPrecision precision, const BaseFit& fit, const Chip& chip,
                 Samples samples, double stated_error, std::string source);

  TableKind kind() const { return kind_; }
  MatrixPrecision precision() const { return precision_; }
  const BaseFit& fit() const { return fit_; }
  const Samples& samples() const { return samples_; }
  const std::string& source() const { return source_; }
  double stated_error() const { return stated_error_; }

  // `kind` may be a grouped product asked of a table of plain ones.
  TableAnswer Seconds(TableKind kind, const OperationShape& shape, const Chip& chip,
                      double extra_bytes) const;

  // Mean of the absolute logarithm of predicted over measured time, where each sample is predicted
  // by the others.
  double LeaveOneOutError() const;

 private:
  // Logarithm of the correction at a point, and the squared distance to the nearest sample.
  // `left_out`: index of a sample to ignore, or -1.
  std::pair<float, float> Correction(const std::array<float, 4>& point, int left_out) const;

  TableKind kind_ = TableKind::kGemm;
  MatrixPrecision precision_ = MatrixPrecision::kBf16;
  BaseFit fit_;
  Samples samples_;
  double stated_error_ = 0;
  std::string source_;
  // Samples as columns: octaves of m, n, k and groups, and logarithm of measured over base time.
  std::array<std::vector<float>, 4> octaves_;
  std::vector<float> residuals_;
};

}  // namespace hapmoe::profile

#endif  // HAPMOE_CORE_PROFILE_OPERATION_TABLE_H_
