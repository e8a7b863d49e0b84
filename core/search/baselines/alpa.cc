#include "core/search/baselines/alpa.h"

#include "core/base/status_macros.h"
#include "core/search/baselines/homogeneous_view.h"
#include "core/search/baselines/restricted_search.h"

namespace hapmoe::search {

absl::StatusOr<std::optional<Costed>> AlpaStyle::Plan(const SearchRequest& request,
                                                      Executor& executor,
                                                      const Interrupter& interrupter) const {
  // Shares of the memory that are kept back beside the request's own headroom.
  for (const double reserve : {0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5}) {
    SearchRequest careful = request;
    careful.problem.memory_headroom_ratio =
        1 - (1 - request.problem.memory_headroom_ratio) * (1 - reserve);
    HAPMOE_ASSIGN_OR_RETURN(const std::optional<Costed> viewed,
                            PlanForView(careful, executor, interrupter));
    if (!viewed.has_value()) return std::nullopt;
    HAPMOE_ASSIGN_OR_RETURN(std::optional<Costed> costed, CostTruthfully(request, viewed->plan));
    if (costed.has_value()) return costed;
  }
  return std::nullopt;
}

}  // namespace hapmoe::search
