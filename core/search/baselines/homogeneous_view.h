// A mixed cluster as planners for one type of accelerator see it.
#ifndef HAPMOE_CORE_SEARCH_BASELINES_HOMOGENEOUS_VIEW_H_
#define HAPMOE_CORE_SEARCH_BASELINES_HOMOGENEOUS_VIEW_H_

#include <optional>

#include "absl/status/statusor.h"
#include "core/search/search.h"

namespace hapmoe::search {

enum class ViewedMemory {
  kLeast,  // Every accelerator has what the smallest one has.
  kOwn,    // Every accelerator has its own.
};

// The request with every pool taken for the slowest one: its profile, by the lowest peak rate in
// the job's precision (the first of equals), its network, and no links of its own between pools.
// Pools stay apart, with their own nodes, so that a plan for the view can run on the real cluster.
SearchRequest HomogeneousView(const SearchRequest& request, ViewedMemory memory);

// The fastest plan for the view, and its prediction for the view: with the least memory, or, where
// nothing fits in that, with each accelerator's own.
absl::StatusOr<std::optional<Costed>> PlanForView(const SearchRequest& request, Executor& executor,
                                                  const Interrupter& interrupter);

}  // namespace hapmoe::search

#endif  // HAPMOE_CORE_SEARCH_BASELINES_HOMOGENEOUS_VIEW_H_
