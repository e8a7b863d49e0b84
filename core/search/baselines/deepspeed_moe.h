// ZeRO data parallelism with expert parallelism inside it (DeepSpeed-MoE, ICML 2022).
#ifndef HAPMOE_CORE_SEARCH_BASELINES_DEEPSPEED_MOE_H_
#define HAPMOE_CORE_SEARCH_BASELINES_DEEPSPEED_MOE_H_

#include <optional>

#include "core/search/baselines/baseline.h"

namespace hapmoe::search {

// For clusters of one type. Searches: ep, micro-batch and recomputation. Fixes: pp 1 and cp 1;
// experts whole, etp 1; tp 1, or where nothing fits the smallest tp with which something does,
// first with whole experts, then with experts sliced as attention is (etp = tp). ZeRO is the job's
// own distributed optimizer: states are sharded over data parallel ranks, gradients are not.
// No plan where none fits without a pipeline.
class DeepSpeedMoeStyle : public Baseline {
 public:
  absl::string_view name() const override { return "deepspeed-moe"; }
  absl::StatusOr<std::optional<Costed>> Plan(const SearchRequest& request, Executor& executor,
                                             const Interrupter& interrupter) const override;
};

}  // namespace hapmoe::search

#endif  // HAPMOE_CORE_SEARCH_BASELINES_DEEPSPEED_MOE_H_
