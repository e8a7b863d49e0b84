// The prunings of the paper, on one candidate.
#ifndef HAPMOE_CORE_SEARCH_PAPER_PRUNINGS_H_
#define HAPMOE_CORE_SEARCH_PAPER_PRUNINGS_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "core/search/pipeline_dp.h"

namespace hapmoe::search {

// What Constraints::prunings leave; everything where they prune nothing.
struct PaperPrunings {
  explicit PaperPrunings(const PipelineProblem& problem);

  std::vector<int64_t> least_layers;  // Of a stage: [port].
  std::vector<int64_t> most_layers;
  // Longest transfer of a micro-batch between types.
  double longest_send_seconds = std::numeric_limits<double>::infinity();
};

}  // namespace hapmoe::search

#endif  // HAPMOE_CORE_SEARCH_PAPER_PRUNINGS_H_
