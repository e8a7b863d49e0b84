// What baselines are made of: our search under more constraints, and plans costed on the real
// cluster.
#ifndef HAPMOE_CORE_SEARCH_BASELINES_RESTRICTED_SEARCH_H_
#define HAPMOE_CORE_SEARCH_BASELINES_RESTRICTED_SEARCH_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/executor.h"
#include "core/base/interrupter.h"
#include "core/search/search.h"

namespace hapmoe::search {

// Search() for its plans alone: where nothing fits no changes are looked for.
absl::StatusOr<Outcome> SearchPlans(SearchRequest request, Executor& executor,
                                    const Interrupter& interrupter);

// Allows in `list`, where empty allows everything, no more than `values`. False if that leaves
// nothing; the list is then as it was.
bool Restrict(std::vector<int64_t>& list, const std::vector<int64_t>& values);

// Ways to recompute that launch scripts use, each the same on all stages, by the rules that the
// engine has for them: nothing; activations and norms; whole MLPs; then 1, 2, 4, ... whole layers.
// The job's own alone where the request keeps it.
std::vector<model::Recompute> RecomputeChoices(const SearchRequest& request);

// What `plan` takes on the request's cluster. Stages that do not fit recompute the fewest whole
// layers with which they do, as whoever runs it would find out; nothing where that does not help or
// is not allowed.
absl::StatusOr<std::optional<Costed>> CostTruthfully(const SearchRequest& request, plan::Plan plan);

}  // namespace hapmoe::search

#endif  // HAPMOE_CORE_SEARCH_BASELINES_RESTRICTED_SEARCH_H_
