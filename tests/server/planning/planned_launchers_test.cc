// Plans every launcher case by search and reads the launcher's arguments back.

#include <fstream>
#include <string>
#include <vector>

#include "core/engine/megatron_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/engine/launcher_cases.h"
#include "tests/server/planning/planner_fixture.h"

namespace hapmoe::server {
namespace {

class PlannedLauncherTest : public ::testing::TestWithParam<engine::LauncherCase> {
 protected:
  absl::StatusOr<v1::PlanAnswer> Plan(const v1::Problem& problem) {
    v1::PlanRequest request;
    *request.mutable_problem() = problem;
    return fixture_.Plan(request);
  }

  // The case's job on its cluster, whose pools are named after their accelerators.
  static v1::Problem ProblemOf(const engine::LauncherCase& launcher_case) {
    v1::Problem problem;
    for (const std::string& arg : launcher_case.argv) problem.mutable_job()->add_megatron_args(arg);
    for (const cluster::Pool& pool : launcher_case.cluster.pools) {
      v1::Pool& wire = *problem.mutable_cluster()->add_pools();
      wire.set_name(pool.name);
      wire.set_accelerator(pool.name);
      if (pool.hosts.empty()) wire.set_nodes(static_cast<uint32_t>(pool.nodes));
      for (const std::string& host : pool.hosts) wire.add_hosts(host);
      wire.set_accelerators_per_node(static_cast<uint32_t>(pool.accelerators_per_node));
    }
    problem.mutable_constraints()->set_allow_idle_accelerators(true);
    return problem;
  }

 private:
  PlannerFixture fixture_;
};

// Writes a launcher where HAPMOE_WRITE_LAUNCHERS names a folder, for checks with the engine itself.
void WriteLauncher(const std::string& name, const v1::PlanAnswer& answer) {
  const char* folder = std::getenv("HAPMOE_WRITE_LAUNCHERS");
  if (folder == nullptr) return;
  for (const v1::Artifact& artifact : answer.artifacts()) {
    if (artifact.name() != "launch.sh") continue;
    std::ofstream(std::string(folder) + "/" + name + ".sh") << artifact.content();
    std::ofstream(std::string(folder) + "/" + name + ".nodes")
        << answer.plan().nodes_size() << ' ' << answer.plan().world_size() << '\n';
  }
}

TEST_P(PlannedLauncherTest, FitsKeepsTheRulesAndCoversTheModel) {
  const v1::Problem problem = ProblemOf(GetParam());
  const auto answer = Plan(problem);
  if (!answer.ok()) {
    // Refused with a reason, never half answered: fully sharded jobs, and models too large for the
    // cluster.
    EXPECT_THAT(answer.status().code(), ::testing::AnyOf(absl::StatusCode::kInvalidArgument,
                                                         absl::StatusCode::kFailedPrecondition))
        << answer.status();
    RecordProperty("refused", std::string(answer.status().message()));
    return;
  }
  WriteLauncher(GetParam().name, *answer);
  EXPECT_TRUE(answer->prediction().fits());
  Violations violations;
  const engine::MegatronJob job = engine::ParseMegatronJob(GetParam().argv, violations);
  ASSERT_TRUE(violations.empty());
  int32_t stages = 0;
  std::vector<std::vector<v1::Chunk>> chunks;  // Of each virtual stage, in pipeline order.
  for (const v1::Mesh& mesh : answer->plan().meshes()) {
    EXPECT_EQ(mesh.tp() * mesh.cp() * mesh.dp() * answer->plan().pipeline_stages(),
              answer->plan().world_size());
    for (const v1::Stage& stage : mesh.stages()) {
      EXPECT_EQ(stage.index(), stages++);
      chunks.resize(static_cast<size_t>(stage.chunks_size()));
      for (int i = 0; i < stage.chunks_size(); ++i) {
        chunks[static_cast<size_t>(i)].push_back(stage.chunks(i));
      }
      EXPECT_LE(stage.memory().peak_bytes(), stage.memory().budget_bytes());
    }
  }
  int32_t layer = 0;
  for (const std::vector<v1::Chunk>& ranks : chunks) {
    ASSERT_EQ(ranks.size(), static_cast<size_t>(stages));
    for (const v1::Chunk& chunk : ranks) {
      EXPECT_EQ(chunk.first_layer(), layer);
      layer += chunk.layers();
    }
  }
  EXPECT_EQ(layer, job.model.layers);
  EXPECT_EQ(stages, answer->plan().pipeline_stages());
  EXPECT_LE(answer->termination().lower_bound_seconds(),
            answer->prediction().iteration_seconds() * (1 + 1e-9));
  if (answer->has_uniform()) {
    EXPECT_GE(answer->uniform().slowdown_ratio(), 1 - 1e-9);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, PlannedLauncherTest, ::testing::ValuesIn(engine::LauncherCases()),
                         [](const ::testing::TestParamInfo<engine::LauncherCase>& one) {
                           std::string name = one.param.name;
                           for (char& c : name) {
                             if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace hapmoe::server
