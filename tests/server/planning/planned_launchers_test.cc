// Plans every launcher case, and random jobs on random clusters for every engine, by search, and
// reads the launcher's arguments back. HAPMOE_WRITE_LAUNCHERS names a folder that the launchers are
// written to; HAPMOE_RANDOM_LAUNCHERS says how many of each engine, 4 when left out.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/engine/megatron_job.h"
#include "core/plan/engine_traits.h"
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

// Random jobs on random clusters of the accelerators that an engine runs on.
class RandomLaunchersTest : public ::testing::TestWithParam<std::string> {
 protected:
  int64_t Pick(std::initializer_list<int64_t> values) {
    return *(values.begin() + std::uniform_int_distribution<size_t>(0, values.size() - 1)(random_));
  }
  bool Flip() { return Pick({0, 1}) == 1; }

  std::vector<std::string> RandomJob() {
    const int64_t heads = Pick({8, 16, 32});
    const int64_t hidden = heads * Pick({64, 128});
    std::string job = absl::StrCat(
        "--num-layers ", Pick({8, 12, 16, 24, 27, 32}), " --hidden-size ", hidden,
        " --ffn-hidden-size ", hidden * Pick({3, 4}), " --num-attention-heads ", heads,
        " --seq-length ", Pick({2048, 4096}),
        " --max-position-embeddings 4096 --position-embedding-type rope --normalization RMSNorm "
        "--swiglu --disable-bias-linear --bf16 --micro-batch-size ",
        Pick({1, 2}), " --global-batch-size ", Pick({64, 128, 256}),
        " --train-iters 100 --lr 1e-4 --min-lr 1e-5 --lr-decay-style cosine --lr-warmup-iters 5 "
        "--weight-decay 0.1 --clip-grad 1.0 --mock-data --tokenizer-type NullTokenizer "
        "--vocab-size 32000 --attention-dropout 0 --hidden-dropout 0 --eval-iters 1 "
        "--eval-interval 100");
    if (Flip()) absl::StrAppend(&job, " --use-distributed-optimizer");
    if (Flip()) absl::StrAppend(&job, " --untie-embeddings-and-output-weights");
    if (Flip()) absl::StrAppend(&job, " --group-query-attention --num-query-groups ", heads / 2);
    if (Flip()) {
      absl::StrAppend(&job, " --num-experts ", Pick({8, 16}), " --moe-router-topk 2 ",
                      "--moe-grouped-gemm --moe-token-dispatcher-type alltoall "
                      "--moe-router-load-balancing-type aux_loss --moe-aux-loss-coeff 1e-2 ",
                      "--moe-ffn-hidden-size ", hidden);
      // FlagScale runs layers of one kind only.
      if (GetParam() != plan::kFlagScale && Flip()) {
        const std::string layers = job.substr(13, job.find(' ', 13) - 13);
        absl::StrAppend(&job, " --moe-layer-freq ([0]*1+[1]*", std::stoll(layers) - 1, ")");
      }
    }
    // Few engines' launchers hold prediction layers; stages with them are uneven.
    if (GetParam() != plan::kFlagScale && Pick({0, 1, 2}) == 0) {
      absl::StrAppend(&job, " --mtp-num-layers 1");
    }
    return engine::SplitWords(job);
  }

  v1::Problem RandomProblem() {
    static const std::map<std::string, std::vector<std::string>> kTypes = {
        {plan::kMegatronLm, {"H800-SXM", "A100-SXM-80GB", "MI300X", "910B3"}},
        {plan::kMegatronBridge, {"H800-SXM", "A100-SXM-80GB", "H20-96GB"}},
        {plan::kPrimus, {"MI300X", "MI325X", "MI355X"}},
        {plan::kMindSpeedLlm, {"910B3", "910B2", "910B1"}},
        {plan::kFlagScale, {"H800-SXM", "A100-SXM-80GB", "H20-96GB"}},
    };
    v1::Problem problem;
    for (const std::string& arg : RandomJob()) problem.mutable_job()->add_megatron_args(arg);
    const std::vector<std::string>& types = kTypes.at(GetParam());
    const int64_t pools = Pick({1, 2, 2, 3});
    for (int64_t i = 0; i < pools; ++i) {
      v1::Pool& pool = *problem.mutable_cluster()->add_pools();
      pool.set_name(absl::StrCat("pool", i));
      pool.set_accelerator(types[static_cast<size_t>(Pick({0, 1, 2}))]);
      pool.set_nodes(static_cast<uint32_t>(Pick({1, 2})));
      pool.set_accelerators_per_node(static_cast<uint32_t>(Pick({4, 8, 8})));
    }
    problem.mutable_constraints()->set_engine(GetParam());
    problem.mutable_constraints()->set_allow_idle_accelerators(Flip());
    problem.mutable_constraints()->mutable_time_budget()->set_seconds(2);
    return problem;
  }

  std::mt19937_64 random_{20261130};
};

TEST_P(RandomLaunchersTest, AreWrittenForPlansThatTheEngineRuns) {
  const char* wanted = std::getenv("HAPMOE_RANDOM_LAUNCHERS");
  const int plans = wanted == nullptr ? 4 : std::atoi(wanted);
  const char* folder = std::getenv("HAPMOE_WRITE_LAUNCHERS");
  const plan::EngineTraits& engine = *plan::FindEngine(GetParam());
  int planned = 0;
  for (int tried = 0; planned < plans && tried < 20 * plans; ++tried) {
    v1::PlanRequest request;
    *request.mutable_problem() = RandomProblem();
    PlannerFixture fixture;  // Its own: a search that runs out of time trips the next ones too.
    const auto answer = fixture.Plan(request);
    if (!answer.ok()) {
      EXPECT_THAT(answer.status().code(), ::testing::AnyOf(absl::StatusCode::kFailedPrecondition,
                                                           absl::StatusCode::kDeadlineExceeded))
          << request.ShortDebugString() << answer.status();
      continue;
    }
    SCOPED_TRACE(request.ShortDebugString());
    const v1::ExecutionPlan& plan = answer->plan();
    EXPECT_EQ(plan.engine(), GetParam());
    if (engine.max_virtual_stages > 0) {
      EXPECT_LE(plan.virtual_stages_per_rank(), engine.max_virtual_stages);
    }
    for (const v1::Mesh& mesh : plan.meshes()) {
      if (!engine.degrees_per_stage) {
        EXPECT_EQ(mesh.tp(), plan.meshes(0).tp());
        EXPECT_EQ(mesh.ep(), plan.meshes(0).ep());
      }
      for (const v1::Stage& stage : mesh.stages()) {
        if (!engine.recomputes_modules) {
          EXPECT_NE(stage.recompute().granularity(), "selective");
        }
      }
    }
    ASSERT_GE(answer->artifacts_size(), 2);
    if (folder != nullptr) {
      const std::filesystem::path own =
          std::filesystem::path(folder) / absl::StrCat(GetParam(), "-", planned);
      for (const v1::Artifact& artifact : answer->artifacts()) {
        std::filesystem::create_directories((own / artifact.name()).parent_path());
        std::ofstream(own / artifact.name()) << artifact.content();
      }
      std::ofstream(own / "nodes") << plan.nodes_size() << ' ' << plan.world_size() << '\n';
    }
    ++planned;
  }
  EXPECT_EQ(planned, plans);
}

std::vector<std::string> EngineNames() {
  std::vector<std::string> names;
  for (const plan::EngineTraits& engine : plan::Engines()) names.emplace_back(engine.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Engines, RandomLaunchersTest, ::testing::ValuesIn(EngineNames()),
                         [](const ::testing::TestParamInfo<std::string>& one) {
                           std::string name = one.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace hapmoe::server
