// Jobs, clusters and plans that launchers are tested with, and how to render one.
#ifndef HAPMOE_TESTS_CORE_ENGINE_LAUNCHER_CASES_H_
#define HAPMOE_TESTS_CORE_ENGINE_LAUNCHER_CASES_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/cluster/cluster.h"
#include "core/engine/arguments.h"
#include "core/engine/launchers.h"
#include "core/plan/node_assignment.h"
#include "core/plan/plan.h"

namespace hapmoe::engine {

// One job on one cluster, under a plan that was made by hand or by a search.
struct LauncherCase {
  std::string name;
  std::vector<std::string> argv;
  cluster::Cluster cluster;
  plan::Plan plan;
  std::vector<PoolEnvironment> environments = {};
  std::vector<EngineRequirement> requirements = {};
  std::string entry = "pretrain_gpt.py";
};

inline void PrintTo(const LauncherCase& launcher_case, std::ostream* out) {
  *out << launcher_case.name;
}

// A case with what is derived from it. Owns everything that the launcher refers to.
struct RenderedCase {
  Arguments arguments;
  plan::NodeAssignment nodes;
  std::vector<Artifact> artifacts;
};

// By the engine of the plan.
absl::StatusOr<RenderedCase> Render(const LauncherCase& launcher_case);

// Dense, MoE, multi-latent attention, multi-token prediction; tied and untied; fp16 and bf16; 1 to
// 512 accelerators; 1 to 3 pools; see the names.
std::vector<LauncherCase> LauncherCases();

// Bricks for further cases.

// "a b 'c" -> {"a", "b", "'c"}: words separated by blanks, no quoting.
std::vector<std::string> SplitWords(const std::string& text);

// Words that break scripts which quote badly. One of them holds all bytes but NUL.
std::vector<std::string> HostileWords();

cluster::Pool PoolOf(std::string name, int64_t nodes, int64_t accelerators_per_node = 8);

model::Recompute NoRecompute();
model::Recompute Selective(uint32_t modules);
model::Recompute FullBlock(int64_t layers);
model::Recompute FullUniform(int64_t layers);

// Stages of one chunk each; the plan is numbered by NumberLayers.
plan::Stage StageOf(int64_t layers, model::Recompute recompute = NoRecompute(),
                    int64_t mtp_layers = 0);

// A plan of meshes with the same degrees; fills in first layers, embedding, loss and micro-batches.
plan::Plan PlanOf(const plan::Degrees& degrees, int64_t micro_batch, int64_t global_batch,
                  std::vector<plan::Mesh> meshes, bool sequence_parallel);

}  // namespace hapmoe::engine

#endif  // HAPMOE_TESTS_CORE_ENGINE_LAUNCHER_CASES_H_
