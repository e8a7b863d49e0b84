// How much memory is missing where nothing fits.
#ifndef HAPMOE_CORE_SEARCH_SHORTAGE_H_
#define HAPMOE_CORE_SEARCH_SHORTAGE_H_

#include <cstdint>

#include "core/model/training_spec.h"
#include "core/search/pipeline_dp.h"

namespace hapmoe::search {

// The least number of bytes by which the fullest stage of any pipeline of a candidate exceeds its
// budget, and that stage; 0 where something fits.
struct Shortage {
  double bytes = 0;
  int64_t stage = 0;
  int64_t stages = 0;
  int64_t pool = 0;
  model::Recompute recompute;
  bool host_binds = false;  // The host lacks them, not the accelerator.
};

// Infinite where no pipeline is possible at all, where there are too many to try (kMaxCells), and
// with virtual stages, which need no less memory than none.
Shortage LeastShortage(const PipelineProblem& problem);

}  // namespace hapmoe::search

#endif  // HAPMOE_CORE_SEARCH_SHORTAGE_H_
