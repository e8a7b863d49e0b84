// A quick plan, so that the exact search has something to beat from the start.
#ifndef HAPMOE_CORE_SEARCH_GREEDY_H_
#define HAPMOE_CORE_SEARCH_GREEDY_H_

#include <optional>

#include "core/base/interrupter.h"
#include "core/search/candidate_costs.h"
#include "core/search/search.h"
#include "core/search/space.h"

namespace hapmoe::search {

// Whether GreedyPlan knows candidates like this one: one set of degrees, no virtual stages.
bool HasGreedyPlan(const Candidate& candidate);

// The best of a few plans of one candidate that fit: for every set of pools (all of them unless
// accelerators may idle) in every order, each layer goes to the stage that is then quickest.
// Nothing where none fits. Microseconds for each set and order; at most four pools are permuted.
std::optional<Costed> GreedyPlan(const SearchRequest& request, const Candidate& candidate,
                                 CandidateCosts& costs, const Interrupter& interrupter);

}  // namespace hapmoe::search

#endif  // HAPMOE_CORE_SEARCH_GREEDY_H_
