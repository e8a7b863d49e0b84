// What one rank of a stage holds at its fullest moment.
#ifndef HAPMOE_CORE_COST_MEMORY_H_
#define HAPMOE_CORE_COST_MEMORY_H_

#include <cstdint>

#include "core/cluster/cluster.h"
#include "core/cost/prediction.h"
#include "core/cost/problem.h"
#include "core/cost/stage_cost.h"
#include "core/model/training_spec.h"
#include "core/plan/plan.h"
#include "core/profile/accelerator_profile.h"

namespace hapmoe::cost {

// Optimizer states that one element needs, in bytes, beside the parameter itself.
double StateBytes(const model::TrainingSpec& training);

// Parameters, gradients, states and the placeholders of products stay; to them comes the largest of
// what the moments of an iteration add: a layer's backward pass, the loss, the backward pass of the
// output layer and of the embedding, the optimizer step. `in_flight`: micro-batches whose
// activations the rank holds at most. `process_groups`: its communicators with more than one rank.
MemoryBreakdown MemoryOf(const StageCost& stage, const Problem& problem, const cluster::Pool& pool,
                         const profile::AcceleratorProfile& profile, const plan::Degrees& degrees,
                         double in_flight, int64_t process_groups);

}  // namespace hapmoe::cost

#endif  // HAPMOE_CORE_COST_MEMORY_H_
