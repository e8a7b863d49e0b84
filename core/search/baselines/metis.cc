#include "core/search/baselines/metis.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/status_macros.h"
#include "core/search/baselines/homogeneous_view.h"
#include "core/search/baselines/restricted_search.h"
#include "core/search/space.h"

namespace hapmoe::search {

absl::StatusOr<std::optional<Costed>> MetisStyle::Plan(const SearchRequest& request,
                                                       Executor& executor,
                                                       const Interrupter& interrupter) const {
  if (!request.problem.model.moe.has_value()) {
    HAPMOE_ASSIGN_OR_RETURN(Outcome outcome, SearchPlans(request, executor, interrupter));
    return std::move(outcome.best);
  }
  SearchRequest viewed = request;
  std::vector<int64_t>& open = viewed.constraints.ep;
  if (!Restrict(open, Divisors(request.problem.model.moe->experts))) return std::nullopt;
  while (!open.empty()) {
    HAPMOE_ASSIGN_OR_RETURN(const std::optional<Costed> profiled,
                            PlanForView(viewed, executor, interrupter));
    if (!profiled.has_value()) return std::nullopt;
    const plan::Degrees& degrees = profiled->plan.meshes.front().degrees;
    SearchRequest fixed = request;
    fixed.constraints.ep = {degrees.ep};
    fixed.constraints.etp = {degrees.etp};
    HAPMOE_ASSIGN_OR_RETURN(Outcome outcome, SearchPlans(fixed, executor, interrupter));
    if (outcome.best.has_value()) return std::move(outcome.best);
    std::erase(open, degrees.ep);
  }
  return std::nullopt;
}

}  // namespace hapmoe::search
