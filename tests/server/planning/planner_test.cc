// What an answer holds beside its plan, and when there is none.
#include "server/planning/planner.h"

#include <functional>
#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/errors/errors.h"
#include "tests/server/planning/planner_fixture.h"
#include "tests/server/testing/fake_solver.h"
#include "tests/server/testing/requests.h"

namespace hapmoe::server {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

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

TEST(Planner, UniformPlanIsShownBesideTheAnswer) {
  PlannerFixture fixture;
  const auto answer = fixture.Plan(SmallPlanRequest());
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_TRUE(answer->has_uniform());
  EXPECT_GE(answer->uniform().slowdown_ratio(), 1);
  EXPECT_EQ(answer->uniform().plan().world_size(), 8);
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

}  // namespace
}  // namespace hapmoe::server
