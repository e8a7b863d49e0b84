// The checker of plans: it passes what the search returns, and finds every single corruption of it.
#include "core/search/certificate.h"

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "core/cost/evaluate.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/search/random_request.h"
#include "tests/core/testing/fixtures.h"

namespace hapmoe::search {
namespace {

using ::testing::HasSubstr;

// A request and the outcome that a case corrupts.
struct Checked {
  SearchRequest request;
  Outcome outcome;

  plan::Plan& plan() { return outcome.best->plan; }
  plan::Mesh& first() { return plan().meshes.front(); }
  plan::Mesh& last() { return plan().meshes.back(); }
  plan::Chunk& first_chunk() { return first().stages.front().chunks.front(); }
  plan::Chunk& last_chunk() { return last().stages.back().chunks.back(); }
  cost::Prediction& prediction() { return outcome.best->prediction; }
  // Predicts the corrupted plan, so that its prediction is true of it.
  void Predict() { prediction() = cost::Evaluate(request.problem, plan()).value(); }
};

Outcome Searched(const SearchRequest& request) {
  InlineExecutor executor;
  Interrupter interrupter;
  return Search(request, executor, interrupter, [](const Progress&) {}).value();
}

// Six layers with experts and a prediction layer on two pools of one node of two accelerators, the
// second twice as fast. One stage on each pool is what the search is held to.
const Checked& Valid() {
  static const auto* const valid = [] {
    auto* made = new Checked;
    cost::Problem& problem = made->request.problem;
    problem.model = hapmoe::testing::SmallModel(6, 256, /*experts=*/4);
    problem.model.mtp_layers = 1;
    problem.training = hapmoe::testing::SmallTraining(/*global_batch=*/16);
    problem.cluster.pools = {hapmoe::testing::SmallPool("a", 1, 2),
                             hapmoe::testing::SmallPool("b", 1, 2)};
    problem.profiles = {hapmoe::testing::ScaledProfile("a", 1, 2e9),
                        hapmoe::testing::ScaledProfile("b", 2, 2e9)};
    made->request.constraints.pp = {2};
    made->request.constraints.tp = {1};
    made->request.constraints.cp = {1};
    made->outcome = Searched(made->request);
    return made;
  }();
  return *valid;
}

TEST(CertificateTest, PassesWhatTheSearchFound) {
  Checked valid = Valid();
  ASSERT_TRUE(valid.outcome.best.has_value());
  ASSERT_TRUE(valid.outcome.uniform.has_value());
  ASSERT_EQ(valid.plan().meshes.size(), 2u);
  ASSERT_EQ(valid.outcome.termination.reason, Reason::kOptimal);
  EXPECT_EQ(CheckOutcome(valid.request, valid.outcome), absl::OkStatus());
}

struct Corruption {
  const char* name;
  std::function<void(Checked&)> apply;
  const char* message;
};

TEST(CertificateTest, NamesTheOneThingThatIsWrong) {
  const double kNan = std::numeric_limits<double>::quiet_NaN();
  const Corruption cases[] = {
      // Layers.
      {"a layer is left out",
       [](Checked& c) {
         --c.last_chunk().layers;
         c.last_chunk().mtp_layers = c.request.problem.model.mtp_layers = 0;
         c.Predict();
       },
       "the plan holds 5 layers of the model's 6"},
      {"a layer is held twice", [](Checked& c) { ++c.first_chunk().layers; },
       "piece 1 starts with layer"},
      {"pieces are swapped",
       [](Checked& c) { std::swap(c.first_chunk().first_layer, c.last_chunk().first_layer); },
       "piece 0 starts with layer"},
      {"negative layers", [](Checked& c) { c.first_chunk().layers = -1; }, "negative layers"},
      {"a piece of nothing",
       [](Checked& c) {
         plan::Stage nothing = c.first().stages.front();
         nothing.chunks.front() = {.first_layer = c.first_chunk().layers};
         for (plan::Mesh& mesh : c.plan().meshes) mesh.degrees = {};
         c.first().stages.push_back(nothing);
       },
       "piece 1 holds nothing"},
      {"no embedding", [](Checked& c) { c.first_chunk().embedding = false; },
       "the embedding of piece 0 is misplaced"},
      {"two embeddings", [](Checked& c) { c.last_chunk().embedding = true; },
       "the embedding of piece 1 is misplaced"},
      {"no loss", [](Checked& c) { c.last_chunk().loss = false; },
       "the loss of piece 1 is misplaced"},
      {"two losses", [](Checked& c) { c.first_chunk().loss = true; },
       "the loss of piece 0 is misplaced"},
      {"no prediction layer", [](Checked& c) { c.last_chunk().mtp_layers = 0; },
       "the plan holds 0 prediction layers of the model's 1"},
      {"an early prediction layer",
       [](Checked& c) { std::swap(c.first_chunk().mtp_layers, c.last_chunk().mtp_layers); },
       "prediction layers before the last decoder layer"},
      // Shape and placement.
      {"no meshes", [](Checked& c) { c.plan().meshes.clear(); }, "no meshes"},
      {"no stages", [](Checked& c) { c.first().stages.clear(); }, "mesh 0 has no stages"},
      {"no chunks", [](Checked& c) { c.first().stages.front().chunks.clear(); },
       "do not have the virtual stages"},
      {"a pool that is not there", [](Checked& c) { c.last().pool = 2; },
       "mesh 1 is on pool 2, which does not exist"},
      {"both stages on one pool", [](Checked& c) { c.last().pool = c.first().pool; },
       "cannot be laid on the nodes"},
      {"a degree of nothing", [](Checked& c) { c.first().degrees.cp = 0; }, "not positive"},
      {"more ranks than numbers can say",
       [](Checked& c) {
         for (plan::Mesh& mesh : c.plan().meshes) {
           mesh.degrees = {.tp = int64_t{1} << 40, .cp = int64_t{1} << 40, .dp = 3};
         }
       },
       "mesh 0 has more ranks than the 4 accelerators"},
      {"an experts' grid of more than numbers can say",
       [](Checked& c) {
         for (plan::Mesh& mesh : c.plan().meshes) {
           mesh.degrees.ep = mesh.degrees.etp = int64_t{1} << 32;
         }
       },
       "does not divide the 2 ranks"},
      {"meshes differ", [](Checked& c) { c.first().degrees = {.tp = 2, .dp = 1}; },
       "the degrees of mesh 1 are not those of the first"},
      {"experts over more ranks than there are",
       [](Checked& c) {
         for (plan::Mesh& mesh : c.plan().meshes) mesh.degrees.ep = 4;
       },
       "ep 4 x etp 1 does not divide the 2 ranks"},
      {"accelerators idle",
       [](Checked& c) {
         for (plan::Mesh& mesh : c.plan().meshes) mesh.degrees = {};
         c.plan().micro_batches = 16;
         c.Predict();
       },
       "2 of 4 accelerators are used, and none may idle"},
      {"another engine", [](Checked& c) { c.plan().engine = plan::kFlagScale; },
       "the plan is for another engine"},
      {"an engine without rules",
       [](Checked& c) { c.plan().engine = c.request.constraints.engine = "deepspeed"; },
       "no rules are known"},
      // The request's constraints.
      {"tp", [](Checked& c) { c.request.constraints.tp = {2}; }, "tp 1 is not allowed"},
      {"cp",
       [](Checked& c) {
         c.request.constraints.cp = {2, 4};
       },
       "cp 1 is not allowed"},
      {"dp", [](Checked& c) { c.request.constraints.dp = {1}; }, "dp 2 is not allowed"},
      {"ep", [](Checked& c) { c.request.constraints.ep = {4}; }, "is not allowed"},
      {"etp", [](Checked& c) { c.request.constraints.etp = {4}; }, "is not allowed"},
      {"pp",
       [](Checked& c) {
         c.request.constraints.pp = {1, 4};
       },
       "pp 2 is not allowed"},
      {"micro-batch",
       [](Checked& c) {
         c.request.constraints.micro_batch = {2, 4};
       },
       "micro-batch 1 is not allowed"},
      {"the job's micro-batch", [](Checked& c) { c.request.problem.training.micro_batch = 2; },
       "micro-batch 1 is not allowed"},
      {"a dispatcher",
       [](Checked& c) { c.request.constraints.dispatchers = {model::Dispatcher::kFlex}; },
       "the dispatcher alltoall is not allowed"},
      {"another dispatcher than the job's",
       [](Checked& c) { c.plan().dispatcher = model::Dispatcher::kFlex; },
       "the dispatcher flex is not allowed"},
      {"a dispatcher that the prediction is not of",
       [](Checked& c) {
         // With as many experts a token as ranks both move the same bytes.
         c.request.problem.model.moe->topk = 1;
         for (plan::Mesh& mesh : c.plan().meshes) mesh.degrees.ep = 2;
         c.Predict();
         c.plan().dispatcher = model::Dispatcher::kAllGather;
         c.request.constraints.dispatchers = {model::Dispatcher::kAllGather,
                                              model::Dispatcher::kAllToAll};
       },
       "is claimed"},
      {"a dispatcher that the job cannot use",
       [](Checked& c) {
         c.plan().dispatcher = model::Dispatcher::kAllGather;
         c.request.constraints.dispatchers = {model::Dispatcher::kAllGather};
         c.request.problem.model.moe->shared_ffn_hidden = 128;
         c.request.problem.training.overlap.shared_expert = true;
       },
       "the job cannot use the dispatcher allgather"},
      {"recomputation is not kept",
       [](Checked& c) {
         c.request.constraints.keep_recompute = true;
         c.request.problem.training.recompute = {
             .granularity = model::Recompute::Granularity::kFull, .num_layers = 3};
       },
       "does not keep the job's recomputation"},
      // The engine's rules.
      {"experts that ep does not divide",
       [](Checked& c) { c.request.problem.model.moe->experts = 5; }, "experts_divisible_by_ep"},
      {"recomputation of what is not there",
       [](Checked& c) {
         c.first().stages.front().recompute = {
             .granularity = model::Recompute::Granularity::kSelective,
             .modules = model::kRecomputeMlaUpProjection};
         c.Predict();
       },
       "mla_recompute_needs_mla"},
      // The batch.
      {"fewer samples", [](Checked& c) { c.plan().global_batch = 8; },
       "global batch 8 is not 1 x 8 x dp 2"},
      {"a smaller batch than the job's",
       [](Checked& c) {
         c.plan().global_batch = 8;
         c.plan().micro_batches = 4;
         c.Predict();
       },
       "4 micro-batches instead of 8"},
      // The prediction.
      {"too fast by a millionth", [](Checked& c) { c.prediction().iteration_seconds *= 1 - 1e-6; },
       "an iteration is claimed to take"},
      {"no time at all", [kNan](Checked& c) { c.prediction().iteration_seconds = kNan; },
       "an iteration is claimed to take"},
      {"a stage is not predicted", [](Checked& c) { c.prediction().stages.pop_back(); },
       "1 stages are predicted of 2"},
      {"forward", [](Checked& c) { c.prediction().stages[1].forward_seconds *= 1.001; },
       "forward of stage 1"},
      {"backward", [](Checked& c) { c.prediction().stages[0].backward_seconds = 0; },
       "backward of stage 0"},
      {"memory", [](Checked& c) { c.prediction().stages[1].memory.activations_bytes -= 1000; },
       "memory of stage 1"},
      {"host memory", [](Checked& c) { c.prediction().stages[0].memory.host_bytes = 1; },
       "host memory of stage 0"},
      {"memory budget", [](Checked& c) { c.prediction().stages[0].memory.budget_bytes *= 2; },
       "memory budget of stage 0"},
      {"another prediction's", [](Checked& c) { c.request.problem.model.hidden *= 2; },
       "an iteration is claimed to take"},
      {"headroom that is not there",
       [](Checked& c) {
         c.request.problem.memory_headroom_ratio = 0.9;
         c.Predict();
       },
       "bytes of memory"},
      // What is claimed about all other plans.
      {"a bound above the plan",
       [](Checked& c) {
         c.outcome.termination.lower_bound_seconds = 1.001 * c.prediction().iteration_seconds;
       },
       "is not above the lower bound"},
      {"a bound that is no number",
       [kNan](Checked& c) { c.outcome.termination.lower_bound_seconds = kNan; },
       "is not above the lower bound"},
      {"optimal with a gap",
       [](Checked& c) {
         c.outcome.termination.lower_bound_seconds = 0.999 * c.prediction().iteration_seconds;
       },
       "called optimal with a gap of"},
      // The uniform plan.
      {"a uniform plan without a best", [](Checked& c) { c.outcome.best.reset(); },
       "there are other plans, but no best one"},
      {"an alternative with a wrong time",
       [](Checked& c) {
         c.outcome.alternatives = {*c.outcome.best};
         c.outcome.alternatives.front().prediction.iteration_seconds *= 2;
       },
       "an iteration is claimed to take"},
      {"a uniform plan with a wrong time",
       [](Checked& c) { c.outcome.uniform->prediction.iteration_seconds *= 2; },
       "an iteration is claimed to take"},
      {"a uniform plan that is not", [](Checked& c) { c.outcome.uniform = c.outcome.best; },
       "the stages of the uniform plan"},
      {"a uniform plan with two recomputations",
       [](Checked& c) {
         Costed& uniform = *c.outcome.uniform;
         uniform.plan.meshes.front().stages.front().recompute = {
             .granularity = model::Recompute::Granularity::kFull, .num_layers = 1};
         uniform.prediction = cost::Evaluate(c.request.problem, uniform.plan).value();
       },
       "differ in recomputation"},
  };
  for (const Corruption& corruption : cases) {
    SCOPED_TRACE(corruption.name);
    Checked checked = Valid();
    corruption.apply(checked);
    const absl::Status status = CheckOutcome(checked.request, checked.outcome);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(status.message()), HasSubstr(corruption.message));
  }
}

TEST(CertificateTest, PassesAnIncumbentWithItsGap) {
  Checked checked = Valid();
  checked.outcome.termination.reason = Reason::kIncumbent;
  checked.outcome.termination.lower_bound_seconds = 0;
  EXPECT_EQ(CheckOutcome(checked.request, checked.outcome), absl::OkStatus());
}

TEST(CertificateTest, DoesNotJudgeTheRecomputationThatAJobKeeps) {
  Checked checked = Valid();
  checked.request.constraints.keep_recompute = true;
  checked.request.facts.cuda_graph = "local";  // Not beside whole layers.
  checked.request.facts.recompute_options = true;
  model::Recompute& kept = checked.request.problem.training.recompute;
  kept = {.granularity = model::Recompute::Granularity::kFull, .num_layers = 1};
  checked.outcome = Searched(checked.request);
  ASSERT_TRUE(checked.outcome.best.has_value());
  EXPECT_EQ(CheckOutcome(checked.request, checked.outcome), absl::OkStatus());
  checked.request.constraints.keep_recompute = false;
  EXPECT_THAT(std::string(CheckOutcome(checked.request, checked.outcome).message()),
              HasSubstr("cuda_graph_excludes_full_recompute"));
}

TEST(CertificateTest, HoldsStagesWithTheirOwnDegreesToTheirEnginesRules) {
  Checked valid = Valid();
  valid.request.constraints.engine = plan::kFlagScale;
  valid.request.constraints.cp = {};
  valid.outcome = Searched(valid.request);
  ASSERT_TRUE(valid.outcome.best.has_value());
  ASSERT_EQ(CheckOutcome(valid.request, valid.outcome), absl::OkStatus());
  const Corruption cases[] = {
      {"context parallelism", [](Checked& c) { c.last().degrees = {.tp = 1, .cp = 2, .dp = 1}; },
       "flagscale_context_parallel_is_one"},
      {"modules",
       [](Checked& c) {
         c.first().stages.front().recompute = {
             .granularity = model::Recompute::Granularity::kSelective,
             .modules = model::kRecomputeLayerNorm};
       },
       "flagscale_recompute_is_full"},
      {"samples", [](Checked& c) { ++c.plan().micro_batches; }, "global_batch_divisible"},
      {"another batch", [](Checked& c) { c.request.problem.training.global_batch *= 2; },
       "micro-batches instead of"},
  };
  for (const Corruption& corruption : cases) {
    SCOPED_TRACE(corruption.name);
    Checked checked = valid;
    corruption.apply(checked);
    const absl::Status status = CheckOutcome(checked.request, checked.outcome);
    EXPECT_THAT(std::string(status.message()), HasSubstr(corruption.message));
  }
}

TEST(CertificateTest, PassesEveryPlanThatTheSearchReturns) {
  int plans = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    SearchRequest request = RandomConstrainedRequest(seed);
    if (seed % 3 == 0) request.constraints.engine = plan::kFlagScale;
    InlineExecutor executor;
    Interrupter interrupter;
    // Plans that are told on the way are returned too.
    const auto outcome =
        Search(request, executor, interrupter, [&request](const Progress& progress) {
          if (progress.improved == nullptr) return;
          EXPECT_EQ(CheckPlan(request, *progress.improved), absl::OkStatus());
        });
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    if (outcome->best.has_value()) ++plans;
    EXPECT_EQ(CheckOutcome(request, *outcome), absl::OkStatus());
  }
  EXPECT_GT(plans, 150);
}

}  // namespace
}  // namespace hapmoe::search
