// The engines that run a plan, one that is asked for or the best of all.
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/errors/errors.h"
#include "server/planning/planner.h"
#include "tests/server/planning/planner_fixture.h"
#include "tests/server/testing/fake_solver.h"
#include "tests/server/testing/requests.h"

namespace hapmoe::server {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

v1::PlanRequest RequestOn(const std::vector<std::string>& accelerators, const std::string& engine) {
  v1::PlanRequest request = SmallPlanRequest();
  request.mutable_problem()->mutable_constraints()->set_engine(engine);
  v1::Cluster& cluster = *request.mutable_problem()->mutable_cluster();
  cluster.clear_pools();
  for (const std::string& accelerator : accelerators) {
    v1::Pool& pool = *cluster.add_pools();
    pool.set_name(accelerator);
    pool.set_accelerator(accelerator);
    pool.set_nodes(1);
  }
  return request;
}

TEST(Planner, PlansForEachEngineOnItsOwnVendor) {
  PlannerFixture fixture;
  const struct {
    const char* accelerator;
    const char* engine;
    const char* file;
    const char* says;
  } cases[] = {
      {"H800", "megatron-bridge", "launch.sh", "scripts/training/run_recipe.py"},
      {"MI300X", "primus", "primus.yaml", "pre_trainer:"},
      {"910B", "mindspeed-llm", "launch.sh", "'--transformer-impl' 'local'"},
  };
  for (const auto& one : cases) {
    const auto answer = fixture.Plan(RequestOn({one.accelerator}, one.engine));
    ASSERT_TRUE(answer.ok()) << one.engine << ": " << answer.status();
    EXPECT_EQ(answer->plan().engine(), one.engine);
    EXPECT_EQ(answer->plan().engine_requirement(), "");
    EXPECT_THAT(answer->engines(), IsEmpty());
    bool written = false;
    for (const v1::Artifact& artifact : answer->artifacts()) {
      if (artifact.name() != one.file) continue;
      EXPECT_THAT(artifact.content(), HasSubstr(one.says));
      written = true;
    }
    EXPECT_TRUE(written) << one.engine;
    // Its own plan is within what it runs.
    for (const v1::Mesh& mesh : answer->plan().meshes()) {
      for (const v1::Stage& stage : mesh.stages()) {
        if (std::string(one.engine) == "mindspeed-llm") {
          EXPECT_EQ(stage.chunks_size(), 1);
          EXPECT_NE(stage.recompute().granularity(), "selective");
        }
      }
    }
  }
}

TEST(Planner, RefusesAnEngineOnAnotherVendor) {
  PlannerFixture fixture;
  for (const auto& [accelerator, engine] :
       {std::pair{"MI300X", "megatron-bridge"}, std::pair{"H800", "primus"},
        std::pair{"H800", "mindspeed-llm"}}) {
    const auto answer = fixture.Plan(RequestOn({accelerator}, engine));
    EXPECT_EQ(answer.status().code(), absl::StatusCode::kInvalidArgument);
    const Violations violations = ViolationsOf(answer.status());
    ASSERT_EQ(violations.size(), 1u) << answer.status();
    EXPECT_EQ(violations.front().rule, "engine_runs_vendor");
  }
}

TEST(Planner, PrefersAnEngineThatRunsAsPublished) {
  PlannerFixture fixture;
  const auto answer = fixture.Plan(RequestOn({"910B"}, "any"));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->plan().engine(), "mindspeed-llm");
  EXPECT_EQ(answer->engines(0).requirement(), "");
  for (const v1::EngineComparison& engine : answer->engines()) {
    if (engine.engine() == "megatron-lm") {
      EXPECT_THAT(engine.requirement(), HasSubstr("MindSpeed"));
    }
  }
}

TEST(Planner, PlansAMixThatNoEngineRunsAndSaysSo) {
  PlannerFixture fixture;
  for (const char* engine : {"megatron-lm", "any"}) {
    const auto answer = fixture.Plan(RequestOn({"H100", "MI300X"}, engine));
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_THAT(answer->plan().engine_requirement(), HasSubstr("RCCL"));
    EXPECT_THAT(answer->notes(), Contains(HasSubstr("No engine that is known here runs one job "
                                                    "over AMD and NVIDIA")));
  }
}

TEST(Planner, TakesTheBestOfAllEngines) {
  PlannerFixture fixture;
  const auto answer = fixture.Plan(RequestOn({"H800", "A100"}, "any"));
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_THAT(answer->engines(), SizeIs(5));
  EXPECT_EQ(answer->engines(0).engine(), answer->plan().engine());
  EXPECT_EQ(answer->engines(0).iteration_seconds(), answer->prediction().iteration_seconds());
  // As each alone: the winner has the least of them.
  for (const v1::EngineComparison& engine : answer->engines()) {
    const auto alone = fixture.Plan(RequestOn({"H800", "A100"}, engine.engine()));
    EXPECT_EQ(alone.ok(), engine.iteration_seconds() > 0) << engine.engine();
    EXPECT_EQ(alone.ok(), engine.why_not().empty());
    if (!alone.ok()) {
      EXPECT_THAT(engine.why_not(), HasSubstr("[engine_runs_vendor]"));
      continue;
    }
    EXPECT_EQ(alone->prediction().iteration_seconds(), engine.iteration_seconds());
    EXPECT_GE(engine.iteration_seconds(), answer->prediction().iteration_seconds() * (1 - 1e-9));
    EXPECT_LE(answer->termination().lower_bound_seconds(),
              alone->termination().lower_bound_seconds() * (1 + 1e-9));
  }
}

// Keeps what it is told.
class Told : public PlanObserver {
 public:
  void OnProgress(const v1::Progress&) override {}
  void OnIncumbent(v1::PlanAnswer answer) override {
    seconds.push_back(answer.prediction().iteration_seconds());
  }
  std::vector<double> seconds;
};

TEST(Planner, TellsBetterPlansOfAllEnginesOnly) {
  PlannerFixture fixture;
  Told told;
  const auto answer = fixture.Plan(RequestOn({"H800", "A100"}, "any"), &told);
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_FALSE(told.seconds.empty());
  for (size_t i = 1; i < told.seconds.size(); ++i) EXPECT_LT(told.seconds[i], told.seconds[i - 1]);
  EXPECT_EQ(told.seconds.back(), answer->prediction().iteration_seconds());
}

TEST(Planner, ComparesALayoutAndAllocationsWithTheBestOfAllEngines) {
  PlannerFixture fixture;
  v1::ExplainRequest explain;
  *explain.mutable_problem() = RequestOn({"H800", "A100"}, "any").problem();
  const auto explained = fixture.Explain(explain);
  ASSERT_TRUE(explained.ok()) << explained.status();
  EXPECT_THAT(explained->best().engines(), SizeIs(5));
  v1::FrontierRequest frontier;
  *frontier.mutable_problem() = explain.problem();
  const auto points = fixture.Frontier(frontier);
  ASSERT_TRUE(points.ok()) << points.status();
  bool both = false;
  for (const v1::FrontierPoint& point : points->points()) {
    if (!point.has_plan() || point.accelerators() != 16) continue;
    both = true;
    EXPECT_EQ(point.plan().engine(), explained->best().plan().engine());
    EXPECT_EQ(point.iteration_seconds(), explained->best().prediction().iteration_seconds());
  }
  EXPECT_TRUE(both);
}

TEST(Planner, SearchesEachSpaceOnceForAllEngines) {
  std::vector<std::string> searched;
  PlannerFixture fixture(
      std::make_unique<FunctionSolver>([&searched](const search::SearchRequest& request) {
        searched.push_back(request.constraints.engine);
        search::Outcome outcome;
        outcome.infeasibility.emplace().summary = "nothing fits " + searched.back();
        return outcome;
      }));
  const auto answer = fixture.Plan(RequestOn({"H800"}, "any"));
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kFailedPrecondition);
  // Megatron-Bridge runs what Megatron-LM runs. The second time changes are sought.
  EXPECT_THAT(searched, ElementsAre("megatron-lm", "flagscale", "megatron-lm", "flagscale"));
  for (const char* says :
       {"Megatron-LM: nothing fits megatron-lm", "Megatron-Bridge: nothing fits megatron-lm",
        "FlagScale: nothing fits flagscale", "Primus: Primus does not run on",
        "MindSpeed-LLM: MindSpeed-LLM does not run on"}) {
    EXPECT_THAT(std::string(answer.status().message()), HasSubstr(says));
  }
}

TEST(Planner, RefusesAHostWhoseDevicesAreTwice) {
  PlannerFixture fixture;
  v1::PlanRequest request = RequestOn({"H800", "A100"}, "megatron-lm");
  for (v1::Pool& pool : *request.mutable_problem()->mutable_cluster()->mutable_pools()) {
    pool.clear_nodes();
    pool.add_hosts("both");
    for (uint32_t device = 0; device < 4; ++device) pool.add_devices(device);
  }
  auto answer = fixture.Plan(request);
  ASSERT_EQ(ViolationsOf(answer.status()).size(), 1u) << answer.status();
  EXPECT_EQ(ViolationsOf(answer.status()).front().rule, "host_devices_disjoint");
  v1::Pool& second = *request.mutable_problem()->mutable_cluster()->mutable_pools(1);
  second.clear_devices();
  for (uint32_t device = 4; device < 8; ++device) second.add_devices(device);
  answer = fixture.Plan(request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->plan().world_size(), 8);
  EXPECT_THAT(answer->artifacts(0).content(), HasSubstr("force CUDA_VISIBLE_DEVICES '4,5,6,7'"));
  request.mutable_problem()->mutable_constraints()->set_engine("flagscale");
  EXPECT_EQ(ViolationsOf(fixture.Plan(request).status()).front().rule,
            "flagscale_host_in_one_pool");
}

// A job on two types of which FlagScale may give each its own degrees.
v1::PlanRequest FlagScaleRequest() {
  v1::PlanRequest request = SmallPlanRequest();
  request.mutable_problem()->mutable_constraints()->set_engine("flagscale");
  v1::Pool* a100 = request.mutable_problem()->mutable_cluster()->add_pools();
  a100->set_name("a100");
  a100->set_accelerator("A100");
  a100->set_nodes(1);
  return request;
}

TEST(Planner, PlansForFlagScaleAndWritesItsFiles) {
  PlannerFixture fixture;
  v1::PlanRequest request = FlagScaleRequest();
  request.mutable_problem()->mutable_job()->add_megatron_args("--log-params-norm");
  const auto answer = fixture.Plan(request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->plan().engine(), "flagscale");
  EXPECT_EQ(answer->plan().engine_requirement(), "");
  EXPECT_EQ(answer->plan().world_size(), 16);
  std::map<std::string, std::string> files;
  for (const v1::Artifact& artifact : answer->artifacts()) {
    files[artifact.name()] = artifact.content();
    EXPECT_EQ(artifact.executable(), artifact.name() == "launch.sh");
  }
  ASSERT_THAT(files, ::testing::UnorderedElementsAre(
                         ::testing::Key("launch.sh"), ::testing::Key("experiment.yaml"),
                         ::testing::Key("train/job.yaml"), ::testing::Key("hostfile")));
  std::string meshes;  // As the answer has them.
  for (const v1::Mesh& mesh : answer->plan().meshes()) {
    for (int i = 0; i < mesh.stages_size(); ++i) {
      absl::StrAppend(&meshes, meshes.empty() ? "" : ",  ", mesh.tp(), ", 1, 1, ", mesh.dp(),
                      ", 1");
    }
  }
  EXPECT_THAT(files["train/job.yaml"],
              HasSubstr(absl::StrCat("hetero_process_meshes: [", meshes, "]\n")));
  EXPECT_THAT(files["train/job.yaml"], HasSubstr("distributed_backend: nccl\n"));
  EXPECT_THAT(files["train/job.yaml"], Not(HasSubstr("log_params_norm")));
  EXPECT_THAT(files["experiment.yaml"], HasSubstr("CUDA_DEVICE_MAX_CONNECTIONS: '1'"));
  EXPECT_THAT(files["hostfile"], HasSubstr("type=a100"));
  EXPECT_THAT(answer->notes(), Contains(HasSubstr("--log-params-norm is left out")));
  EXPECT_THAT(answer->notes(), Contains(HasSubstr("reaches all of them over ssh")));
}

TEST(Planner, NamedHostsOfFlagScaleNeedNoWord) {
  PlannerFixture fixture;
  v1::PlanRequest request = FlagScaleRequest();
  int hosts = 0;
  for (v1::Pool& pool : *request.mutable_problem()->mutable_cluster()->mutable_pools()) {
    for (uint32_t node = 0; node < pool.nodes(); ++node) {
      pool.add_hosts(absl::StrCat("host-", hosts++));
    }
    pool.clear_nodes();
  }
  const auto answer = fixture.Plan(request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(answer->notes(), Not(Contains(HasSubstr("over ssh"))));
}

TEST(Planner, MixOfVendorsOnFlagScaleAsksForItsBackend) {
  PlannerFixture fixture;
  v1::PlanRequest request = FlagScaleRequest();
  request.mutable_problem()->mutable_cluster()->mutable_pools(1)->set_accelerator("Ascend 910B1");
  const auto answer = fixture.Plan(request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(answer->plan().engine_requirement(), HasSubstr("HCCL"));
  for (const v1::Artifact& artifact : answer->artifacts()) {
    if (artifact.name() == "launch.sh") {
      EXPECT_THAT(artifact.content(), HasSubstr("HAPMOE_CONFIRM_BACKEND=flagcx"));
    } else if (artifact.name() == "train/job.yaml") {
      EXPECT_THAT(artifact.content(), HasSubstr("distributed_backend: flagcx\n"));
    } else if (artifact.name() == "experiment.yaml") {
      EXPECT_THAT(artifact.content(), HasSubstr("ASCEND_RT_VISIBLE_DEVICES"));
    }
  }
}

TEST(Planner, TellsWhatFlagScaleDoesNotRun) {
  PlannerFixture fixture;
  v1::PlanRequest request = FlagScaleRequest();
  for (const char* word :
       {"--num-experts", "8", "--moe-layer-freq", "([0]*1+[1]*7)", "--use-mup"}) {
    request.mutable_problem()->mutable_job()->add_megatron_args(word);
  }
  const auto answer = fixture.Plan(request);
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(answer.status()), Reason::kRequestInvalid);
  std::vector<std::string> rules;
  for (const Violation& violation : ViolationsOf(answer.status())) {
    if (absl::StrContains(violation.rule, "flagscale")) {
      rules.push_back(absl::StrCat(violation.rule, " ", violation.field));
    }
  }
  EXPECT_THAT(rules, ElementsAre("flagscale_knows_option --use-mup",
                                 "flagscale_safe_layer_pattern --moe-layer-freq"));
}

}  // namespace
}  // namespace hapmoe::server
