// What is known about one accelerator type: data sheet, efficiencies, measured operation times.
#ifndef HAPMOE_CORE_PROFILE_ACCELERATOR_PROFILE_H_
#define HAPMOE_CORE_PROFILE_ACCELERATOR_PROFILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/violation.h"

namespace hapmoe::profile {

enum class MatrixPrecision { kBf16, kFp16, kFp8, kFp32 };

enum class SampleKind { kGemm, kGroupedGemm, kAttention };

// One measured operation; see the wire message OperationSample for the meaning of m, n, k.
struct Sample {
  SampleKind kind = SampleKind::kGemm;
  MatrixPrecision precision = MatrixPrecision::kBf16;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t groups = 1;
  double seconds = 0;
};

// Immutable once loaded; shared between requests.
struct AcceleratorProfile {
  std::string name;
  std::vector<std::string> aliases;
  std::string vendor;
  std::string architecture;

  // Peak dense rates; absent where not supported or not known.
  std::optional<double> bf16_flops_per_second;
  std::optional<double> fp16_flops_per_second;
  std::optional<double> fp8_flops_per_second;
  std::optional<double> fp32_flops_per_second;

  double memory_bytes = 0;
  double memory_bytes_per_second = 0;
  double context_bytes = 0;          // Held before the first tensor.
  double allocator_slack_ratio = 0;  // Fragmentation, as a share of allocated bytes.

  double scale_up_bytes_per_second = 0;       // One direction, all links of one accelerator.
  double scale_up_pair_bytes_per_second = 0;  // One direction, one pair.
  double scale_up_latency_seconds = 0;
  int64_t scale_up_domain = 1;  // Accelerators in one domain.

  double network_bytes_per_second = 0;  // One direction, injected by one accelerator.
  double network_latency_seconds = 0;

  // Shares of the peaks that programs reach, in (0, 1].
  double matrix_ratio = 1;
  double matrix_half_flops = 0;  // Operations at which a product reaches half of matrix_ratio.
  double attention_forward_ratio = 1;
  double attention_backward_ratio = 1;
  double memory_ratio = 1;
  double scale_up_ratio = 1;
  double network_ratio = 1;
  double kernel_seconds = 0;  // Fixed time of one operation on the accelerator.
  double launch_seconds = 0;  // What the host takes to issue one operator of the framework.

  std::vector<Sample> samples;

  // Peak rate, or nothing where the accelerator does not support the precision.
  std::optional<double> PeakFlops(MatrixPrecision precision) const;
};

// Every fault of a profile: missing or non-finite figures, ratios outside (0, 1], bad samples.
Violations Validate(const AcceleratorProfile& profile);

}  // namespace hapmoe::profile

#endif  // HAPMOE_CORE_PROFILE_ACCELERATOR_PROFILE_H_
