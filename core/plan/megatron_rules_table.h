// The parts of the table of rules, one for each subject; use megatron_rules.h.
#ifndef HAPMOE_CORE_PLAN_MEGATRON_RULES_TABLE_H_
#define HAPMOE_CORE_PLAN_MEGATRON_RULES_TABLE_H_

#include <cstdint>

#include "absl/types/span.h"
#include "core/plan/megatron_rules.h"

namespace hapmoe::plan {

absl::Span<const Rule> WorldRules();      // World, groups, dimensions, batch.
absl::Span<const Rule> LayoutRules();     // Stages, virtual stages, layout strings.
absl::Span<const Rule> RecomputeRules();  // Recomputation and offloading of activations.
absl::Span<const Rule> ExpertRules();     // Routing, dispatch, experts.
absl::Span<const Rule> OptimizerRules();  // Optimizer, precision, overlap.

// True if the divisor divides the value. Also where the divisor is not positive: another rule
// reports that.
constexpr bool Divides(int64_t divisor, int64_t value) {
  return divisor < 1 || value % divisor == 0;
}

}  // namespace hapmoe::plan

#endif  // HAPMOE_CORE_PLAN_MEGATRON_RULES_TABLE_H_
