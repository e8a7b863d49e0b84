#include "server/planning/planner.h"

#include <algorithm>
#include <chrono>
#include <functional>
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
#include "tests/server/planning/planner_fixture.h"
#include "tests/server/testing/fake_solver.h"
#include "tests/server/testing/requests.h"

namespace hapmoe::server {
namespace {

using std::chrono::milliseconds;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

// What a solver was asked, and TrivialPlan for an answer.
struct Asked {
  search::SearchRequest request;
};
std::unique_ptr<PlanSolver> Recorder(Asked& asked) {
  return std::make_unique<FunctionSolver>([&asked](const search::SearchRequest& request) {
    asked.request = request;
    search::Outcome outcome;
    outcome.best = TrivialPlan(request);
    return outcome;
  });
}

TEST(Planner, PassesTheProblemOnAsItWasAsked) {
  Asked asked;
  PlannerFixture fixture(Recorder(asked));
  v1::PlanRequest request = SmallPlanRequest();
  v1::Constraints* constraints = request.mutable_problem()->mutable_constraints();
  constraints->add_tp(1);
  constraints->add_tp(2);
  constraints->add_micro_batch_size(4);
  constraints->add_virtual_stages(1);
  constraints->add_token_dispatcher("flex");
  constraints->mutable_prunings()->set_load_balance_ratio(0.5);
  constraints->mutable_prunings()->set_cross_type_ratio(2);
  constraints->set_memory_headroom_ratio(0.25);
  constraints->set_allow_idle_accelerators(true);
  const auto answer = fixture.Plan(request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(asked.request.problem.model.layers, 8);
  EXPECT_EQ(asked.request.problem.training.global_batch, 64);
  EXPECT_EQ(asked.request.problem.cluster.accelerators(), 8);
  EXPECT_EQ(asked.request.problem.profiles[0]->name, "H800-SXM");
  EXPECT_EQ(asked.request.problem.memory_headroom_ratio, 0.25);
  EXPECT_THAT(asked.request.constraints.tp, ElementsAre(1, 2));
  EXPECT_THAT(asked.request.constraints.micro_batch, ElementsAre(4));
  EXPECT_TRUE(asked.request.constraints.allow_idle_accelerators);
  EXPECT_THAT(asked.request.constraints.virtual_stages, ElementsAre(1));
  EXPECT_THAT(asked.request.constraints.dispatchers, ElementsAre(model::Dispatcher::kFlex));
  EXPECT_EQ(asked.request.constraints.prunings.load_balance_ratio, 0.5);
  EXPECT_EQ(asked.request.constraints.prunings.cross_type_ratio, 2);
}

TEST(Planner, VirtualStagesAreThoseAsked) {
  PlannerFixture fixture;
  v1::PlanRequest request = SmallPlanRequest();
  v1::Constraints& constraints = *request.mutable_problem()->mutable_constraints();
  constraints.add_pp(2);
  constraints.add_virtual_stages(2);
  const auto answer = fixture.Plan(request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->plan().virtual_stages_per_rank(), 2);
  EXPECT_EQ(answer->plan().meshes(0).stages(0).chunks_size(), 2);
}

TEST(Planner, TellsEveryChangeThatWouldFit) {
  // 70 billion parameters on eight accelerators.
  PlannerFixture fixture;
  v1::PlanRequest request = SmallPlanRequest();
  v1::Job& job = *request.mutable_problem()->mutable_job();
  for (const char* word : {"--num-layers", "80", "--hidden-size", "8192", "--ffn-hidden-size",
                           "28672", "--num-attention-heads", "64"}) {
    job.add_megatron_args(word);
  }
  const absl::Status status = fixture.Plan(request).status();
  ASSERT_EQ(ReasonOf(status), Reason::kNoPlanFits) << status;
  v1::SuggestedChanges changes;
  const google::rpc::Status wire = ToWire(status);
  for (const auto& detail : wire.details()) detail.UnpackTo(&changes);
  ASSERT_GT(changes.alternatives_size(), 0);
  EXPECT_EQ(changes.together_size(), 0);
  EXPECT_EQ(changes.alternatives(0).sentence(), MetadataOf(status, "suggestion"));
  const v1::SuggestedChange& nodes = *changes.alternatives().rbegin();
  EXPECT_EQ(nodes.kind(), v1::SuggestedChange::KIND_ADD_NODES);
  EXPECT_EQ(nodes.subject(), "pool");
  // It is what it says: with so many nodes more there is a plan, with one less there is none.
  v1::Pool& pool = *request.mutable_problem()->mutable_cluster()->mutable_pools(0);
  pool.set_nodes(static_cast<uint32_t>(nodes.amount()));
  EXPECT_EQ(ReasonOf(fixture.Plan(request).status()), Reason::kNoPlanFits);
  pool.set_nodes(static_cast<uint32_t>(nodes.amount()) + 1);
  EXPECT_TRUE(fixture.Plan(request).ok());
}

TEST(Planner, LetsNoPlanOutThatIsNotWhatItClaims) {
  struct Lie {
    const char* name;
    std::function<void(search::Outcome&)> tell;
  };
  const Lie lies[] = {
      {"time", [](search::Outcome& o) { o.best->prediction.iteration_seconds *= 0.99; }},
      {"layers", [](search::Outcome& o) { ++o.best->plan.meshes[0].stages[0].chunks[0].layers; }},
      {"bound", [](search::Outcome& o) { o.termination.lower_bound_seconds = 1e9; }},
      {"optimal", [](search::Outcome& o) { o.termination.reason = search::Reason::kOptimal; }},
      {"uniform",
       [](search::Outcome& o) {
         o.uniform = o.best;
         o.uniform->prediction.stages.clear();
       }},
  };
  for (const Lie& lie : lies) {
    SCOPED_TRACE(lie.name);
    PlannerFixture fixture(
        std::make_unique<FunctionSolver>([&lie](const search::SearchRequest& request) {
          search::Outcome outcome;
          outcome.best = TrivialPlan(request);
          lie.tell(outcome);
          return outcome;
        }));
    ::testing::internal::CaptureStderr();
    const auto answer = fixture.Plan(SmallPlanRequest());
    EXPECT_EQ(answer.status().code(), absl::StatusCode::kInternal);
    EXPECT_EQ(ReasonOf(answer.status()), Reason::kInternalFault);
    EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("certificate_failed"));
  }
}

TEST(Planner, StructuredJobIsPlannedAsItsArguments) {
  Asked asked;
  PlannerFixture fixture(Recorder(asked));
  v1::PlanRequest request = SmallPlanRequest();
  ASSERT_TRUE(fixture.Plan(request).ok());
  const cost::Problem from_arguments = asked.request.problem;
  v1::StructuredJob* job = request.mutable_problem()->mutable_job()->mutable_structured();
  request.mutable_problem()->mutable_job()->clear_megatron_args();
  v1::TransformerModel* model = job->mutable_model();
  model->set_num_layers(8);
  model->set_hidden_size(1024);
  model->set_ffn_hidden_size(4096);
  model->set_num_attention_heads(16);
  model->set_seq_length(1024);
  model->set_vocab_size(32000);
  model->set_swiglu(true);
  model->set_rms_norm(true);
  model->set_disable_bias_linear(true);
  model->set_untie_embeddings_and_output_weights(true);
  model->set_rotary_position_embedding(true);
  job->mutable_training()->set_global_batch_size(64);
  job->mutable_training()->set_precision("bf16");
  job->mutable_training()->set_distributed_optimizer(true);
  const auto answer = fixture.Plan(request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  const cost::Problem& from_fields = asked.request.problem;
  EXPECT_EQ(from_fields.model.layers, from_arguments.model.layers);
  EXPECT_EQ(from_fields.model.ffn_hidden, from_arguments.model.ffn_hidden);
  EXPECT_EQ(from_fields.model.vocab, from_arguments.model.vocab);
  EXPECT_EQ(from_fields.model.gated_mlp, from_arguments.model.gated_mlp);
  EXPECT_EQ(from_fields.training.optimizer.distributed,
            from_arguments.training.optimizer.distributed);
  EXPECT_THAT(asked.request.constraints.micro_batch, ElementsAre(1, 2, 4, 8));
}

TEST(Planner, RulesOfTheJobAloneAreCheckedBeforeTheSearch) {
  PlannerFixture fixture(std::make_unique<FunctionSolver>(
      [](const auto&) -> absl::StatusOr<search::Outcome> { std::abort(); }));
  v1::PlanRequest request = SmallPlanRequest();
  request.mutable_problem()->mutable_job()->add_megatron_args("--fp16");  // And --bf16.
  const auto answer = fixture.Plan(request);
  EXPECT_EQ(ReasonOf(answer.status()), Reason::kRequestInvalid);
}

TEST(Planner, ChoosesTheDispatcherWhereTheJobDoesNotSayWhich) {
  using model::Dispatcher;
  struct Case {
    std::vector<std::string> arguments;
    std::vector<std::string> allowed;
    std::vector<Dispatcher> expected;
  };
  const std::vector<Case> cases = {
      {{}, {}, {Dispatcher::kAllGather, Dispatcher::kAllToAll}},
      {{"--moe-token-dispatcher-type", "alltoall"}, {}, {}},
      {{"--moe-token-dispatcher-type", "alltoall"},
       {"allgather", "flex", "allgather"},
       {Dispatcher::kAllGather, Dispatcher::kFlex}},
      // The engine's default does not run this job, but another one does.
      {{"--moe-shared-expert-intermediate-size", "512", "--moe-shared-expert-overlap"},
       {},
       {Dispatcher::kAllGather, Dispatcher::kAllToAll}},
  };
  for (const Case& c : cases) {
    Asked asked;
    PlannerFixture fixture(Recorder(asked));
    v1::PlanRequest request = SmallPlanRequest();
    v1::Job& job = *request.mutable_problem()->mutable_job();
    for (const char* argument : {"--num-experts", "8", "--moe-grouped-gemm"}) {
      job.add_megatron_args(argument);
    }
    for (const std::string& argument : c.arguments) job.add_megatron_args(argument);
    for (const std::string& name : c.allowed) {
      request.mutable_problem()->mutable_constraints()->add_token_dispatcher(name);
    }
    const auto answer = fixture.Plan(request);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(asked.request.constraints.dispatchers, c.expected);
  }
}

TEST(Planner, RefusesDispatchersThatTheJobCannotUse) {
  PlannerFixture fixture;
  v1::PlanRequest request = SmallPlanRequest();
  v1::Job& job = *request.mutable_problem()->mutable_job();
  for (const char* argument :
       {"--num-experts", "8", "--moe-grouped-gemm", "--moe-shared-expert-intermediate-size", "512",
        "--moe-shared-expert-overlap"}) {
    job.add_megatron_args(argument);
  }
  request.mutable_problem()->mutable_constraints()->add_token_dispatcher("allgather");
  auto answer = fixture.Plan(request);
  EXPECT_EQ(ReasonOf(answer.status()), Reason::kRequestInvalid);
  EXPECT_THAT(std::string(answer.status().message()), HasSubstr("--moe-shared-expert-overlap"));
  request.mutable_problem()->mutable_constraints()->set_token_dispatcher(0, "all\nto all");
  answer = fixture.Plan(request);
  EXPECT_EQ(ReasonOf(answer.status()), Reason::kRequestInvalid);
  EXPECT_THAT(std::string(answer.status().message()), HasSubstr("not \"all\\nto all\""));
}

TEST(Planner, AsksForTheBatchThatPlansAreToShare) {
  PlannerFixture fixture;
  v1::PlanRequest request = SmallPlanRequest();
  auto* args = request.mutable_problem()->mutable_job()->mutable_megatron_args();
  const auto batch = std::find(args->begin(), args->end(), "--global-batch-size");
  args->erase(batch, batch + 2);
  const auto answer = fixture.Plan(request);
  EXPECT_EQ(ReasonOf(answer.status()), Reason::kRequestInvalid);
  EXPECT_THAT(std::string(answer.status().message()), HasSubstr("--global-batch-size"));
}

TEST(Planner, RefusesModelsTooDeepToSearch) {
  PlannerFixture fixture;
  v1::PlanRequest request = SmallPlanRequest();
  auto* args = request.mutable_problem()->mutable_job()->mutable_megatron_args();
  *(std::find(args->begin(), args->end(), "--num-layers") + 1) = "512";
  const auto answer = fixture.Plan(request);
  EXPECT_EQ(ReasonOf(answer.status()), Reason::kRequestInvalid);
  EXPECT_THAT(std::string(answer.status().message()), HasSubstr("--num-layers"));
}

TEST(Planner, SaysWhichOptionsTheLauncherLeavesOut) {
  PlannerFixture fixture;
  v1::PlanRequest request = SmallPlanRequest();
  v1::Job* job = request.mutable_problem()->mutable_job();
  for (const char* argument :
       {"--num-experts", "8", "--moe-grouped-gemm", "--moe-token-dispatcher-type", "alltoall",
        "--overlap-moe-expert-parallel-comm"}) {
    job->add_megatron_args(argument);
  }
  request.mutable_problem()->mutable_constraints()->add_dp(4);  // Two stages.
  request.mutable_problem()->mutable_constraints()->add_tp(1);
  request.mutable_problem()->mutable_constraints()->add_cp(1);
  const auto answer = fixture.Plan(request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->plan().pipeline_stages(), 2);
  EXPECT_THAT(answer->notes(),
              Contains(HasSubstr("--overlap-moe-expert-parallel-comm is left out")));
}

TEST(Planner, SearchIsCountedAsAShareOfTheCall) {
  PlannerFixture fixture;
  const auto answer = fixture.Plan(SmallPlanRequest());
  ASSERT_TRUE(answer.ok()) << answer.status();
  const v1::SearchStatistics& statistics = answer->termination().statistics();
  EXPECT_GT(statistics.search_cpu_seconds(), 0);
  EXPECT_GT(statistics.total_cpu_seconds(), statistics.search_cpu_seconds());
  EXPECT_GT(statistics.search_wall_seconds(), 0);
}

TEST(Planner, UniformPlanIsShownBesideTheAnswer) {
  PlannerFixture fixture;
  const auto answer = fixture.Plan(SmallPlanRequest());
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_TRUE(answer->has_uniform());
  EXPECT_GE(answer->uniform().slowdown_ratio(), 1);
  EXPECT_EQ(answer->uniform().plan().world_size(), 8);
}

TEST(Planner, MixOfVendorsIsPlannedAndItsLauncherAsksForWhatItNeeds) {
  PlannerFixture fixture;
  v1::PlanRequest request = SmallPlanRequest();
  v1::Pool* ascend = request.mutable_problem()->mutable_cluster()->add_pools();
  ascend->set_name("ascend");
  ascend->set_accelerator("Ascend 910B1");
  ascend->set_nodes(1);
  const auto answer = fixture.Plan(request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(answer->plan().engine_requirement(), HasSubstr("HCCL"));
  EXPECT_THAT(answer->artifacts(0).content(), HasSubstr("flagcx"));
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

TEST(Planner, ShortBudgetInterruptsTheSearch) {
  auto search = std::make_shared<SlowSearch>();
  PlannerFixture fixture(std::make_unique<SlowSolver>(search, /*finds_plan=*/true));
  v1::PlanRequest request = SmallPlanRequest();
  request.mutable_problem()->mutable_constraints()->mutable_time_budget()->set_nanos(20'000'000);
  const auto answer = fixture.Plan(request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->termination().limit(), v1::Termination::LIMIT_TIME);
  EXPECT_EQ(fixture.interrupter().cause(), Interrupter::Cause::kTime);
}

TEST(Planner, AnswerForACallerThatWentAwayIsNotBuilt) {
  auto search = std::make_shared<SlowSearch>();
  PlannerFixture fixture(std::make_unique<SlowSolver>(search, /*finds_plan=*/true));
  fixture.interrupter().Trip(Interrupter::Cause::kCancelled);
  EXPECT_EQ(ReasonOf(fixture.Plan(SmallPlanRequest()).status()), Reason::kCallCancelled);
}

TEST(Planner, EvaluateKeepsALayoutThatDoesNotFit) {
  PlannerFixture fixture;
  v1::EvaluateRequest request = SmallEvaluateRequest();
  // 200 layers of width 8192 on 8 accelerators.
  for (const char* argument : {"--num-layers", "200", "--hidden-size", "8192",
                               "--num-attention-heads", "64", "--ffn-hidden-size", "32768"}) {
    request.mutable_job()->add_megatron_args(argument);
  }
  const auto response = fixture.planner().Evaluate(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_FALSE(response->prediction().fits());
  EXPECT_GT(response->prediction().peak_memory_bytes(), int64_t{80} << 30);
}

TEST(Planner, EvaluateListsOperationsWhereItIsAsked) {
  PlannerFixture fixture;
  v1::EvaluateRequest request = SmallEvaluateRequest();
  auto response = fixture.planner().Evaluate(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->operations_size(), 0);
  request.set_list_operations(true);
  response = fixture.planner().Evaluate(request);
  ASSERT_TRUE(response.ok()) << response.status();
  double time = 0;
  for (const v1::OperationCoverage& one : response->operations()) time += one.time_ratio();
  EXPECT_NEAR(time, 1, 1e-9);
}

TEST(Planner, EvaluateRefusesAWorldLargerThanTheCluster) {
  PlannerFixture fixture;
  v1::EvaluateRequest request = SmallEvaluateRequest();
  request.set_world_size(16);
  const auto response = fixture.planner().Evaluate(request);
  EXPECT_EQ(ReasonOf(response.status()), Reason::kRequestInvalid);
  EXPECT_THAT(std::string(response.status().message()), HasSubstr("world_size"));
}

TEST(Planner, EvaluateUsesPartOfTheCluster) {
  PlannerFixture fixture;
  v1::EvaluateRequest request = SmallEvaluateRequest();
  request.set_world_size(4);
  const auto response = fixture.planner().Evaluate(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->plan().world_size(), 4);
  EXPECT_EQ(response->plan().idle_accelerators(), 4);
}

}  // namespace
}  // namespace hapmoe::server
