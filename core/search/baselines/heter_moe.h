// Attention on newer accelerators and experts on older ones (HeterMoE, 2025).
#ifndef HAPMOE_CORE_SEARCH_BASELINES_HETER_MOE_H_
#define HAPMOE_CORE_SEARCH_BASELINES_HETER_MOE_H_

#include <optional>

#include "core/search/baselines/baseline.h"

namespace hapmoe::search {

// The idea itself, a layer cut between two types by kind of work, cannot be run by Megatron-LM: a
// layer lies on one type. What of it the space can express is kept:
// - attention by data parallelism: cp 1 and tp 1, or the smallest tp with which anything fits;
// - experts whole and each layer's spread as widely as possible: etp 1, and the largest ep with
//   which anything fits, tried before a larger tp;
// - work balanced between the types, there by moving experts between them, here by layers:
//   layers, placement, dp, pp, micro-batch and recomputation of every stage are searched on the
//   cluster as it is.
// That is kinder to it than its own form, which gives up nothing in balance but pays for
// dispatching every layer between types. No plan without experts.
class HeterMoeStyle : public Baseline {
 public:
  absl::string_view name() const override { return "hetermoe"; }
  absl::StatusOr<std::optional<Costed>> Plan(const SearchRequest& request, Executor& executor,
                                             const Interrupter& interrupter) const override;
};

}  // namespace hapmoe::search

#endif  // HAPMOE_CORE_SEARCH_BASELINES_HETER_MOE_H_
