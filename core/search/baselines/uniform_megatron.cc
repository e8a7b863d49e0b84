#include "core/search/baselines/uniform_megatron.h"

#include <utility>

#include "core/base/status_macros.h"
#include "core/search/baselines/restricted_search.h"

namespace hapmoe::search {

absl::StatusOr<std::optional<Costed>> UniformMegatron::Plan(const SearchRequest& request,
                                                            Executor& executor,
                                                            const Interrupter& interrupter) const {
  HAPMOE_ASSIGN_OR_RETURN(Outcome outcome, SearchPlans(request, executor, interrupter));
  return std::move(outcome.uniform);
}

}  // namespace hapmoe::search
