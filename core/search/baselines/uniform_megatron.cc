#include "core/search/baselines/uniform_megatron.h"

#include "core/search/baselines/restricted_search.h"

namespace hapmoe::search {

absl::StatusOr<std::optional<Costed>> UniformMegatron::Plan(const SearchRequest& request,
                                                            Executor& executor,
                                                            const Interrupter& interrupter) const {
  return SearchEvenSplits(request, executor, interrupter);
}

}  // namespace hapmoe::search
