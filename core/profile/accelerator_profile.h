// What is known about one accelerator type: data sheet, efficiencies, measured operation times.
#ifndef HAPMOE_CORE_PROFILE_ACCELERATOR_PROFILE_H_
#define HAPMOE_CORE_PROFILE_ACCELERATOR_PROFILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/violation.h"
#include "core/profile/collective_curves.h"
#include "core/profile/corrections.h"
#include "core/profile/layer_table.h"
#include "core/profile/operation_table.h"

namespace hapmoe::profile {

// What joins the islands of a scale-up domain, as PCIe switches at different sockets.
struct Bridge {
  int64_t island = 1;           // Accelerators that need no bridge to reach each other.
  double bytes_per_second = 0;  // One direction, of all of an island together, as measured.
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

  double processors = 1;  // Streaming multiprocessors, compute units or cube cores.

  double memory_bytes = 0;
  double memory_bytes_per_second = 0;
  double context_bytes = 0;          // Held before the first tensor.
  double allocator_slack_ratio = 0;  // Fragmentation, as a share of what comes and goes.

  double scale_up_bytes_per_second = 0;       // One direction, all links of one accelerator.
  double scale_up_pair_bytes_per_second = 0;  // One direction, one pair.
  double scale_up_latency_seconds = 0;
  int64_t scale_up_domain = 1;          // Accelerators in one domain.
  bool scale_up_crosses_nodes = false;  // Else a domain ends with its node.
  std::optional<Bridge> bridge;         // Absent where a domain is of one piece.

  double network_bytes_per_second = 0;  // One direction, injected by one accelerator.
  double network_latency_seconds = 0;

  // One accelerator's share of the host, at its peak.
  double host_link_bytes_per_second = 25e9;  // One direction.
  double host_memory_bytes_per_second = 25e9;

  // Shares of the peaks that programs reach, in (0, 1].
  double matrix_ratio = 1;
  double matrix_half_flops = 0;  // Operations at which a product reaches half of matrix_ratio.
  bool fused_attention = true;   // Else scores go through memory, and the next two count nothing.
  double attention_forward_ratio = 1;
  double attention_backward_ratio = 1;
  double memory_ratio = 1;
  double scale_up_ratio = 1;
  double network_ratio = 1;
  double kernel_seconds = 0;  // Fixed time of one operation on the accelerator.
  double launch_seconds = 0;  // What the host takes to issue one operator of the framework.

  std::vector<OperationTable> tables;

  std::vector<LayerTable> layers;  // Whole layers; before the tables of operations.

  // What a table of layers of this very shape says, or nothing.
  std::optional<LayerTimes> FindLayer(const LayerShape& shape, int64_t tp,
                                      int64_t micro_batch) const;
  // The table of a kind and precision, or null. 16-bit formats share theirs.
  const OperationTable* FindTable(TableKind kind, MatrixPrecision precision) const;
  // What the operations of a precision run on; nothing where it is not supported.
  std::optional<Chip> ChipFor(MatrixPrecision precision) const;

  CollectiveCurves collectives;  // Measured inside a scale-up domain.
  // Time in training over time alone, at least 1.
  double scale_up_contention = 1;
  double network_contention = 1;

  // By measured iterations (core/feedback); no part of what was loaded.
  Corrections corrections;

  // Peak rate, or nothing where the accelerator does not support the precision.
  std::optional<double> PeakFlops(MatrixPrecision precision) const;
};

// Every fault of a profile: missing or non-finite figures, ratios outside (0, 1],
// bad samples, tables that miss the error they state.
Violations Validate(const AcceleratorProfile& profile);

}  // namespace hapmoe::profile

#endif  // HAPMOE_CORE_PROFILE_ACCELERATOR_PROFILE_H_
