// The rules that a job and its plan must keep on Megatron-LM, each with a name and its source.
#ifndef HAPMOE_CORE_PLAN_MEGATRON_RULES_H_
#define HAPMOE_CORE_PLAN_MEGATRON_RULES_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/base/violation.h"
#include "core/model/training_spec.h"
#include "core/model/transformer_spec.h"
#include "core/plan/engine_facts.h"
#include "core/plan/parallel_spec.h"
#include "core/plan/pipeline_layout.h"

namespace hapmoe::plan {

// What a rule depends on, and so when it must be asked again. A bit set.
enum Scope : uint32_t {
  kJobScope = 1u << 0,          // The job alone; no plan changes it.
  kDegreesScope = 1u << 1,      // tp, pp, cp, ep, etp, world size, micro-batch, virtual stages.
  kLayoutScope = 1u << 2,       // How layers are split over stages, as options say it.
  kRecomputeScope = 1u << 3,    // Recomputation.
  kEnvironmentScope = 1u << 4,  // Environment variables of the processes.
  kAllScopes = 0xffffffffu,
};

using Environment = std::map<std::string, std::string>;

// What the rules are asked about. Nothing is owned; the first four pointers are never null.
struct RuleContext {
  const model::TransformerSpec* model = nullptr;
  const model::TrainingSpec* training = nullptr;
  const ParallelSpec* parallel = nullptr;
  const EngineFacts* facts = nullptr;
  int64_t world_size = 0;
  // Virtual stages of each rank, and the layout that was read from parallel->layout. CheckAll works
  // them out itself; whoever calls FirstBroken does it.
  int64_t virtual_stages = 1;
  const PipelineLayout* layout = nullptr;
  // Null: unknown, and rules about it hold.
  const Environment* environment = nullptr;
  // Major compute capability of the oldest accelerator (9: Hopper); 0: unknown or another vendor's.
  int architecture = 9;
  bool fuses_attention = true;  // All accelerators can.

  // Data parallel degree of dense and of expert parameters; 0 where the world does not divide.
  int64_t dp() const;
  int64_t expert_dp() const;
  // Samples in one step, the default filled in, and the micro-batches they make; 0 where the world
  // does not divide.
  int64_t global_batch() const;
  int64_t micro_batches() const;
  // Sequence parallelism takes effect with tensor parallelism only.
  bool sequence_parallel() const { return training->sequence_parallel && parallel->tp > 1; }
};

// One rule. All text is static.
struct Rule {
  absl::string_view name;    // "world_divisible_by_tp_pp_cp".
  absl::string_view source;  // File and line of the snapshot that raise; megatron/ left out.
  absl::string_view field;   // Option at fault.
  Scope scope;
  // Holds on every context, however odd its values; allocates nothing. Where a value that it needs
  // is at fault by another rule it holds, so that one fault is told once.
  bool (*holds)(const RuleContext&);
  // One sentence with the offending values; asked only where the rule is broken.
  std::string (*message)(const RuleContext&);
};

// All rules: snapshot NVIDIA/Megatron-LM d98e8a64dd (2026-08-22).
absl::Span<const Rule> MegatronRules();

// Every rule of these scopes that is broken.
Violations CheckAll(const RuleContext& context, uint32_t scopes = kAllScopes);

// Every rule of the job alone that is broken, whatever the plan.
Violations CheckJob(const model::TransformerSpec& model, const model::TrainingSpec& training,
                    const EngineFacts& facts);

// The first broken rule of exactly one scope, or null. Cheap: no allocation, some tens of integer
// comparisons. The search asks it for every candidate with kDegreesScope.
const Rule* FirstBroken(const RuleContext& context, Scope scope);

}  // namespace hapmoe::plan

#endif  // HAPMOE_CORE_PLAN_MEGATRON_RULES_H_
