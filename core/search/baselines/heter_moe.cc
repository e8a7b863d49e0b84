#include "core/search/baselines/heter_moe.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/status_macros.h"
#include "core/search/baselines/restricted_search.h"
#include "core/search/space.h"

namespace hapmoe::search {

absl::StatusOr<std::optional<Costed>> HeterMoeStyle::Plan(const SearchRequest& request,
                                                          Executor& executor,
                                                          const Interrupter& interrupter) const {
  if (!request.problem.model.moe.has_value()) return std::nullopt;
  std::vector<int64_t> widths = Divisors(request.problem.model.moe->experts);
  std::reverse(widths.begin(), widths.end());
  for (const int64_t tp : Divisors(request.problem.model.heads)) {
    for (const int64_t ep : widths) {
      SearchRequest fixed = request;
      Constraints& constraints = fixed.constraints;
      if (!Restrict(constraints.tp, {tp}) || !Restrict(constraints.cp, {1}) ||
          !Restrict(constraints.ep, {ep}) || !Restrict(constraints.etp, {1})) {
        continue;
      }
      HAPMOE_ASSIGN_OR_RETURN(Outcome outcome, SearchPlans(fixed, executor, interrupter));
      if (outcome.best.has_value()) return std::move(outcome.best);
    }
  }
  return std::nullopt;
}

}  // namespace hapmoe::search
