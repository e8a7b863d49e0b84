// Which kinds of plans an engine runs, as far as that is not Megatron-LM's own rules.
#ifndef HAPMOE_CORE_PLAN_ENGINE_TRAITS_H_
#define HAPMOE_CORE_PLAN_ENGINE_TRAITS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/base/violation.h"
#include "core/model/transformer_spec.h"
#include "core/plan/plan.h"

namespace hapmoe::plan {

// One engine. All text is static.
struct EngineTraits {
  absl::string_view name;
  // Engines with the same space run the same plans, and one search serves them all.
  absl::string_view space;
  bool degrees_per_stage = false;      // core/plan/flagscale_rules.h; else one set for all stages.
  bool recomputes_modules = true;      // False: whole layers only.
  int64_t max_virtual_stages = 0;      // Of a rank; 0: no limit of its own.
  bool starts_other_hosts = false;     // Its launcher does, over ssh; else it runs on every node.
  absl::string_view restriction = {};  // What of this leaves plans out, for an answer; empty: none.
};

// In the order in which they are preferred where nothing else tells them apart.
absl::Span<const EngineTraits> Engines();

// Null if the engine is not known.
const EngineTraits* FindEngine(absl::string_view name);

// The rule of the engine's own, beside Megatron-LM's, that a set of degrees on `stages` stages
// breaks; empty for none. Of engines with one set of degrees. A plan with fewer stages of the same
// degrees breaks none that this one keeps. No allocation.
absl::string_view BrokenEngineRule(const EngineTraits& engine, const model::TransformerSpec& model,
                                   const Degrees& degrees, int64_t stages, int64_t virtual_stages);

// The same rules and those of recomputation on a whole plan.
Violations CheckEnginePlan(const EngineTraits& engine, const model::TransformerSpec& model,
                           const Plan& plan);

}  // namespace hapmoe::plan

#endif  // HAPMOE_CORE_PLAN_ENGINE_TRAITS_H_
