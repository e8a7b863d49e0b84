#include "core/search/bound.h"

#include <cmath>

namespace hapmoe::search {
namespace {

// Of the first `count` passes of the order that all ranks share, those of each chunk.
std::vector<double> FirstPasses(int64_t count, int64_t chunks, int64_t group,
                                int64_t micro_batches) {
  std::vector<double> passes(static_cast<size_t>(chunks), 0);
  for (int64_t start = 0; start < micro_batches && count > 0; start += group) {
    const int64_t size = std::min(group, micro_batches - start);
    for (int64_t chunk = 0; chunk < chunks && count > 0; ++chunk) {
      const int64_t run = std::min(size, count);
      passes[static_cast<size_t>(chunk)] += static_cast<double>(run);
      count -= run;
    }
  }
  return passes;
}

}  // namespace

std::vector<double> InterleavedFinish(const std::vector<cost::StageTimes>& ranks,
                                      const cost::ScheduleOptions& options) {
  const size_t count = ranks.size();
  const size_t chunks = ranks.front().chunks.size();
  const int64_t stages = static_cast<int64_t>(count);
  const int64_t virtual_stages = static_cast<int64_t>(chunks);
  const int64_t group = options.interleaving_group > 0 ? options.interleaving_group : stages;
  const int64_t total = options.micro_batches * virtual_stages;
  const double micro_batches = static_cast<double>(options.micro_batches);
  const auto occupied = [&](double send) { return options.overlap_transfers ? 0 : send; };
  // One micro-batch through everything, forward to the end and back to the start.
  double through = 0;
  double back = 0;
  for (const cost::StageTimes& rank : ranks) {
    for (const cost::ChunkTimes& chunk : rank.chunks) {
      through += chunk.forward + rank.send_seconds;
      back += chunk.backward + rank.send_seconds;
    }
  }
  through -= ranks.back().send_seconds;  // The last chunk of the last rank sends nothing.
  back -= ranks.back().send_seconds;     // Nor does the first of the first, back to the last.
  std::vector<double> finish(count, 0);
  double reached = 0;        // When the first micro-batch reaches rank i, at least.
  double back_behind = 0;    // Of the last chunk of the ranks behind i, with transfers.
  double there_behind = 0;   // The same, forward.
  double back_in_front = 0;  // Of the first chunk of the ranks in front of i.
  for (size_t i = 1; i < count; ++i) {
    back_behind += ranks[i].chunks.back().backward + ranks[i - 1].send_seconds;
    there_behind += ranks[i].chunks.back().forward + ranks[i - 1].send_seconds;
  }
  for (size_t i = 0; i < count; ++i) {
    const cost::StageTimes& rank = ranks[i];
    const bool last = i + 1 == count;
    const double send_back = ranks[i > 0 ? i - 1 : count - 1].send_seconds;
    const int64_t warm_up = std::min(
        total, 2 * (stages - 1 - static_cast<int64_t>(i)) + (virtual_stages - 1) * group + 1);
    const std::vector<double> early =
        FirstPasses(warm_up, virtual_stages, group, options.micro_batches);
    // The backward passes that come first run the chunks in opposite order.
    const std::vector<double> first_back =
        FirstPasses(total - warm_up, virtual_stages, group, options.micro_batches);
    double forward = 0;
    double backward = 0;
    double late_forward = 0;
    double early_backward = 0;
    for (size_t chunk = 0; chunk < chunks; ++chunk) {
      const double one_forward = rank.chunks[chunk].forward +
                                 (last && chunk + 1 == chunks ? 0 : occupied(rank.send_seconds));
      const double one_backward =
          rank.chunks[chunk].backward + (i == 0 && chunk == 0 ? 0 : occupied(send_back));
      forward += micro_batches * one_forward;
      backward += micro_batches * one_backward;
      late_forward += (micro_batches - early[chunk]) * one_forward;
      early_backward += first_back[chunks - 1 - chunk] * one_backward;
    }
    const double own_send = i == 0 ? 0 : occupied(send_back);  // Of the very last pass.
    finish[i] = std::max({reached + forward + backward - own_send,
                          through + back_behind + late_forward + backward - own_send,
                          reached + forward + early_backward + there_behind + back - back_in_front -
                              (last ? 0 : occupied(rank.send_seconds))});
    reached += rank.chunks.front().forward + rank.send_seconds;
    back_in_front += rank.chunks.front().backward + rank.send_seconds;
    if (!last) {
      back_behind -= ranks[i + 1].chunks.back().backward + rank.send_seconds;
      there_behind -= ranks[i + 1].chunks.back().forward + rank.send_seconds;
    }
  }
  // The last gradient returns through the first chunks.
  for (size_t i = count - 1; i-- > 0;) {
    finish[i] = std::max(finish[i],
                         finish[i + 1] + ranks[i].send_seconds + ranks[i].chunks.front().backward);
  }
  return finish;
}

double SplitBound(std::vector<double> layer_seconds, double layers, int64_t micro_batches,
                  int64_t virtual_stages) {
  std::sort(layer_seconds.begin(), layer_seconds.end());
  if (static_cast<double>(layer_seconds.size()) > layers) {
    layer_seconds.resize(static_cast<size_t>(std::max(1.0, std::floor(layers))));
  }
  const double count = static_cast<double>(micro_batches);
  double share = 1 / count;
  double layers_per_second = 0;
  for (const double seconds : layer_seconds) {
    layers_per_second += share / seconds;
    share *= 1 - 1 / (count * static_cast<double>(virtual_stages));
  }
  return layers / layers_per_second;
}

}  // namespace hapmoe::search
