// Everything that ours is compared with.
#ifndef HAPMOE_CORE_SEARCH_BASELINES_BASELINES_H_
#define HAPMOE_CORE_SEARCH_BASELINES_BASELINES_H_

#include <memory>
#include <vector>

#include "core/search/baselines/baseline.h"

namespace hapmoe::search {

using Baselines = std::vector<std::unique_ptr<Baseline>>;

// For clusters of several types: uniform, alpa, hetermoe, metis.
Baselines MixedBaselines();
// For clusters of one type: uniform, deepspeed-moe, tutel.
Baselines OneTypeBaselines();
// Our search with less freedom, on any cluster: layers-uniform, layers-even,
// recompute-uniform.
Baselines Ablations();

}  // namespace hapmoe::search

#endif  // HAPMOE_CORE_SEARCH_BASELINES_BASELINES_H_
