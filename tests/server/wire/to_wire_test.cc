#include "server/wire/to_wire.h"

#include <iterator>
#include <limits>
#include <memory>
#include <utility>

#include "gtest/gtest.h"

namespace hapmoe::server {
namespace {

// Two pools of one node; two meshes of one stage each, 8 ranks a stage.
struct Fixture {
  cost::Problem problem;
  plan::Plan plan;
  cost::Prediction prediction;
  plan::NodeAssignment nodes;

  Fixture() {
    problem.cluster.pools.resize(2);
    for (const char* name : {"fast", "slow"}) {
      cluster::Pool& pool = problem.cluster.pools[name[0] == 'f' ? 0 : 1];
      pool.name = name;
      pool.nodes = 2;
      auto profile = std::make_shared<profile::AcceleratorProfile>();
      profile->name = std::string(name) + "-type";
      problem.profiles.push_back(profile);
    }
    plan.meshes.resize(2);
    plan.micro_batch = 2;
    plan.global_batch = 64;
    plan.micro_batches = 4;
    for (int64_t i = 0; i < 2; ++i) {
      plan::Mesh& mesh = plan.meshes[i];
      mesh.pool = i;
      mesh.degrees.dp = 8;
      mesh.stages.resize(1);
      plan::Chunk& chunk = mesh.stages[0].chunks.emplace_back();
      chunk.first_layer = 5 * i;
      chunk.layers = i == 0 ? 5 : 3;
      chunk.embedding = i == 0;
      chunk.loss = i == 1;
    }
    plan.meshes[1].stages[0].recompute.granularity = model::Recompute::Granularity::kSelective;
    plan.meshes[1].stages[0].recompute.modules =
        model::kRecomputeCoreAttention | model::kRecomputeMlp;
    prediction.iteration_seconds = 2;
    prediction.stages.resize(2);
    prediction.stages[0].memory.parameters_bytes = 10.4;
    prediction.stages[0].memory.gradients_bytes = 20.4;
    prediction.stages[0].memory.budget_bytes = 100;
    prediction.evidence = {1, 2, 5};
    nodes = plan::AssignNodes(plan, problem.cluster).value();
  }
};

TEST(PlanToWire, NamesTheDispatcherThatThePlanChose) {
  Fixture fixture;
  const auto name = [&] {
    return PlanToWire(fixture.plan, fixture.prediction, fixture.nodes, fixture.problem, "")
        .token_dispatcher();
  };
  EXPECT_EQ(name(), "");
  fixture.plan.dispatcher = model::Dispatcher::kAllToAll;
  EXPECT_EQ(name(), "alltoall");
}

TEST(PlanToWire, NamesPoolsRanksLayersAndRecomputation) {
  const Fixture fixture;
  const v1::ExecutionPlan wire = PlanToWire(fixture.plan, fixture.prediction, fixture.nodes,
                                            fixture.problem, "a special build");
  EXPECT_EQ(wire.pipeline_stages(), 2);
  EXPECT_EQ(wire.virtual_stages_per_rank(), 1);
  EXPECT_EQ(wire.world_size(), 16);
  EXPECT_EQ(wire.idle_accelerators(), 16);  // 4 nodes of 8, two of them used.
  EXPECT_EQ(wire.engine_requirement(), "a special build");
  EXPECT_EQ(wire.nodes_size(), 2);
  EXPECT_EQ(wire.nodes(1).pool(), "slow");
  EXPECT_EQ(wire.nodes(1).first_rank(), 8);
  ASSERT_EQ(wire.meshes_size(), 2);
  EXPECT_EQ(wire.meshes(1).pool(), "slow");
  EXPECT_EQ(wire.meshes(1).accelerator(), "slow-type");
  const v1::Stage& stage = wire.meshes(1).stages(0);
  EXPECT_EQ(stage.index(), 1);
  EXPECT_EQ(stage.layers(), 3);
  EXPECT_EQ(stage.chunks(0).first_layer(), 5);
  EXPECT_EQ(stage.first_rank(), 8);
  EXPECT_EQ(stage.node_ranks(0), 1);
  EXPECT_EQ(stage.recompute().granularity(), "selective");
  ASSERT_EQ(stage.recompute().modules_size(), 2);
  EXPECT_EQ(stage.recompute().modules(0), "core_attn");
  EXPECT_EQ(stage.recompute().modules(1), "mlp");
}

TEST(PlanToWire, RoundedPartsOfMemoryAddUp) {
  const Fixture fixture;
  const v1::ExecutionPlan wire =
      PlanToWire(fixture.plan, fixture.prediction, fixture.nodes, fixture.problem, "");
  const v1::MemoryBreakdown& memory = wire.meshes(0).stages(0).memory();
  EXPECT_EQ(memory.parameters_bytes(), 10);
  EXPECT_EQ(memory.gradients_bytes(), 20);
  EXPECT_EQ(memory.peak_bytes(), 30);  // 10 + 20, not the rounded 30.8.
  EXPECT_EQ(PredictionToWire(fixture.prediction).peak_memory_bytes(), 31);
  EXPECT_EQ(PredictionToWire(fixture.prediction).device_memory_bytes(), 31);
}

TEST(PlanToWire, SingleStageHasNoLayout) {
  Fixture fixture;
  fixture.plan.meshes.pop_back();
  fixture.plan.meshes[0].stages[0].chunks[0].loss = true;
  fixture.nodes = plan::AssignNodes(fixture.plan, fixture.problem.cluster).value();
  EXPECT_EQ(PlanToWire(fixture.plan, fixture.prediction, fixture.nodes, fixture.problem, "")
                .pipeline_layout(),
            "");
}

TEST(PlanDigest, DependsOnEverythingButItself) {
  const Fixture fixture;
  v1::ExecutionPlan wire =
      PlanToWire(fixture.plan, fixture.prediction, fixture.nodes, fixture.problem, "");
  EXPECT_EQ(wire.plan_id().size(), 32u);
  EXPECT_EQ(PlanDigest(wire), wire.plan_id());
  wire.mutable_meshes(0)->mutable_stages(0)->set_layers(6);
  EXPECT_NE(PlanDigest(wire), wire.plan_id());
}

TEST(PlanDigest, IsFnv1a) {
  // No bytes: the offset basis of the 128-bit variant.
  EXPECT_EQ(PlanDigest(v1::ExecutionPlan()), "6c62272e07bb014262b821756295c58d");
}

TEST(PredictionToWire, SharesOfEvidenceAddUpToOne) {
  const v1::Basis basis = PredictionToWire(Fixture().prediction).basis();
  EXPECT_DOUBLE_EQ(basis.measured_ratio(), 0.125);     // 1 / 8
  EXPECT_DOUBLE_EQ(basis.interpolated_ratio(), 0.25);  // 2 / 8
  EXPECT_DOUBLE_EQ(basis.analytic_ratio(), 0.625);     // 5 / 8
}

TEST(CoverageToWire, SharesAreOfTheOperationAndOfAllOperations) {
  cost::OperationCoverage product;
  product.accelerator = "A";
  product.operation = "qkv";
  product.m = 8;
  product.n = 4;
  product.k = 2;
  product.evidence.measured_seconds = 1;
  product.evidence.interpolated_seconds = 2;
  product.evidence.analytic_seconds = 1;
  cost::OperationCoverage norm;
  norm.operation = "norm";
  norm.evidence.analytic_seconds = 12;
  const auto wire = CoverageToWire({norm, product});
  ASSERT_EQ(wire.size(), 2);
  EXPECT_EQ(wire[0].operation(), "norm");
  EXPECT_EQ(wire[0].m(), 0);
  EXPECT_DOUBLE_EQ(wire[0].time_ratio(), 0.75);  // 12 / 16
  EXPECT_DOUBLE_EQ(wire[0].measured_ratio(), 0);
  EXPECT_EQ(wire[1].accelerator(), "A");
  EXPECT_EQ(wire[1].m() * 100 + wire[1].n() * 10 + wire[1].k(), 842);
  EXPECT_DOUBLE_EQ(wire[1].time_ratio(), 0.25);         // 4 / 16
  EXPECT_DOUBLE_EQ(wire[1].measured_ratio(), 0.25);     // 1 / 4
  EXPECT_DOUBLE_EQ(wire[1].interpolated_ratio(), 0.5);  // 2 / 4
}

TEST(TerminationToWire, GapIsRelativeToTheIterationTime) {
  search::Termination termination;
  termination.limit = search::Limit::kFinalists;
  termination.lower_bound_seconds = 1.5;
  termination.statistics.pruned = {{"memory", 3}};
  const v1::Termination wire = TerminationToWire(termination, 2);
  EXPECT_EQ(wire.reason(), v1::Termination::REASON_INCUMBENT);
  EXPECT_EQ(wire.limit(), v1::Termination::LIMIT_FINALISTS);
  EXPECT_DOUBLE_EQ(wire.gap_ratio(), 0.25);  // (2 - 1.5) / 2
  ASSERT_EQ(wire.statistics().pruned_size(), 1);
  EXPECT_EQ(wire.statistics().pruned(0).rule(), "memory");
}

TEST(SuggestedChangesToWire, KeepsKindsSizesSubjectsAndOrder) {
  using Kind = search::Suggestion::Kind;
  const std::pair<Kind, v1::SuggestedChange::Kind> kinds[] = {
      {Kind::kAllowIdle, v1::SuggestedChange::KIND_ALLOW_IDLE},
      {Kind::kChooseRecompute, v1::SuggestedChange::KIND_CHOOSE_RECOMPUTE},
      {Kind::kMicroBatch, v1::SuggestedChange::KIND_MICRO_BATCH},
      {Kind::kDegree, v1::SuggestedChange::KIND_DEGREE},
      {Kind::kShardOptimizer, v1::SuggestedChange::KIND_SHARD_OPTIMIZER},
      {Kind::kOffloadOptimizer, v1::SuggestedChange::KIND_OFFLOAD_OPTIMIZER},
      {Kind::kAddNodes, v1::SuggestedChange::KIND_ADD_NODES},
  };
  search::Infeasibility why;
  for (const auto& [kind, wire] : kinds) why.suggestions.push_back({kind, 0, "", ""});
  why.together = {{Kind::kAddNodes, 3, "a100", "Add 3 nodes."}, {Kind::kDegree, 4, "tp", "tp 4."}};
  const v1::SuggestedChanges wire = SuggestedChangesToWire(why);
  ASSERT_EQ(wire.alternatives_size(), static_cast<int>(std::size(kinds)));
  for (size_t i = 0; i < std::size(kinds); ++i) {
    EXPECT_EQ(wire.alternatives(static_cast<int>(i)).kind(), kinds[i].second);
  }
  ASSERT_EQ(wire.together_size(), 2);
  EXPECT_EQ(wire.together(0).kind(), v1::SuggestedChange::KIND_ADD_NODES);
  EXPECT_EQ(wire.together(0).amount(), 3);
  EXPECT_EQ(wire.together(0).subject(), "a100");
  EXPECT_EQ(wire.together(0).sentence(), "Add 3 nodes.");
  EXPECT_EQ(wire.together(1).subject(), "tp");
}

TEST(ProgressToWire, NoBoundIsZero) {
  search::Progress progress;
  progress.lower_bound_seconds = std::numeric_limits<double>::infinity();
  EXPECT_EQ(ProgressToWire(progress, 0).lower_bound_seconds(), 0);
}

TEST(FrontierPointToWire, HoldsFiguresAndPrices) {
  Fixture fixture;
  cluster::Cluster& cluster = fixture.problem.cluster;
  search::FrontierPoint point;
  point.allocation.nodes = {2, 0};
  point.accelerators = 16;
  point.memory_headroom_ratio = 0.25;
  point.on_pareto_front = true;
  search::Outcome& outcome = point.outcome.emplace();
  fixture.prediction.tokens_per_second = 100;
  outcome.best = search::Costed{fixture.plan, fixture.prediction};
  outcome.termination.lower_bound_seconds = 1.5;
  v1::FrontierPoint wire = FrontierPointToWire(cluster, point);
  ASSERT_EQ(wire.allocation_size(), 1);
  EXPECT_EQ(wire.allocation(0).pool(), "fast");
  EXPECT_EQ(wire.allocation(0).nodes(), 2);
  EXPECT_EQ(wire.accelerators(), 16);
  EXPECT_EQ(wire.accelerators_used(), 16);
  EXPECT_EQ(wire.memory_headroom_ratio(), 0.25);
  EXPECT_EQ(wire.iteration_seconds(), 2);
  EXPECT_EQ(wire.tokens_per_second(), 100);
  EXPECT_EQ(wire.device_memory_bytes(), 31);  // 10.4 + 20.4
  EXPECT_EQ(wire.gap_ratio(), 0.25);
  EXPECT_TRUE(wire.on_pareto_front());
  EXPECT_TRUE(wire.settled());
  EXPECT_EQ(wire.price_per_hour(), 0);

  cluster.pools[0].price_per_accelerator_hour = 2;
  EXPECT_EQ(FrontierPointToWire(cluster, point).price_per_hour(), 0);  // The other has none.
  cluster.pools[1].price_per_accelerator_hour = 1;
  wire = FrontierPointToWire(cluster, point);
  EXPECT_EQ(wire.price_per_hour(), 32);       // 16 x 2
  EXPECT_EQ(wire.tokens_per_price(), 11250);  // 100 x 3600 / 32
}

TEST(FrontierPointToWire, SaysWhyThereIsNoPlan) {
  const Fixture fixture;
  search::FrontierPoint point;
  point.allocation.nodes = {1, 1};
  point.why = "Too small.";
  point.settled = false;
  const v1::FrontierPoint wire = FrontierPointToWire(fixture.problem.cluster, point);
  EXPECT_EQ(wire.allocation_size(), 2);
  EXPECT_EQ(wire.why(), "Too small.");
  EXPECT_FALSE(wire.settled());
  EXPECT_EQ(wire.iteration_seconds(), 0);
}

}  // namespace
}  // namespace hapmoe::server
