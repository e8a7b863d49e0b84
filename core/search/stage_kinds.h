// Which kinds of stages are worth trying at one place of a pipeline.
#ifndef HAPMOE_CORE_SEARCH_STAGE_KINDS_H_
#define HAPMOE_CORE_SEARCH_STAGE_KINDS_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/search/pipeline_dp.h"

namespace hapmoe::search {

// A place in a pipeline for a stage: its layers [first, last), the micro-batches that it holds, the
// units of its pool behind it, and whether it starts or ends the pipeline.
struct PipelinePlace {
  int64_t first = 0;
  int64_t last = 0;
  int64_t in_flight = 1;
  int64_t units_behind = 0;
  bool starts = false;
  bool ends = false;
};

// Finds and remembers kinds. Not thread safe.
class StageKinds {
 public:
  // `problem` must outlive this object.
  StageKinds(const PipelineProblem& problem, Sweep sweep);

  // Kinds of a port that may stand there. Where a port has several, those that fit and that no
  // other beats in everything: with Sweep::kAll that includes what it sends, which differs a little
  // with the degrees, and of which bounds take the least. Valid until the next call.
  const std::vector<size_t>& At(size_t port, const PipelinePlace& place);

 private:
  bool MayStand(size_t kind, const PipelinePlace& place) const;
  const StageChoice& BestOf(size_t kind, const PipelinePlace& place) const;
  bool Beats(size_t kind, size_t other, const PipelinePlace& place) const;

  const PipelineProblem& problem_;
  const Sweep sweep_;
  std::vector<int64_t> periods_;  // [port]: of the places of its kinds.
  int64_t longest_period_ = 1;
  const std::vector<size_t> none_;
  absl::flat_hash_map<int64_t, std::vector<size_t>> known_;
};

}  // namespace hapmoe::search

#endif  // HAPMOE_CORE_SEARCH_STAGE_KINDS_H_
