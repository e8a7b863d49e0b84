// The best expert layout for a layer, without a view of the whole (Tutel, MLSys 2023).
#ifndef HAPMOE_CORE_SEARCH_BASELINES_TUTEL_H_
#define HAPMOE_CORE_SEARCH_BASELINES_TUTEL_H_

#include <optional>

#include "core/search/baselines/baseline.h"

namespace hapmoe::search {

// For clusters of one type. Searches: ep and etp, by the time of one MoE layer alone, forward and
// backward, and then recomputation. Fixes: everything else as DeepSpeedMoeStyle has it. Where the
// layout that is quickest for the layer does not fit, the next quickest is taken. Layers of one
// kind cost the same, so that what is best for one layer is for all. No plan without experts.
// Not expressed: layouts that change while training runs; routing is the job's statistics.
class TutelStyle : public Baseline {
 public:
  absl::string_view name() const override { return "tutel"; }
  absl::StatusOr<std::optional<Costed>> Plan(const SearchRequest& request, Executor& executor,
                                             const Interrupter& interrupter) const override;
};

}  // namespace hapmoe::search

#endif  // HAPMOE_CORE_SEARCH_BASELINES_TUTEL_H_
