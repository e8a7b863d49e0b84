// Measured times of collectives inside a scale-up domain.
#ifndef HAPMOE_CORE_PROFILE_COLLECTIVE_CURVES_H_
#define HAPMOE_CORE_PROFILE_COLLECTIVE_CURVES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/violation.h"

namespace hapmoe::profile {

enum class CollectivePrimitive {
  kAllGather,
  kReduceScatter,
  kAllReduce,
  kAllToAll,
  kSendReceive,
};

// See the wire message CollectiveCurve.
struct CollectiveCurve {
  CollectivePrimitive primitive = CollectivePrimitive::kAllGather;
  int64_t ranks = 0;
  std::vector<double> bytes;
  std::vector<double> seconds;
  std::vector<double> held_bytes;
  std::vector<double> held_seconds;
  double error_bound = 0;

  // Straight lines between points; the first time below them, the last rate above.
  double Seconds(double at_bytes) const;
  // Mean of |predicted - measured| / measured over the held points; 0 without any.
  double HeldError() const;
};

// The curves of one accelerator type. Immutable once built; a look-up takes some ten nanoseconds.
class CollectiveCurves {
 public:
  CollectiveCurves() = default;
  explicit CollectiveCurves(std::vector<CollectiveCurve> curves);

  bool empty() const { return curves_.empty(); }

  // The time of the same bytes over the nearest number of ranks that was measured: the smallest
  // that is not below `ranks`, else the largest. Links stay as busy, so only steps differ. Nothing
  // where the primitive was not measured.
  struct Reading {
    double seconds = 0;
    int64_t ranks = 0;
  };
  std::optional<Reading> Read(CollectivePrimitive primitive, int64_t ranks, double bytes) const;

  // Every fault: curves that are ragged, not finite, not ascending, listed twice, faster than
  // `bytes_per_second` allows, or further from their held points than they state. Call it before
  // any look-up. Fields are paths below the profile.
  Violations Check(double bytes_per_second) const;

 private:
  std::vector<CollectiveCurve> curves_;  // As given.
};

}  // namespace hapmoe::profile

#endif  // HAPMOE_CORE_PROFILE_COLLECTIVE_CURVES_H_
