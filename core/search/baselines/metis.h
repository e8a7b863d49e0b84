// A planner for mixed clusters that knows nothing of experts (Metis, USENIX ATC 2024).
#ifndef HAPMOE_CORE_SEARCH_BASELINES_METIS_H_
#define HAPMOE_CORE_SEARCH_BASELINES_METIS_H_

#include <optional>

#include "core/search/baselines/baseline.h"

namespace hapmoe::search {

// Searches: layers, placement and recomputation of every stage on the cluster as it is, tp, cp, dp,
// pp and micro-batch. Fixes: ep and etp, which are no dimension of its search and come from
// profiling one type of accelerator: those of the best plan for the HomogeneousView. Where no plan
// with them fits, the next best value of ep there is taken. Without experts there is nothing to
// fix, and on one type nothing to get wrong: the plan is then ours.
// Not expressed: data parallel ranks of one stage on several types, which are not in the space.
class MetisStyle : public Baseline {
 public:
  absl::string_view name() const override { return "metis"; }
  absl::StatusOr<std::optional<Costed>> Plan(const SearchRequest& request, Executor& executor,
                                             const Interrupter& interrupter) const override;
};

}  // namespace hapmoe::search

#endif  // HAPMOE_CORE_SEARCH_BASELINES_METIS_H_
