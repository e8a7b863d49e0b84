// Small models, clusters and accelerators for tests, with numbers that fit in the head.
#ifndef HAPMOE_TESTS_CORE_TESTING_FIXTURES_H_
#define HAPMOE_TESTS_CORE_TESTING_FIXTURES_H_

#include <cstdint>
#include <memory>
#include <string>

#include "core/cluster/cluster.h"
#include "core/cost/fabric.h"
#include "core/cost/problem.h"
#include "core/model/training_spec.h"
#include "core/model/transformer_spec.h"
#include "core/plan/plan.h"
#include "core/profile/accelerator_profile.h"

namespace hapmoe::testing {

// Random instances to try: builds that are not optimised, or look at every access, would take
// minutes for all of them.
constexpr uint32_t Instances([[maybe_unused]] uint32_t all, [[maybe_unused]] uint32_t unoptimised) {
#if defined(NDEBUG) && !defined(HAPMOE_SANITIZED)
  return all;
#else
  return unoptimised;
#endif
}

// 100 B/s inside a domain of 8 and for a pair 20 B/s, 10 B/s between domains; a step takes 0.01 s
// inside and 0.1 s between.
cost::Fabric TestFabric();

// 1 TFLOP/s at every shape, 1 GB/s on every link, no start-up times, 1 TB of memory that is read in
// no time: a product of F operations takes F picoseconds.
profile::AcceleratorProfile UnitProfile(const std::string& name = "unit");

// As above, `speed` times as fast and with this much memory.
std::shared_ptr<const profile::AcceleratorProfile> ScaledProfile(const std::string& name,
                                                                 double speed, double memory_bytes);

// A gated, untied model without biases. ffn = 2 x hidden, one head for each 64 of hidden, sequence
// 256, vocabulary 1024, and `experts` experts in every layer if there are any.
model::TransformerSpec SmallModel(int64_t layers, int64_t hidden, int64_t experts = 0);

// bf16, ZeRO-1, everything else plain.
model::TrainingSpec SmallTraining(int64_t global_batch, int64_t micro_batch = 1);

// `model` trained with a global batch of 64 on four nodes of eight UnitProfile accelerators, "a".
cost::Problem TestProblem(model::TransformerSpec model);

// Decoder layers alone.
plan::Chunk Layers(int64_t first, int64_t count);

cluster::Pool SmallPool(const std::string& name, int64_t nodes, int64_t accelerators_per_node);

// Llama 3 8B (hidden 4096, 32 layers, 8 query groups, vocabulary 128256) at sequence 8192.
model::TransformerSpec Llama3Of8B();
// Mixtral 8x7B (8 experts, top 2, vocabulary 32000) at sequence 4096.
model::TransformerSpec Mixtral8x7B();

}  // namespace hapmoe::testing

#endif  // HAPMOE_TESTS_CORE_TESTING_FIXTURES_H_
