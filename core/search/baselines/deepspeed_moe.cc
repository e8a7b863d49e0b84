#include "core/search/baselines/deepspeed_moe.h"

#include <cstdint>
#include <set>
#include <utility>

#include "core/base/status_macros.h"
#include "core/search/baselines/restricted_search.h"
#include "core/search/space.h"

namespace hapmoe::search {

absl::StatusOr<std::optional<Costed>> DeepSpeedMoeStyle::Plan(
    const SearchRequest& request, Executor& executor, const Interrupter& interrupter) const {
  const bool experts = request.problem.model.moe.has_value();
  for (const int64_t tp : Divisors(request.problem.model.heads)) {
    for (const int64_t etp : std::set<int64_t>{1, tp}) {
      SearchRequest fixed = request;
      Constraints& constraints = fixed.constraints;
      if (!Restrict(constraints.pp, {1}) || !Restrict(constraints.cp, {1}) ||
          !Restrict(constraints.tp, {tp}) || (experts && !Restrict(constraints.etp, {etp}))) {
        continue;
      }
      HAPMOE_ASSIGN_OR_RETURN(Outcome outcome, SearchPlans(fixed, executor, interrupter));
      if (outcome.best.has_value()) return std::move(outcome.best);
      if (!experts) break;
    }
  }
  return std::nullopt;
}

}  // namespace hapmoe::search
