#include "core/search/stage_choice.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "core/cost/evaluate.h"

namespace hapmoe::search {

using model::Recompute;

RangeClasses::RangeClasses(const model::TransformerSpec& model)
    : layers_(model.layers),
      classes_(static_cast<size_t>((model.layers + 1) * (model.layers + 1)), -1),
      examples_(static_cast<size_t>(model.layers + 1)) {
  std::unordered_map<std::string, int32_t> seen;
  for (int64_t first = 0; first < layers_; ++first) {
    std::string key(first == 0 ? "E" : "");
    for (int64_t last = first + 1; last <= layers_; ++last) {
      key += model.kind(last - 1) == model::LayerKind::kMoe ? 'm' : 'd';
      if (last == layers_) key += 'L';
      const auto [entry, added] = seen.try_emplace(key, count_);
      if (added) {
        ++count_;
        examples_[static_cast<size_t>(last - first)].push_back(first);
      }
      classes_[static_cast<size_t>(first * (layers_ + 1) + last)] = entry->second;
    }
  }
}

plan::Chunk ChunkOf(const model::TransformerSpec& model, int64_t first, int64_t last) {
  plan::Chunk chunk;
  chunk.first_layer = first;
  chunk.layers = last - first;
  chunk.embedding = first == 0;
  chunk.loss = last == model.layers;
  chunk.mtp_layers = chunk.loss ? model.mtp_layers : 0;
  return chunk;
}

StageChoices::StageChoices(const model::TransformerSpec& model, const RangeClasses& classes,
                           const cost::MeshCost& costs, const std::vector<Recompute>& options,
                           bool only_options, MemoryMeter* memory)
    : model_(model),
      classes_(classes),
      costs_(costs),
      options_(options),
      only_options_(only_options),
      charge_(memory) {}

const StageChoice& StageChoices::Best(int64_t first, int64_t last, int64_t in_flight) {
  const size_t window = static_cast<size_t>(in_flight);
  if (known_.size() <= window) known_.resize(window + 1);
  std::vector<StageChoice>& row = known_[window];
  if (row.empty()) {
    const auto count = static_cast<size_t>(classes_.count());
    (void)charge_.Add(static_cast<int64_t>(count * sizeof(StageChoice)));
    row.resize(count);
  }
  StageChoice& choice = row[static_cast<size_t>(classes_.ClassOf(first, last))];
  if (!choice.known) {
    choice = Choose({.chunks = {ChunkOf(model_, first, last)}, .recompute = {}},
                    static_cast<double>(in_flight), last - first < model_.layers);
  }
  return choice;
}

const StageChoice& StageChoices::BestInterleaved(const InterleavedStage& stage, int64_t stages,
                                                 int64_t virtual_stages, int64_t micro_batches) {
  const int64_t width = model_.layers + 1;
  int64_t key = stage.behind;
  for (const int64_t part : {stage.offset, stage.chunk_layers, stage.last_chunk_layers}) {
    key = key * width + part;
  }
  key = key * 2 + (stage.front ? 1 : 0);
  const size_t before = interleaved_.capacity();
  StageChoice& choice = interleaved_[key];
  if (interleaved_.capacity() > before) {
    // Of each place a byte of the map's own.
    (void)charge_.Add(static_cast<int64_t>((interleaved_.capacity() - before) *
                                           (sizeof(std::pair<int64_t, StageChoice>) + 1)));
  }
  if (choice.known) return choice;
  plan::Stage chunks;
  for (int64_t chunk = 0; chunk < virtual_stages; ++chunk) {
    const bool last = chunk + 1 == virtual_stages;
    const int64_t layers = last ? stage.last_chunk_layers : stage.chunk_layers;
    // Behind the leading dense layers all layers are alike, so any that are not the last will do.
    int64_t first = model_.layers - layers - (stage.behind == 0 && last ? 0 : 1);
    if (chunk == 0) first = std::min(first, stage.offset);
    chunks.chunks.push_back(ChunkOf(model_, first, first + layers));
    chunks.chunks.back().embedding = stage.front && chunk == 0;
  }
  choice = Choose(std::move(chunks),
                  cost::InFlightMicroBatches(stages - 1 - stage.behind, stages, virtual_stages,
                                             stages, micro_batches),
                  stages > 1);
  return choice;
}

StageChoice StageChoices::Choose(plan::Stage stage, double in_flight, bool pipeline) const {
  const int64_t process_groups = costs_.process_groups(pipeline);
  StageChoice best;
  best.known = true;
  // Tries one recomputation; true if it fits.
  const auto consider = [&](const Recompute& recompute) {
    stage.recompute = recompute;
    const cost::StageCost cost = costs_.Stage(stage);
    if (!costs_.Memory(cost, in_flight, process_groups).fits()) return false;
    const double backward = cost.passes.backward_seconds();
    if (best.fits && backward >= best.backward_seconds) return true;
    best.fits = true;
    best.forward_seconds = cost.passes.forward.total();
    best.backward_seconds = backward;
    if (stage.chunks.size() > 1) {
      double slowest_forward = 0;
      double slowest_backward = 0;
      for (const plan::Chunk& chunk : stage.chunks) {
        const cost::LayerCost passes = costs_.Chunk(chunk, recompute).passes;
        const double forward_seconds = passes.forward.total();
        const double backward_seconds = passes.backward_seconds();
        if (&chunk == &stage.chunks.front()) {
          best.first_forward_seconds = forward_seconds;
          best.first_backward_seconds = backward_seconds;
        }
        best.last_chunk_seconds = forward_seconds + backward_seconds;
        slowest_forward = std::max(slowest_forward, forward_seconds);
        slowest_backward = std::max(slowest_backward, backward_seconds);
      }
      best.slowest_pair_seconds = slowest_forward + slowest_backward;
    }
    const cost::TailCost tail = costs_.Tail(cost);
    best.sync_seconds = tail.gradient_sync_seconds;
    best.step_seconds = tail.step_seconds();
    best.recompute = recompute;
    return true;
  };
  for (const Recompute& recompute : options_) {
    // The first option is the least recomputation, and no other is faster where it fits.
    if (consider(recompute) && &recompute == &options_.front()) return best;
  }
  if (only_options_) return best;
  // Whole layers of each chunk, one by one: the fewest that fit. Memory falls as their number
  // grows, but for the first, which brings the working set of a replayed layer.
  Recompute block;
  block.granularity = Recompute::Granularity::kFull;
  block.method = Recompute::Method::kBlock;
  int64_t fits = stage.chunks.front().layers;
  block.num_layers = fits;
  if (!consider(block)) return best;
  int64_t fails = 0;
  while (fits - fails > 1) {
    block.num_layers = (fits + fails) / 2;
    (consider(block) ? fits : fails) = block.num_layers;
  }
  return best;
}

}  // namespace hapmoe::search
