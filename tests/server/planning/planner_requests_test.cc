// What a request asks, and how it reaches the search or is refused before it.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/errors/errors.h"
#include "server/planning/planner.h"
#include "tests/server/planning/planner_fixture.h"
#include "tests/server/testing/fake_solver.h"
#include "tests/server/testing/requests.h"

namespace hapmoe::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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

}  // namespace
}  // namespace hapmoe::server
