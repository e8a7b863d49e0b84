#include "core/cost/schedule.h"

#include <algorithm>
#include <cstddef>

namespace hapmoe::cost {
namespace {

constexpr double kUnknown = -1;

// The order of chunk passes that every rank of an interleaved schedule shares: groups of
// micro-batches, within a group chunk by chunk, within a chunk micro-batch by micro-batch.
struct Pass {
  int64_t chunk = 0;
  int64_t micro_batch = 0;
};

std::vector<Pass> PassOrder(int64_t chunks, int64_t micro_batches, int64_t group) {
  std::vector<Pass> order;
  order.reserve(static_cast<size_t>(chunks * micro_batches));
  for (int64_t start = 0; start < micro_batches; start += group) {
    const int64_t end = std::min(start + group, micro_batches);
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      for (int64_t micro_batch = start; micro_batch < end; ++micro_batch) {
        order.push_back({chunk, micro_batch});
      }
    }
  }
  return order;
}

class Simulation {
 public:
  Simulation(const std::vector<StageTimes>& stages, const ScheduleOptions& options)
      : stages_(stages),
        options_(options),
        count_(static_cast<int64_t>(stages.size())),
        chunks_(static_cast<int64_t>(stages.front().chunks.size())),
        order_(PassOrder(chunks_, options.micro_batches,
                         options.interleaving_group > 0 ? options.interleaving_group : count_)),
        ranks_(stages.size()),
        forward_arrival_(stages.size() * order_.size(), kUnknown),
        backward_arrival_(stages.size() * order_.size(), kUnknown) {
    const int64_t total = static_cast<int64_t>(order_.size());
    const int64_t group = options.interleaving_group > 0 ? options.interleaving_group : count_;
    for (int64_t i = 0; i < count_; ++i) {
      // schedules.py: one forward fewer behind every rank, twice that and whole chunks with virtual
      // stages.
      const int64_t behind = count_ - i - 1;
      const int64_t warm_up = chunks_ == 1 ? behind : 2 * behind + (chunks_ - 1) * group;
      ranks_[i].warm_up = std::min(warm_up, total);
      ranks_[i].left_seconds = WorkOf(i);
    }
    for (int64_t m = 0; m < options.micro_batches; ++m) Arrival(forward_arrival_, 0, 0, m) = 0;
  }

  std::vector<StageTimeline> Run() {
    std::vector<int64_t> ready;
    for (int64_t i = count_ - 1; i >= 0; --i) ready.push_back(i);
    while (!ready.empty()) {
      const int64_t i = ready.back();
      ready.pop_back();
      while (Step(i)) {
        const Rank& rank = ranks_[static_cast<size_t>(i)];
        if (rank.clock + rank.left_seconds >= options_.give_up_seconds) return Bounds();
        // What the pass produced may have unblocked either neighbour.
        ready.push_back(Next(i));
        ready.push_back(Previous(i));
      }
    }
    std::vector<StageTimeline> timelines;
    timelines.reserve(ranks_.size());
    for (const Rank& rank : ranks_) timelines.push_back(rank.timeline);
    return timelines;
  }

  // Of a simulation that gave up.
  std::vector<StageTimeline> Bounds() const {
    std::vector<StageTimeline> timelines;
    for (const Rank& rank : ranks_) {
      timelines.push_back(rank.timeline);
      timelines.back().finish_seconds = rank.clock + rank.left_seconds;
    }
    return timelines;
  }

 private:
  struct Rank {
    int64_t warm_up = 0;
    size_t forwards = 0;   // Passes done.
    size_t backwards = 0;  // Passes done.
    double clock = 0;
    double left_seconds = 0;  // Of passes still to run.
    StageTimeline timeline;
  };

  // The passes of a rank.
  double WorkOf(int64_t i) const {
    const StageTimes& times = stages_[static_cast<size_t>(i)];
    const double count = static_cast<double>(options_.micro_batches);
    double seconds = 0;
    for (const ChunkTimes& chunk : times.chunks)
      seconds += count * (chunk.forward + chunk.backward);
    return seconds;
  }

  int64_t Next(int64_t i) const { return i + 1 < count_ ? i + 1 : 0; }
  int64_t Previous(int64_t i) const { return i > 0 ? i - 1 : count_ - 1; }

  double& Arrival(std::vector<double>& arrivals, int64_t stage, int64_t chunk,
                  int64_t micro_batch) {
    return arrivals[static_cast<size_t>((stage * chunks_ + chunk) * options_.micro_batches +
                                        micro_batch)];
  }

  // Runs the next pass of a rank; false where it waits or is done.
  bool Step(int64_t i) {
    Rank& rank = ranks_[static_cast<size_t>(i)];
    const size_t total = order_.size();
    if (rank.backwards == total) return false;
    // Warm-up forwards, then forward and backward in turn, then the backwards that are left.
    const bool forward = rank.forwards < total &&
                         rank.forwards <= rank.backwards + static_cast<size_t>(rank.warm_up) &&
                         !(rank.forwards == rank.backwards + static_cast<size_t>(rank.warm_up) + 1);
    return forward ? Forward(i, rank) : Backward(i, rank);
  }

  bool Forward(int64_t i, Rank& rank) {
    const Pass pass = order_[rank.forwards];
    const double arrival = Arrival(forward_arrival_, i, pass.chunk, pass.micro_batch);
    if (arrival == kUnknown) return false;
    const StageTimes& times = stages_[static_cast<size_t>(i)];
    Wait(rank, arrival);
    const double seconds = times.chunks[static_cast<size_t>(pass.chunk)].forward;
    rank.clock += seconds;
    rank.left_seconds -= seconds;
    ++rank.forwards;
    rank.timeline.peak_in_flight =
        std::max(rank.timeline.peak_in_flight,
                 static_cast<int64_t>(rank.forwards) - static_cast<int64_t>(rank.backwards));
    const bool last_rank = i + 1 == count_;
    if (last_rank && pass.chunk + 1 == chunks_) {
      Arrival(backward_arrival_, i, pass.chunk, pass.micro_batch) = rank.clock;
      return true;
    }
    const int64_t chunk = last_rank ? pass.chunk + 1 : pass.chunk;
    Arrival(forward_arrival_, Next(i), chunk, pass.micro_batch) = Send(rank, times.send_seconds);
    return true;
  }

  bool Backward(int64_t i, Rank& rank) {
    Pass pass = order_[rank.backwards];
    pass.chunk = chunks_ - 1 - pass.chunk;
    const double arrival = Arrival(backward_arrival_, i, pass.chunk, pass.micro_batch);
    if (arrival == kUnknown) return false;
    Wait(rank, arrival);
    const double seconds =
        stages_[static_cast<size_t>(i)].chunks[static_cast<size_t>(pass.chunk)].backward;
    rank.clock += seconds;
    rank.left_seconds -= seconds;
    ++rank.backwards;
    rank.timeline.finish_seconds = rank.clock;
    if (i == 0 && pass.chunk == 0) return true;
    const int64_t chunk = i == 0 ? pass.chunk - 1 : pass.chunk;
    Arrival(backward_arrival_, Previous(i), chunk, pass.micro_batch) =
        Send(rank, stages_[static_cast<size_t>(Previous(i))].send_seconds);
    return true;
  }

  void Wait(Rank& rank, double arrival) {
    if (arrival <= rank.clock) return;
    rank.timeline.idle_seconds += arrival - rank.clock;
    rank.clock = arrival;
  }

  // Sends from a rank and returns when it arrives.
  double Send(Rank& rank, double seconds) {
    if (options_.overlap_transfers) return rank.clock + seconds;
    rank.clock += seconds;
    rank.timeline.transfer_seconds += seconds;
    return rank.clock;
  }

  const std::vector<StageTimes>& stages_;
  const ScheduleOptions& options_;
  const int64_t count_;
  const int64_t chunks_;
  const std::vector<Pass> order_;
  std::vector<Rank> ranks_;
  std::vector<double> forward_arrival_;
  std::vector<double> backward_arrival_;
};

}  // namespace

std::vector<StageTimeline> SimulateSchedule(const std::vector<StageTimes>& stages,
                                            const ScheduleOptions& options) {
  return Simulation(stages, options).Run();
}

}  // namespace hapmoe::cost
