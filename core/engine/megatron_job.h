// A Megatron-LM job: what its arguments say about the model, its training and its parallel sizes.
#ifndef HAPMOE_CORE_ENGINE_MEGATRON_JOB_H_
#define HAPMOE_CORE_ENGINE_MEGATRON_JOB_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "core/base/violation.h"
#include "core/engine/arguments.h"
#include "core/model/training_spec.h"
#include "core/model/transformer_spec.h"
#include "core/plan/engine_facts.h"
#include "core/plan/megatron_rules.h"
#include "core/plan/parallel_spec.h"
#include "core/plan/plan.h"

namespace hapmoe::engine {

struct MegatronJob {
  model::TransformerSpec model;
  // global_batch holds one micro-batch where the job gives none; see facts.global_batch_given.
  model::TrainingSpec training;
  plan::ParallelSpec parallel;
  plan::EngineFacts facts;
  Arguments arguments;
  // False if an option that shapes the model or its training is missing, unreadable or out of
  // range. The specs then hold whatever could be read and must not be costed.
  bool complete = false;
  // What was assumed or passed over, one sentence each.
  std::vector<std::string> notes;
};

// Reads an argument list without the program's name and fills in Megatron-LM's defaults. Appends
// every fault that the arguments alone show: those of Arguments::Parse, missing options, values out
// of range, options that contradict each other, and features that cannot be costed soundly
// ("unsupported_..."). Whether the job can run on a world of a given size is CheckMegatronJob's to
// say. Time and memory are bounded whatever the arguments.
MegatronJob ParseMegatronJob(absl::Span<const std::string> argv, Violations& violations);

// Where a job is to run, as far as the rules ask.
struct Surroundings {
  int64_t world_size = 0;
  const plan::Environment* environment = nullptr;  // Null: unknown.
  int architecture = 9;  // Major compute capability of the oldest accelerator; 0: another vendor's.
  bool fuses_attention = true;  // All accelerators can.
};

// The rules' view of a job. The job and the environment must outlive it.
plan::RuleContext ContextOf(const MegatronJob& job, const Surroundings& surroundings);

// Every rule of the engine that the job breaks; none if the job is not complete, since what is
// missing was reported already. With `scopes` only the rules that depend on these things: a job
// whose parallel sizes are still to be planned is asked plan::kJobScope.
Violations CheckMegatronJob(const MegatronJob& job, const Surroundings& surroundings,
                            uint32_t scopes = plan::kAllScopes);

// The plan that the job's own arguments describe, on one pool of index 0. Assumes that parsing and
// CheckMegatronJob found no fault.
plan::Plan PlanFromJob(const MegatronJob& job, int64_t world_size);

}  // namespace hapmoe::engine

#endif  // HAPMOE_CORE_ENGINE_MEGATRON_JOB_H_
