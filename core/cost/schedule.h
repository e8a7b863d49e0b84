// The pipeline schedule, simulated event by event: what any closed form is tested against.
#ifndef HAPMOE_CORE_COST_SCHEDULE_H_
#define HAPMOE_CORE_COST_SCHEDULE_H_

#include <cstdint>
#include <limits>
#include <vector>

namespace hapmoe::cost {

// Times of one virtual stage for one micro-batch, in seconds.
struct ChunkTimes {
  double forward = 0;
  double backward = 0;
};

// Times of one pipeline rank.
struct StageTimes {
  std::vector<ChunkTimes> chunks;  // One for each virtual stage.
  // Sending one micro-batch's activations to the next rank of the ring (from the last rank: to the
  // first, used with virtual stages), and its gradient back the same way.
  double send_seconds = 0;
};

struct ScheduleOptions {
  int64_t micro_batches = 1;
  // Consecutive micro-batches of one virtual stage; the number of stages where 0. Virtual stages
  // only.
  int64_t interleaving_group = 0;
  // Transfers run beside arithmetic and only delay the receiver. Otherwise both sides wait for
  // them, as 1F1B does.
  bool overlap_transfers = false;
  // The simulation may stop as soon as a rank cannot finish before this; finish_seconds then is a
  // lower bound on every rank, and not below it on one.
  double give_up_seconds = std::numeric_limits<double>::infinity();
};

// What happened on one pipeline rank.
struct StageTimeline {
  double finish_seconds = 0;    // End of its last backward pass.
  double transfer_seconds = 0;  // Spent in transfers of its own, where they are not overlapped.
  double idle_seconds = 0;      // Waiting until its last backward pass ended.
  int64_t peak_in_flight = 0;   // Most chunk passes whose backward pass was still to come.
};

// Simulates one iteration of 1F1B (one chunk on each stage) or interleaved 1F1B (several), with the
// warm-up counts of Megatron-LM's forward_backward_pipelining_* (schedules.py). All stages have the
// same number of chunks. Assumes what the engine checks: with virtual stages, groups of at least as
// many micro-batches as there are stages, and a rest that is none or as large; others would wait
// for ever. Linear in stages x chunks x micro-batches.
std::vector<StageTimeline> SimulateSchedule(const std::vector<StageTimes>& stages,
                                            const ScheduleOptions& options);

}  // namespace hapmoe::cost

#endif  // HAPMOE_CORE_COST_SCHEDULE_H_
