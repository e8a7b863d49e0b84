// What the planner answers of allocations, by objectives, and of a layout beside the best plan.
#include "server/planning/frontier_answer.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/search/explain.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/errors/errors.h"
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

// SmallJob on two named nodes of H800 and one of A100.
v1::Problem TwoPools() {
  v1::Problem problem = SmallPlanRequest().problem();
  v1::Pool* fast = problem.mutable_cluster()->mutable_pools(0);
  fast->clear_nodes();
  fast->add_hosts("h1");
  fast->add_hosts("h2");
  v1::Pool* slow = problem.mutable_cluster()->add_pools();
  *slow = ClusterOf("A100", 1).pools(0);
  slow->set_name("slow");
  return problem;
}

v1::FrontierRequest SmallFrontierRequest() {
  v1::FrontierRequest request;
  request.set_request_id("test");
  *request.mutable_problem() = TwoPools();
  return request;
}

v1::PlanRequest PlanRequestBy(v1::Objective::Kind kind) {
  v1::PlanRequest request;
  *request.mutable_problem() = TwoPools();
  request.mutable_problem()->mutable_objective()->set_kind(kind);
  return request;
}

std::string Name(const google::protobuf::RepeatedPtrField<v1::PoolNodes>& allocation) {
  std::string name;
  for (const v1::PoolNodes& pool : allocation) name += pool.pool() + std::to_string(pool.nodes());
  return name;
}

std::vector<std::string> Fields(const absl::Status& status) {
  std::vector<std::string> fields;
  for (const Violation& violation : ViolationsOf(status)) fields.push_back(violation.field);
  return fields;
}

// TrivialPlan of every request, and how many there were.
std::unique_ptr<PlanSolver> Counter(int& searches) {
  return std::make_unique<FunctionSolver>([&searches](const search::SearchRequest& request) {
    ++searches;
    search::Outcome outcome;
    outcome.best = TrivialPlan(request);
    outcome.termination.lower_bound_seconds = outcome.best->prediction.iteration_seconds;
    outcome.termination.statistics.candidates = 10;
    return outcome;
  });
}

TEST(Frontier, HasAPointForEachAllocationOfTheCluster) {
  PlannerFixture fixture;
  const auto response = fixture.Frontier(SmallFrontierRequest());
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->limit(), v1::Termination::LIMIT_NONE);
  std::vector<std::string> names;
  for (const v1::FrontierPoint& point : response->points()) {
    names.push_back(Name(point.allocation()));
    SCOPED_TRACE(names.back());
    EXPECT_TRUE(point.settled());
    EXPECT_GT(point.iteration_seconds(), 0);
    EXPECT_GT(point.device_memory_bytes(), 0);
    EXPECT_EQ(point.price_per_hour(), 0);
    EXPECT_EQ(point.plan().world_size(), point.accelerators_used());
    EXPECT_EQ(point.plan().idle_accelerators(), 24 - point.accelerators_used());
    for (const v1::Node& node : point.plan().nodes()) {
      EXPECT_TRUE(point.allocation_size() == 2 || node.pool() == point.allocation(0).pool());
    }
  }
  EXPECT_THAT(names, ElementsAre("slow1", "pool1", "pool1slow1", "pool2", "pool2slow1"));
  EXPECT_EQ(response->points(1).plan().nodes(0).host(), "h1");
  v1::PlanRequest whole;
  *whole.mutable_problem() = TwoPools();
  const auto answer = fixture.Plan(whole);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(response->points(4).iteration_seconds(), answer->prediction().iteration_seconds());
  EXPECT_EQ(response->points(4).plan().plan_id(), answer->plan().plan_id());
  EXPECT_GT(response->statistics().candidates(), answer->termination().statistics().candidates());
  EXPECT_GT(response->statistics().search_cpu_seconds(), 0);
  EXPECT_GT(response->statistics().total_cpu_seconds(),
            response->statistics().search_cpu_seconds());
}

TEST(Frontier, SizesAreThoseAsked) {
  int searches = 0;
  PlannerFixture fixture(Counter(searches));
  v1::FrontierRequest request = SmallFrontierRequest();
  v1::PoolSizes* sizes = request.add_sizes();
  sizes->set_pool("pool");
  sizes->add_nodes(2);
  const auto response = fixture.Frontier(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_THAT(response->points(), SizeIs(2));  // 2 nodes, with and without the slow one.
  EXPECT_EQ(searches, 2);
  EXPECT_EQ(response->statistics().candidates(), 20);
}

TEST(Frontier, PartsOnWhichNothingFitsAreAnAnswer) {
  PlannerFixture fixture(std::make_unique<FunctionSolver>([](const search::SearchRequest& request) {
    search::Outcome outcome;
    if (request.problem.cluster.accelerators() < 24) {
      outcome.infeasibility = {"Too small.", "memory", 0, 1000, ""};
    } else {
      outcome.best = TrivialPlan(request);
    }
    return outcome;
  }));
  const auto response = fixture.Frontier(SmallFrontierRequest());
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->points(0).why(), "Too small.");
  EXPECT_TRUE(response->points(0).settled());
  EXPECT_FALSE(response->points(0).has_plan());
  EXPECT_TRUE(response->points(4).has_plan());
}

TEST(Frontier, AllSearchesShareOneBudget) {
  auto search = std::make_shared<SlowSearch>();
  PlannerFixture fixture(std::make_unique<SlowSolver>(search, /*finds_plan=*/true));
  v1::FrontierRequest request = SmallFrontierRequest();
  request.mutable_problem()->mutable_constraints()->mutable_time_budget()->set_nanos(20'000'000);
  const auto response = fixture.Frontier(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(search->started, 1);
  EXPECT_EQ(response->limit(), v1::Termination::LIMIT_TIME);
  EXPECT_THAT(response->points(), SizeIs(5));
  EXPECT_TRUE(response->points(0).has_plan());
  EXPECT_FALSE(response->points(0).settled());
  EXPECT_FALSE(response->points(4).settled());
  EXPECT_THAT(response->points(4).why(), HasSubstr("time ran out"));
}

TEST(Frontier, FailsWhereTheTimeAllowedNothingOrNobodyWaits) {
  auto search = std::make_shared<SlowSearch>();
  v1::FrontierRequest request = SmallFrontierRequest();
  request.mutable_problem()->mutable_constraints()->mutable_time_budget()->set_nanos(20'000'000);
  {
    PlannerFixture fixture(std::make_unique<SlowSolver>(search, /*finds_plan=*/false));
    EXPECT_EQ(ReasonOf(fixture.Frontier(request).status()), Reason::kDeadlinePassed);
  }
  PlannerFixture fixture(std::make_unique<SlowSolver>(search, /*finds_plan=*/true));
  fixture.interrupter().Trip(Interrupter::Cause::kCancelled);
  EXPECT_EQ(ReasonOf(fixture.Frontier(request).status()), Reason::kCallCancelled);
}

TEST(Frontier, FaultsAreAllToldAtOnceAndBeforeAnySearch) {
  int searches = 0;
  PlannerFixture fixture(Counter(searches));
  v1::FrontierRequest request = SmallFrontierRequest();
  request.mutable_problem()->mutable_objective()->set_kind(v1::Objective::KIND_PRICE);
  request.mutable_problem()->mutable_constraints()->add_tp(-1);
  request.set_memory_steps(9);
  request.add_sizes()->set_pool("nowhere");
  const auto response = fixture.Frontier(request);
  EXPECT_EQ(ReasonOf(response.status()), Reason::kRequestInvalid);
  EXPECT_THAT(Fields(response.status()),
              ElementsAre("problem.constraints.tp[0]", "problem.objective.kind", "memory_steps",
                          "sizes[0].pool"));
  EXPECT_EQ(searches, 0);
}

TEST(Frontier, FaultsOfTheClusterAreToldWithoutItsSizes) {
  PlannerFixture fixture;
  v1::FrontierRequest request = SmallFrontierRequest();
  request.mutable_problem()->mutable_cluster()->mutable_pools(1)->set_nodes(0);
  EXPECT_THAT(Fields(fixture.Frontier(request).status()),
              ElementsAre("problem.cluster.pools[1].nodes"));
  request.mutable_problem()->clear_cluster();
  EXPECT_THAT(Fields(fixture.Frontier(request).status()), ElementsAre("problem.cluster.pools"));
}

TEST(Frontier, MissingProfilesAreNamed) {
  PlannerFixture fixture;
  v1::FrontierRequest request = SmallFrontierRequest();
  request.mutable_problem()->mutable_cluster()->mutable_pools(1)->set_accelerator("A1000");
  EXPECT_EQ(ReasonOf(fixture.Frontier(request).status()), Reason::kProfileNotFound);
}

TEST(PlanByObjective, FewestAcceleratorsMeetTheDeadline) {
  PlannerFixture fixture;
  const auto frontier = fixture.Frontier(SmallFrontierRequest());
  ASSERT_TRUE(frontier.ok()) << frontier.status();
  // Half way between one node and two.
  const double deadline =
      (frontier->points(1).iteration_seconds() + frontier->points(3).iteration_seconds()) / 2;
  v1::PlanRequest request = PlanRequestBy(v1::Objective::KIND_FEWEST);
  request.mutable_problem()->mutable_objective()->set_deadline_seconds(deadline);
  const auto answer = fixture.Plan(request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  const v1::AllocationChoice& choice = answer->choice();
  EXPECT_LE(answer->prediction().iteration_seconds(), deadline);
  EXPECT_EQ(choice.kind(), v1::Objective::KIND_FEWEST);
  EXPECT_EQ(choice.points_size(), 5);
  EXPECT_THAT(choice.why(), HasSubstr("are the fewest found to meet"));
  for (const v1::FrontierPoint& point : frontier->points()) {
    if (point.iteration_seconds() > deadline) continue;
    EXPECT_LE(answer->plan().world_size(), point.accelerators());
  }
  EXPECT_EQ(answer->plan().idle_accelerators(), 24 - answer->plan().world_size());
  ASSERT_GE(answer->artifacts_size(), 1);
  EXPECT_EQ(answer->artifacts(0).name(), "launch.sh");
}

TEST(PlanByObjective, NothingMeetsTheDeadline) {
  PlannerFixture fixture;
  v1::PlanRequest request = PlanRequestBy(v1::Objective::KIND_FEWEST);
  request.mutable_problem()->mutable_objective()->set_deadline_seconds(1e-6);
  const absl::Status status = fixture.Plan(request).status();
  EXPECT_EQ(ReasonOf(status), Reason::kNoPlanFits);
  EXPECT_EQ(MetadataOf(status, "rule"), "deadline");
  EXPECT_THAT(MetadataOf(status, "suggestion"), HasSubstr("Allow "));
}

TEST(PlanByObjective, PriceNeedsAPriceOfEveryPool) {
  PlannerFixture fixture;
  v1::PlanRequest request = PlanRequestBy(v1::Objective::KIND_PRICE);
  v1::Cluster* cluster = request.mutable_problem()->mutable_cluster();
  cluster->mutable_pools(0)->set_price_per_accelerator_hour(4);
  EXPECT_THAT(Fields(fixture.Plan(request).status()),
              ElementsAre("problem.cluster.pools[1].price_per_accelerator_hour"));
  cluster->mutable_pools(1)->set_price_per_accelerator_hour(0);
  EXPECT_THAT(Fields(fixture.Plan(request).status()),
              ElementsAre("problem.cluster.pools[1].price_per_accelerator_hour"));
}

TEST(PlanByObjective, PriceDecides) {
  // Where one pool is dear the other is taken.
  for (const bool fast_is_dear : {false, true}) {
    PlannerFixture fixture;
    v1::PlanRequest request = PlanRequestBy(v1::Objective::KIND_PRICE);
    v1::Cluster* cluster = request.mutable_problem()->mutable_cluster();
    cluster->mutable_pools(0)->set_price_per_accelerator_hour(fast_is_dear ? 100 : 1);
    cluster->mutable_pools(1)->set_price_per_accelerator_hour(fast_is_dear ? 1 : 100);
    const auto answer = fixture.Plan(request);
    ASSERT_TRUE(answer.ok()) << answer.status();
    ASSERT_EQ(answer->plan().meshes_size(), 1);
    EXPECT_EQ(answer->plan().meshes(0).pool(), fast_is_dear ? "slow" : "pool");
    EXPECT_TRUE(answer->choice().proven());
    double most = 0;
    for (const v1::FrontierPoint& point : answer->choice().points()) {
      most = std::max(most, point.tokens_per_price());
      EXPECT_GT(point.price_per_hour(), 0);
      EXPECT_FALSE(point.has_plan());
    }
    EXPECT_THAT(answer->choice().why(), HasSubstr("tokens for one unit of price"));
    EXPECT_NEAR(most,
                answer->prediction().tokens_per_second() * 3600 /
                    static_cast<double>(answer->plan().world_size()),
                most * 1e-9);
  }
}

TEST(PlanByObjective, TellsHowManyAllocationsAreDone) {
  class Observer : public PlanObserver {
   public:
    void OnProgress(const v1::Progress& progress) override { last = progress; }
    void OnIncumbent(v1::PlanAnswer) override { ADD_FAILURE() << "not of the whole cluster"; }
    v1::Progress last;
  };
  int searches = 0;
  PlannerFixture fixture(Counter(searches));
  v1::PlanRequest request = PlanRequestBy(v1::Objective::KIND_FEWEST);
  request.mutable_problem()->mutable_objective()->set_deadline_seconds(1e6);
  Observer observer;
  ASSERT_TRUE(fixture.Plan(request, &observer).ok());
  EXPECT_EQ(observer.last.candidates(), 5);
  EXPECT_GE(observer.last.candidates_done(), 1);
}

TEST(PlanByObjective, SaysWhichNumbersOfNodesWereNotTried) {
  int searches = 0;
  PlannerFixture fixture(Counter(searches));
  v1::PlanRequest request = SmallPlanRequest();
  request.mutable_problem()->mutable_cluster()->mutable_pools(0)->set_nodes(100);
  request.mutable_problem()->mutable_objective()->set_kind(v1::Objective::KIND_FEWEST);
  request.mutable_problem()->mutable_objective()->set_deadline_seconds(1e6);
  // TrivialPlan splits the batch over all accelerators.
  *(std::find(request.mutable_problem()->mutable_job()->mutable_megatron_args()->begin(),
              request.mutable_problem()->mutable_job()->mutable_megatron_args()->end(),
              "--global-batch-size") +
    1) = "3200";
  const auto answer = fixture.Plan(request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(answer->termination().restrictions(),
              Contains(HasSubstr("1, 2, 4, 8, 16, 32, 64, 100 nodes of pool")));
  EXPECT_EQ(answer->choice().points_size(), 8);  // 1 2 4 8 16 32 64 100
}

TEST(PlanByObjective, ManyPoolsAreRefusedByName) {
  PlannerFixture fixture;
  v1::PlanRequest request = PlanRequestBy(v1::Objective::KIND_FEWEST);
  request.mutable_problem()->mutable_objective()->set_deadline_seconds(1);
  for (int i = 0; i < 8; ++i) {
    v1::Pool* pool = request.mutable_problem()->mutable_cluster()->add_pools();
    *pool = ClusterOf("A100", 1).pools(0);
    pool->set_name("more" + std::to_string(i));
  }
  const Violations faults = ViolationsOf(fixture.Plan(request).status());
  ASSERT_THAT(faults, SizeIs(1));
  EXPECT_EQ(faults[0].rule, "allocations_in_range");
}

v1::ExplainRequest SmallExplainRequest() {
  v1::ExplainRequest request;
  request.set_request_id("test");
  *request.mutable_problem()->mutable_job() = SmallEvaluateRequest().job();
  *request.mutable_problem()->mutable_cluster() = ClusterOf("H800", 1);
  return request;
}

TEST(Explain, SetsThePlanBesideTheLayout) {
  PlannerFixture fixture;
  const auto response = fixture.Explain(SmallExplainRequest());
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->layout().meshes(0).tp(), 2);
  EXPECT_EQ(response->layout().pipeline_stages(), 2);
  EXPECT_THAT(response->layout_faults(), IsEmpty());
  const auto evaluated = fixture.planner().Evaluate(SmallEvaluateRequest());
  ASSERT_TRUE(evaluated.ok()) << evaluated.status();
  EXPECT_EQ(response->layout_prediction().iteration_seconds(),
            evaluated->prediction().iteration_seconds());
  EXPECT_GE(response->slowdown_ratio(), 1);
  EXPECT_THAT(response->sentences(0), HasSubstr("An iteration takes"));
  EXPECT_THAT(response->sentences(), Contains(HasSubstr("tp 2")));
  double best = 0;
  double layout = 0;
  for (const v1::TermDifference& term : response->terms()) {
    best += term.best_seconds();
    layout += term.layout_seconds();
  }
  EXPECT_NEAR(best, response->best().prediction().iteration_seconds(), best * 1e-9);
  EXPECT_NEAR(layout, response->layout_prediction().iteration_seconds(), layout * 1e-9);
}

TEST(Explain, AnInvalidLayoutIsAnAnswer) {
  PlannerFixture fixture;
  v1::ExplainRequest request = SmallExplainRequest();
  request.set_world_size(6);  // Not divisible by 2 x 2.
  const auto response = fixture.Explain(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_TRUE(response->best().has_plan());
  EXPECT_FALSE(response->has_layout());
  ASSERT_GE(response->layout_faults_size(), 1);
  EXPECT_EQ(response->layout_faults(0).rule(), "world_divisible_by_tp_pp_cp");
  EXPECT_THAT(response->sentences(0), HasSubstr("The layout is not valid: "));
  EXPECT_EQ(response->terms_size(), 0);
}

TEST(Explain, ALayoutThatDoesNotFitIsAnAnswer) {
  PlannerFixture fixture;
  v1::ExplainRequest request = SmallExplainRequest();
  // 48 layers of 16 x 4096^2 are 12.9e9 parameters, of which each rank holds parameters and
  // gradients in 6 bytes, and an eighth of the optimizer's 12: 97 GB.
  *request.mutable_problem()->mutable_job() = SmallPlanRequest().problem().job();
  for (const char* argument : {"--num-layers", "48", "--hidden-size", "4096",
                               "--num-attention-heads", "32", "--ffn-hidden-size", "16384"}) {
    request.mutable_problem()->mutable_job()->add_megatron_args(argument);
  }
  const auto response = fixture.Explain(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_TRUE(response->best().prediction().fits());
  EXPECT_FALSE(response->layout_prediction().fits());
  EXPECT_THAT(response->sentences(0), HasSubstr("The layout does not fit"));
}

TEST(Explain, FaultsOfTheRequestAreErrors) {
  PlannerFixture fixture;
  v1::ExplainRequest request = SmallExplainRequest();
  request.mutable_problem()->mutable_objective()->set_kind(v1::Objective::KIND_PRICE);
  EXPECT_THAT(Fields(fixture.Explain(request).status()), ElementsAre("problem.objective.kind"));
  request = SmallExplainRequest();
  request.set_world_size(9);
  EXPECT_THAT(Fields(fixture.Explain(request).status()), ElementsAre("world_size"));
}

TEST(Explain, FailsAsPlanDoesWhereNothingFits) {
  PlannerFixture fixture(std::make_unique<FunctionSolver>([](const auto&) {
    search::Outcome outcome;
    outcome.infeasibility = {"Too large.", "memory", 0, 1000, ""};
    return outcome;
  }));
  EXPECT_EQ(ReasonOf(fixture.Explain(SmallExplainRequest()).status()), Reason::kNoPlanFits);
}

TEST(AddAlternatives, NamesWhatDiffers) {
  PlannerFixture fixture;
  search::SearchRequest asked;
  ReadProblem read;
  {
    PlannerFixture recorder(
        std::make_unique<FunctionSolver>([&asked](const search::SearchRequest& request) {
          asked = request;
          search::Outcome outcome;
          outcome.best = TrivialPlan(request);
          return outcome;
        }));
    ASSERT_TRUE(recorder.Plan(SmallPlanRequest()).ok());
  }
  read.problem = asked.problem;
  const EngineCatalog engines = BuiltInEngines();
  read.engines = {{kDefaultEngine, engines.Find(kDefaultEngine)}};
  read.catalog = &engines;
  const search::Costed best = TrivialPlan(asked);
  search::Costed other = best;
  other.plan.meshes[0].degrees.tp = 2;
  other.plan.meshes[0].degrees.dp = 4;
  other.prediction.iteration_seconds = 1.5 * best.prediction.iteration_seconds;
  search::Costed nowhere = best;
  nowhere.plan.meshes[0].degrees.dp = 4096;  // No nodes hold it.
  v1::PlanAnswer answer;
  AddAlternatives(read, {other, nowhere}, best, answer);
  ASSERT_THAT(answer.alternatives(), SizeIs(1));
  EXPECT_EQ(answer.alternatives(0).kind(), "tp 2 instead of 1, dp 4 instead of 8");
  EXPECT_DOUBLE_EQ(answer.alternatives(0).slowdown_ratio(), 1.5);
  EXPECT_EQ(answer.alternatives(0).plan().meshes(0).tp(), 2);
  EXPECT_THAT(answer.alternatives(0).plan().nodes(), Not(IsEmpty()));
}

}  // namespace
}  // namespace hapmoe::server
