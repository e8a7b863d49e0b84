// Lower bounds of a 1F1B pipeline: what makes the search exact.
#ifndef HAPMOE_CORE_SEARCH_BOUND_H_
#define HAPMOE_CORE_SEARCH_BOUND_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/cost/schedule.h"

namespace hapmoe::search {

// Time from the first forward pass of a stage to the end of its last backward pass, at least.
// forward, backward: of one micro-batch, the transfers that occupy the stage included.
// round_trip: from the end of a forward pass until its gradient can be back, the sum of the forward
// and backward times of all stages behind. in_flight <= micro_batches: forward passes before the
// first backward pass.
// - Before its first backward pass the stage runs in_flight forward passes, and the first of them
//   must make its round trip. Then it alternates until its last forward pass. After that it runs
//   in_flight backward passes, and the last micro-batch must make its round trip.
// - Where all forward passes come first, the two round trips overlap, and only one of them counts.
// - Forward pass k waits for backward pass k - in_flight, so every in_flight passes take a round.
inline double OwnSeconds(double forward, double backward, double round_trip, int64_t micro_batches,
                         int64_t in_flight) {
  const double window = static_cast<double>(in_flight);
  const double fill = std::max(window * forward, forward + round_trip);
  const double drain = std::max(window * backward, round_trip + backward);
  if (micro_batches == in_flight) {
    return std::max(fill + window * backward, window * forward + drain);
  }
  const double alternating = static_cast<double>(micro_batches - in_flight) * (forward + backward);
  const int64_t rounds = (micro_batches + in_flight - 1) / in_flight;
  return std::max(fill + alternating + drain,
                  static_cast<double>(rounds) * (forward + round_trip + backward));
}

// What is known of a run of stages that ends the pipeline. Seconds count from its first forward
// pass.
struct SuffixBound {
  double round_trip = 0;  // Sum of forward and backward times: R of the stage in front.
  double passes = 0;      // T: until the last backward pass of the front stage.
  double ready = 0;       // Until every stage has synchronised its gradients.
  double step = 0;        // Longest optimizer step; steps start together when all are ready.

  double seconds() const { return ready + step; }
};

// One stage that is added in front of a run.
struct StageSeconds {
  double forward = 0;
  double backward = 0;
  double sync = 0;  // Gradients, after its last backward pass.
  double step = 0;  // Optimizer and parameters, after all gradients.
  // Of `backward`: the transfer to the stage in front. Gradients do not wait for the last one.
  double last_send = 0;
};

// Adds a stage in front of a run. All results grow with all inputs, so a run that is no worse in
// everything may replace another. The passes of the stages in front do not wait for the gradients.
inline SuffixBound Extend(const SuffixBound& suffix, const StageSeconds& stage,
                          int64_t micro_batches, int64_t in_flight) {
  const double own =
      OwnSeconds(stage.forward, stage.backward, suffix.round_trip, micro_batches, in_flight);
  const double both = stage.forward + stage.backward;
  SuffixBound sum;
  sum.round_trip = suffix.round_trip + both;
  sum.passes = std::max(own, both + suffix.passes);
  sum.ready = std::max(sum.passes - stage.last_send + stage.sync, stage.forward + suffix.ready);
  sum.step = std::max(stage.step, suffix.step);
  return sum;
}

// One rank of an interleaved schedule that is added in front of a run.
struct InterleavedSeconds {
  double work = 0;            // One micro-batch through all chunks, occupying transfers included.
  double first_forward = 0;   // The first chunk, and the transfer to the next rank.
  double first_backward = 0;  // The same for its gradient, and the transfer to the rank before.
  double slowest_pair = 0;    // The slowest forward and the slowest backward pass of its chunks.
  double sync = 0;
  double step = 0;
  // The transfer of the last gradient to the rank before, which the rank's own do not wait for:
  // part of first_backward, and of `work` where it occupies the rank.
  double last_send = 0;
  bool last_send_occupies = false;
};

// The same as Extend for interleaved 1F1B in groups of P micro-batches. A rank has all its work to
// do between two moments: the first micro-batch reaches it through the first chunks of the ranks in
// front, and its last pass is the backward pass of the last micro-batch in its first chunk, since
// every rank runs chunks in the same order; after it the gradient returns through their first
// chunks.
//
// Ranks run in lockstep, too. Once in each group but the first, the last rank runs the P forward
// and backward passes of its last chunk in turn, `last_chunk` seconds for each pair. With b ranks
// behind, a rank's forward pass leads to the last rank's of 2 b pairs later, and the last rank's
// backward pass to this rank's of the same pair; so the rank's own work may be followed but for
// P + 2 b pairs, which the last rank's P take the place of.
inline SuffixBound ExtendInterleaved(const SuffixBound& suffix, const InterleavedSeconds& rank,
                                     int64_t micro_batches, int64_t stages, int64_t behind,
                                     double last_chunk) {
  const double all = static_cast<double>(stages);
  const int64_t whole_groups = micro_batches / stages;
  const double groups = static_cast<double>(whole_groups - 1);
  const double exchange =
      all * last_chunk - (all + 2 * static_cast<double>(behind)) * rank.slowest_pair;
  const double own = static_cast<double>(micro_batches) * rank.work +
                     (behind > 0 ? groups * std::max(0.0, exchange) : 0);
  const double round = rank.first_forward + rank.first_backward + suffix.passes;
  const double finish =
      std::max(own - (rank.last_send_occupies ? rank.last_send : 0), round - rank.last_send);
  SuffixBound sum;
  sum.passes = std::max(own, round);
  sum.ready = std::max(finish + rank.sync, rank.first_forward + suffix.ready);
  sum.step = std::max(rank.step, suffix.step);
  return sum;
}

// End of the last backward pass of each rank of an interleaved schedule, at least; tighter than
// ExtendInterleaved, for pipelines that are complete. A rank has all its work to do from when the
// first micro-batch reaches it. It runs its warm-up before its first backward pass, which waits
// until the first micro-batch has gone through all chunks and come back; all its backward passes
// and the other forward passes follow. Likewise seen from its last forward pass: the last
// micro-batch still has to come back through all chunks.
std::vector<double> InterleavedFinish(const std::vector<cost::StageTimes>& ranks,
                                      const cost::ScheduleOptions& options);

// No assignment of `layers` layers to stages that take `layer_seconds[k]` for the forward and
// backward pass of one layer can finish micro_batches sooner. Stage k cannot start before the first
// micro-batch has passed the stages in front, of which it sees at least one in `virtual_stages`
// equal parts, and has M t_k to do: sum of t / v in front + M t_k <= T for all k gives
// t_k <= T/M (1 - 1/(M v))^k, so T / M x sum_k (1 - 1/(M v))^k / layer_seconds[k] layers at most,
// and most with the fastest stages first. No more stages than layers are used.
double SplitBound(std::vector<double> layer_seconds, double layers, int64_t micro_batches,
                  int64_t virtual_stages = 1);

}  // namespace hapmoe::search

#endif  // HAPMOE_CORE_SEARCH_BOUND_H_
