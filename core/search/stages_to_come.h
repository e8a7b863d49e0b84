// What the stages in front of a run, which are still to come, can hold and have to take.
#ifndef HAPMOE_CORE_SEARCH_STAGES_TO_COME_H_
#define HAPMOE_CORE_SEARCH_STAGES_TO_COME_H_

#include <cstdint>
#include <vector>

#include "core/search/layer_caps.h"
#include "core/search/pipeline_dp.h"
#include "core/search/used_units.h"

namespace hapmoe::search {

// Answers for the states of one dynamic program, below its limit. Everything is a bound: no
// pipeline below the limit holds more, or takes less.
class StagesToCome {
 public:
  // `problem` must outlive this object.
  StagesToCome(const PipelineProblem& problem, double limit_seconds);

  // Whether all stages together do not hold the model, with any number of virtual stages.
  bool BeyondCapacity();

  // Stages that are left, where their number is known; else at least so many. Negative: too many.
  int64_t Stages(const UsedUnits& used, size_t state) const;

  // Layers that they hold at most.
  double Layers(const UsedUnits& used, size_t state);

  // Seconds of their forward and backward passes of one micro-batch, of the first chunk with
  // virtual stages, by the layers that they hold: [layers]. Infinite where they cannot.
  std::vector<double> Seconds(const UsedUnits& used, size_t state);

  LayerCaps& caps() { return caps_; }

 private:
  bool MayIdle() const { return problem_.constraints->allow_idle_accelerators; }
  // Of every pipeline, where their number is the same in all; else 0.
  int64_t KnownStages() const;
  // Of the stages with at least `behind` stages behind them, where the number of all is known.
  int64_t LayersFrom(int64_t behind);

  const PipelineProblem& problem_;
  const Candidate& candidate_;
  const int64_t layers_;
  LayerCaps caps_;
  std::vector<int64_t> layers_from_;   // See LayersFrom.
  std::vector<double> layer_seconds_;  // Of one layer, by pool, at least.
  std::vector<size_t> fastest_first_;  // Pools.
};

}  // namespace hapmoe::search

#endif  // HAPMOE_CORE_SEARCH_STAGES_TO_COME_H_
