// A planner for one type of accelerator, let loose on several (Alpa, OSDI 2022).
#ifndef HAPMOE_CORE_SEARCH_BASELINES_ALPA_H_
#define HAPMOE_CORE_SEARCH_BASELINES_ALPA_H_

#include <optional>

#include "core/search/baselines/baseline.h"

namespace hapmoe::search {

// Searches: everything that we do, to the optimum: degrees, layers and recomputation of every
// stage. Fixes: its picture of the cluster, in which every accelerator is the slowest one
// (HomogeneousView), so that layers and placement do not follow speed. The plan is then run as it
// is, on the cluster as it is. Where it does not fit there it recomputes more, and where that does
// not help it is made again with a larger reserve of memory.
// Not expressed: intra-operator plans that differ from layer to layer, which Megatron-LM cannot
// run.
class AlpaStyle : public Baseline {
 public:
  absl::string_view name() const override { return "alpa"; }
  absl::StatusOr<std::optional<Costed>> Plan(const SearchRequest& request, Executor& executor,
                                             const Interrupter& interrupter) const override;
};

}  // namespace hapmoe::search

#endif  // HAPMOE_CORE_SEARCH_BASELINES_ALPA_H_
