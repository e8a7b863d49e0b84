// The best uniform plan: equal layers on all (virtual) stages, to within one, and one
// recomputation, as scripts for one accelerator type have it.
#ifndef HAPMOE_CORE_SEARCH_UNIFORM_H_
#define HAPMOE_CORE_SEARCH_UNIFORM_H_

#include <optional>
#include <vector>

#include "core/base/interrupter.h"
#include "core/search/candidate_costs.h"
#include "core/search/search.h"
#include "core/search/space.h"

namespace hapmoe::search {

// No uniform plan of the candidate takes less: the slowest pool's share. Infinite where none is
// possible. `layer_seconds`: forward and backward of one layer at least, by pool.
double UniformLowerBound(const SearchRequest& request, const Candidate& candidate,
                         const std::vector<double>& layer_seconds);

// The best uniform plan of one candidate that fits and takes less than `limit_seconds`, over all
// orders of the pools; nothing if there is none. All pools are used up.
std::optional<Costed> BestUniformPlan(const SearchRequest& request, const Candidate& candidate,
                                      CandidateCosts& costs, const RecomputeOptions& options,
                                      double limit_seconds, const Interrupter& interrupter);

}  // namespace hapmoe::search

#endif  // HAPMOE_CORE_SEARCH_UNIFORM_H_
