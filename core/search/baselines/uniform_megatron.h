// Megatron-LM tuned by hand: the best of the grid of even splits.
#ifndef HAPMOE_CORE_SEARCH_BASELINES_UNIFORM_MEGATRON_H_
#define HAPMOE_CORE_SEARCH_BASELINES_UNIFORM_MEGATRON_H_

#include <optional>

#include "core/search/baselines/baseline.h"

namespace hapmoe::search {

// Searches: tp, cp, dp, ep, etp, pp, virtual stages, micro-batch and recomputation, all of the
// grid, which is more patience than hands have. Fixes: the same layers, to within one, and the same
// recomputation on every stage, as one launch script for one type of accelerator gives them; no
// accelerator idles. Stands for tuning by hand on mixed clusters (Megatron-Infinigence in the
// HAPMoE paper).
class UniformMegatron : public Baseline {
 public:
  absl::string_view name() const override { return "uniform"; }
  absl::StatusOr<std::optional<Costed>> Plan(const SearchRequest& request, Executor& executor,
                                             const Interrupter& interrupter) const override;
};

}  // namespace hapmoe::search

#endif  // HAPMOE_CORE_SEARCH_BASELINES_UNIFORM_MEGATRON_H_
