// Lower bounds of a 1F1B pipeline: what makes the search exact.
#ifndef HAPMOE_CORE_SEARCH_BOUND_H_
#define HAPMOE_CORE_SEARCH_BOUND_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace hapmoe::search {

// Time from the first forward pass of a stage to the end of its last backward pass, at least.
// forward, backward: of one micro-batch, the transfers that occupy the stage included.
// round_trip: from the end of a forward pass until its gradient can be back, the sum of the forward
// and backward times of all stages behind. in_flight: forward passes that may run before the first
// backward pass.
// - The stage has micro_batches x (forward + backward) to do.
// - Its first backward pass cannot begin before forward + round_trip, and by then it can have run
//   only in_flight forward passes.
// - Forward pass k waits for backward pass k - in_flight, so every in_flight passes take a round.
inline double OwnSeconds(double forward, double backward, double round_trip, int64_t micro_batches,
                         int64_t in_flight) {
  const double count = static_cast<double>(micro_batches);
  const double window = static_cast<double>(in_flight);
  const double rounds = static_cast<double>((micro_batches + in_flight - 1) / in_flight);
  return std::max({count * (forward + backward),
                   forward + round_trip + count * backward + (count - window) * forward,
                   rounds * (forward + round_trip + backward)});
}

// What is known of a run of stages that ends the pipeline.
struct SuffixBound {
  double round_trip = 0;  // Sum of forward and backward times: R of the stage in front.
  double seconds = 0;     // T: from the first forward of the run to the end of its last backward.
};

// Adds a stage in front of a run. Both results grow with both inputs, so a run that is no worse in
// both may replace another.
inline SuffixBound Extend(const SuffixBound& suffix, double forward, double backward,
                          int64_t micro_batches, int64_t in_flight) {
  const double own = OwnSeconds(forward, backward, suffix.round_trip, micro_batches, in_flight);
  return {suffix.round_trip + forward + backward,
          std::max(own, forward + backward + suffix.seconds)};
}

// No assignment of `layers` layers to stages that take `layer_seconds[k]` for the forward and
// backward pass of one layer can finish micro_batches sooner. Stage k cannot start before the first
// micro-batch has passed the stages in front, and has M t_k to do: sum of t in front + M t_k <= T
// for all k gives t_k <= T/M (1 - 1/M)^k, so T / M x sum_k (1 - 1/M)^k / layer_seconds[k] layers at
// most, and most with the fastest stages first.
double SplitBound(std::vector<double> layer_seconds, double layers, int64_t micro_batches);

}  // namespace hapmoe::search

#endif  // HAPMOE_CORE_SEARCH_BOUND_H_
