// Most layers that a stage can hold below a time limit, and with it most layers of all stages.
#ifndef HAPMOE_CORE_SEARCH_LAYER_CAPS_H_
#define HAPMOE_CORE_SEARCH_LAYER_CAPS_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "core/search/pipeline_dp.h"
#include "core/search/used_units.h"

namespace hapmoe::search {

// A stage that runs every micro-batch below the limit, with the recomputation that its memory asks
// for, holds no more layers than this. Caps fall as a stage holds more micro-batches in flight, so
// with its distance from the end. They hold for virtual stages too, which keep at least as many
// micro-batches in flight: (2 b + (v - 1) P + 1) / v >= b + 1 with b < P stages behind.
class LayerCaps {
 public:
  // `problem` must outlive this object.
  LayerCaps(const PipelineProblem& problem, double limit_seconds);

  // Of a stage of a port with `behind` stages behind it.
  int64_t Of(size_t port, int64_t behind);
  // Of the last stage, the loss included.
  int64_t OfLast(size_t port) const;
  // The most of any port.
  int64_t Most(int64_t behind);
  // Of one unit of a pool that is no nearer to the end than `behind`.
  double OfUnit(size_t pool, int64_t behind);
  // Of all units left of each pool.
  double OfUnits(const PoolUnits& units_left, int64_t behind);

 private:
  int64_t Largest(absl::FunctionRef<bool(int64_t)> holds) const;
  static int64_t LargestBelow(int64_t fails, absl::FunctionRef<bool(int64_t)> holds);
  bool Holds(size_t kind, int64_t first, int64_t layers, int64_t in_flight) const;
  int64_t Window(int64_t behind) const;

  const PipelineProblem& problem_;
  const int64_t layers_;
  const int64_t micro_batches_;
  const std::vector<Port>& ports_;
  const double limit_;
  std::vector<std::vector<int64_t>> caps_;      // [port][in flight - 1]
  std::vector<std::vector<double>> unit_caps_;  // [in flight - 1][pool]
};

}  // namespace hapmoe::search

#endif  // HAPMOE_CORE_SEARCH_LAYER_CAPS_H_
