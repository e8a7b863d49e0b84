#include "core/search/certificate.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/status_macros.h"
#include "core/cost/evaluate.h"
#include "core/plan/engine_traits.h"
#include "core/plan/flagscale_rules.h"
#include "core/plan/megatron_rules.h"
#include "core/plan/node_assignment.h"
#include "core/plan/pipeline_layout.h"

namespace hapmoe::search {
namespace {

constexpr double kTolerance = 1e-9;

template <typename... Parts>
absl::Status Wrong(const Parts&... parts) {
  return absl::InternalError(absl::StrCat("certificate: ", parts...));
}

// Stages in pipeline order, whatever mesh they belong to.
std::vector<plan::Stage> StagesOf(const plan::Plan& plan) {
  std::vector<plan::Stage> stages;
  for (const plan::Mesh& mesh : plan.meshes) {
    stages.insert(stages.end(), mesh.stages.begin(), mesh.stages.end());
  }
  return stages;
}

// What the later checks take for granted: meshes, stages and chunks are there, pools exist, and
// experts divide the ranks of a stage.
absl::Status CheckShape(const SearchRequest& request, const plan::Plan& plan) {
  if (plan.engine != request.constraints.engine) return Wrong("the plan is for another engine");
  if (plan.meshes.empty()) return Wrong("the plan has no meshes");
  for (size_t m = 0; m < plan.meshes.size(); ++m) {
    const plan::Mesh& mesh = plan.meshes[m];
    const plan::Degrees& degrees = mesh.degrees;
    if (mesh.pool < 0 || mesh.pool >= static_cast<int64_t>(request.problem.cluster.pools.size())) {
      return Wrong("mesh ", m, " is on pool ", mesh.pool, ", which does not exist");
    }
    if (mesh.stages.empty()) return Wrong("mesh ", m, " has no stages");
    for (const plan::Stage& stage : mesh.stages) {
      if (stage.chunks.empty() ||
          stage.chunks.size() != plan.meshes.front().stages.front().chunks.size()) {
        return Wrong("stages of mesh ", m, " do not have the virtual stages of the first");
      }
    }
    if (std::min({degrees.tp, degrees.cp, degrees.dp, degrees.ep, degrees.etp}) < 1) {
      return Wrong("a degree of mesh ", m, " is not positive");
    }
    const plan::EngineTraits* engine = plan::FindEngine(plan.engine);
    if (engine != nullptr && !engine->degrees_per_stage &&
        !(degrees == plan.meshes.front().degrees)) {
      return Wrong("the degrees of mesh ", m, " are not those of the first");
    }
    // Before any product of degrees is taken.
    const int64_t accelerators = request.problem.cluster.accelerators();
    if (!mesh.ranks_within(accelerators).has_value()) {
      return Wrong("mesh ", m, " has more ranks than the ", accelerators,
                   " accelerators of the cluster");
    }
    // Without experts etp is only a name for tp.
    if (!request.problem.model.moe.has_value()) continue;
    const int64_t ranks = degrees.stage_ranks();
    if (degrees.ep > ranks / degrees.etp || ranks % (degrees.ep * degrees.etp) != 0) {
      return Wrong("ep ", degrees.ep, " x etp ", degrees.etp, " does not divide the ", ranks,
                   " ranks of a stage of mesh ", m);
    }
  }
  return absl::OkStatus();
}

// Chunk v of stage i is the (v x stages + i)th piece of the model.
absl::Status CheckPieces(const SearchRequest& request, const std::vector<plan::Stage>& stages) {
  const model::TransformerSpec& spec = request.problem.model;
  const size_t pieces = stages.size() * stages.front().chunks.size();
  int64_t layers = 0;
  int64_t prediction_layers = 0;
  for (size_t i = 0; i < pieces; ++i) {
    const plan::Chunk& chunk = stages[i % stages.size()].chunks[i / stages.size()];
    if (chunk.layers < 0 || chunk.mtp_layers < 0) return Wrong("piece ", i, " has negative layers");
    if (chunk.first_layer != layers) {
      return Wrong("piece ", i, " starts with layer ", chunk.first_layer, " instead of ", layers);
    }
    layers += chunk.layers;
    if (chunk.mtp_layers > 0 && layers < spec.layers) {
      return Wrong("piece ", i, " has prediction layers before the last decoder layer");
    }
    prediction_layers += chunk.mtp_layers;
    if (chunk.embedding != (i == 0)) return Wrong("the embedding of piece ", i, " is misplaced");
    const bool loss = i + 1 == pieces;
    if (i > 0 && !loss && chunk.layers + chunk.mtp_layers == 0) {
      return Wrong("piece ", i, " holds nothing");
    }
    if (chunk.loss != loss) return Wrong("the loss of piece ", i, " is misplaced");
  }
  if (layers != spec.layers) {
    return Wrong("the plan holds ", layers, " layers of the model's ", spec.layers);
  }
  if (prediction_layers != spec.mtp_layers) {
    return Wrong("the plan holds ", prediction_layers, " prediction layers of the model's ",
                 spec.mtp_layers);
  }
  return absl::OkStatus();
}

absl::Status CheckPlacement(const SearchRequest& request, const plan::Plan& plan) {
  const auto nodes = plan::AssignNodes(plan, request.problem.cluster);
  if (!nodes.ok()) return Wrong("the stages cannot be laid on the nodes of their pools");
  size_t stage = 0;
  for (const plan::Mesh& mesh : plan.meshes) {
    for (size_t i = 0; i < mesh.stages.size(); ++i, ++stage) {
      const int64_t wanted = mesh.degrees.tp * mesh.degrees.cp * mesh.degrees.dp;
      if (nodes->stages[stage].ranks != wanted) {
        return Wrong("stage ", stage, " has ", nodes->stages[stage].ranks, " ranks instead of ",
                     wanted);
      }
    }
  }
  const int64_t accelerators = request.problem.cluster.accelerators();
  if (!request.constraints.allow_idle_accelerators && plan.world_size() != accelerators) {
    return Wrong(plan.world_size(), " of ", accelerators,
                 " accelerators are used, and none may idle");
  }
  return absl::OkStatus();
}

template <typename T>
bool IsAllowed(const std::vector<T>& allowed, T value) {
  return allowed.empty() || std::find(allowed.begin(), allowed.end(), value) != allowed.end();
}

absl::Status CheckAllowed(absl::string_view name, const std::vector<int64_t>& allowed,
                          int64_t value) {
  if (IsAllowed(allowed, value)) return absl::OkStatus();
  return Wrong(name, " ", value, " is not allowed");
}

absl::Status CheckDispatcher(const SearchRequest& request, const plan::Plan& plan) {
  if (!request.problem.model.moe.has_value()) return absl::OkStatus();
  const model::Dispatcher own = request.problem.training.dispatcher;
  const model::Dispatcher dispatcher = plan.dispatcher.value_or(own);
  const std::vector<model::Dispatcher>& allowed = request.constraints.dispatchers;
  if (allowed.empty() ? dispatcher != own : !IsAllowed(allowed, dispatcher)) {
    return Wrong("the dispatcher ", model::DispatcherName(dispatcher), " is not allowed");
  }
  // Whether the job itself is sound is not asked here.
  const auto faults = [&request](model::Dispatcher with) {
    model::TrainingSpec training = request.problem.training;
    training.dispatcher = with;
    return plan::CheckJob(request.problem.model, training, request.facts).size();
  };
  if (faults(dispatcher) > faults(own)) {
    return Wrong("the job cannot use the dispatcher ", model::DispatcherName(dispatcher));
  }
  return absl::OkStatus();
}

absl::Status CheckConstraints(const SearchRequest& request, const plan::Plan& plan,
                              const std::vector<plan::Stage>& stages) {
  const Constraints& constraints = request.constraints;
  for (const plan::Mesh& mesh : plan.meshes) {
    HAPMOE_RETURN_IF_ERROR(CheckAllowed("tp", constraints.tp, mesh.degrees.tp));
    HAPMOE_RETURN_IF_ERROR(CheckAllowed("cp", constraints.cp, mesh.degrees.cp));
    HAPMOE_RETURN_IF_ERROR(CheckAllowed("dp", constraints.dp, mesh.degrees.dp));
    if (!request.problem.model.moe.has_value()) continue;
    HAPMOE_RETURN_IF_ERROR(CheckAllowed("ep", constraints.ep, mesh.degrees.ep));
    HAPMOE_RETURN_IF_ERROR(CheckAllowed("etp", constraints.etp, mesh.degrees.etp));
  }
  HAPMOE_RETURN_IF_ERROR(CheckAllowed("pp", constraints.pp, static_cast<int64_t>(stages.size())));
  HAPMOE_RETURN_IF_ERROR(
      CheckAllowed("virtual stages", constraints.virtual_stages, plan.virtual_stages()));
  const std::vector<int64_t> own = {request.problem.training.micro_batch};
  HAPMOE_RETURN_IF_ERROR(
      CheckAllowed("micro-batch", constraints.micro_batch.empty() ? own : constraints.micro_batch,
                   plan.micro_batch));
  HAPMOE_RETURN_IF_ERROR(CheckDispatcher(request, plan));
  if (!constraints.keep_recompute) return absl::OkStatus();
  for (const plan::Stage& stage : stages) {
    if (stage.recompute == request.problem.training.recompute) continue;
    return Wrong("a stage does not keep the job's recomputation");
  }
  return absl::OkStatus();
}

absl::Status NoneBroken(const Violations& violations) {
  if (violations.empty()) return absl::OkStatus();
  return Wrong("breaks the engine's rule ", violations.front().rule);
}

// The plan as Megatron-LM's options say it.
absl::Status CheckMegatron(const SearchRequest& request, const plan::Plan& plan,
                           const std::vector<plan::Stage>& stages) {
  const plan::Degrees& degrees = plan.meshes.front().degrees;
  plan::ParallelSpec parallel;
  parallel.tp = degrees.tp;
  parallel.pp = static_cast<int64_t>(stages.size());
  parallel.cp = degrees.cp;
  parallel.ep = degrees.ep;
  parallel.etp = degrees.etp;
  parallel.layout = plan::PipelineLayoutString(stages);
  if (plan.interleaving_group > 0) parallel.interleaving_group = plan.interleaving_group;
  parallel.data_outermost = plan.rank_order == plan::RankOrder::kDataOutermost;
  model::TrainingSpec training = request.problem.training;
  training.micro_batch = plan.micro_batch;
  training.dispatcher = plan.dispatcher.value_or(training.dispatcher);
  training.sequence_parallel = plan.sequence_parallel;
  const plan::EngineFacts facts = plan::WithoutWrittenRecompute(request.facts);
  plan::RuleContext context;
  context.model = &request.problem.model;
  context.training = &training;
  context.parallel = &parallel;
  context.facts = &facts;
  context.world_size = plan.world_size();
  for (const plan::Mesh& mesh : plan.meshes) {
    context.fuses_attention &=
        request.problem.profiles[static_cast<size_t>(mesh.pool)]->fused_attention;
  }
  HAPMOE_RETURN_IF_ERROR(
      NoneBroken(plan::CheckAll(context, plan::kDegreesScope | plan::kLayoutScope)));
  const model::Recompute* checked = nullptr;
  for (const plan::Stage& stage : stages) {
    // The job's own, where it is kept, is not the plan's to answer for.
    if (request.constraints.keep_recompute) break;
    if (checked != nullptr && stage.recompute == *checked) continue;
    checked = &stage.recompute;
    training.recompute = stage.recompute;
    HAPMOE_RETURN_IF_ERROR(NoneBroken(plan::CheckAll(context, plan::kRecomputeScope)));
  }
  return absl::OkStatus();
}

absl::Status CheckEngine(const SearchRequest& request, const plan::Plan& plan,
                         const std::vector<plan::Stage>& stages) {
  const plan::EngineTraits* engine = plan::FindEngine(plan.engine);
  if (engine == nullptr) return Wrong("no rules are known for the plan's engine");
  if (engine->degrees_per_stage) {
    return NoneBroken(
        plan::CheckFlagScalePlan(request.problem.model, request.problem.training, plan));
  }
  HAPMOE_RETURN_IF_ERROR(CheckMegatron(request, plan, stages));
  return NoneBroken(plan::CheckEnginePlan(*engine, request.problem.model, plan));
}

// All meshes share the samples of a step; a step of all of them is a micro-batch.
absl::Status CheckBatch(const SearchRequest& request, const plan::Plan& plan) {
  const int64_t samples = plan.micro_batch * plan.meshes.front().degrees.dp;
  for (const plan::Mesh& mesh : plan.meshes) {
    if (samples % mesh.degrees.dp == 0) continue;
    return Wrong("dp ", mesh.degrees.dp, " does not divide the ", samples, " samples of a step");
  }
  if (plan.global_batch != samples * plan.micro_batches) {
    return Wrong("global batch ", plan.global_batch, " is not ", plan.micro_batch, " x ",
                 plan.micro_batches, " x dp ", plan.meshes.front().degrees.dp);
  }
  // Without a global batch of the job's own a step is one; some jobs take a rounded one.
  const int64_t wanted =
      request.facts.global_batch_given ? request.problem.training.global_batch : samples;
  if (plan.micro_batches != wanted / samples) {
    return Wrong(plan.micro_batches, " micro-batches instead of ", wanted / samples);
  }
  if (wanted % samples != 0 && !request.facts.decrease_batch) {
    return Wrong("steps of ", samples, " samples do not divide the global batch ", wanted);
  }
  return absl::OkStatus();
}

// Not true of a claim that is no number.
bool Near(double claimed, double actual) {
  return claimed == actual || std::abs(claimed - actual) <= kTolerance * std::abs(actual);
}

absl::Status CheckNear(absl::string_view name, size_t stage, double claimed, double actual) {
  if (Near(claimed, actual)) return absl::OkStatus();
  return Wrong(name, " of stage ", stage, " is claimed as ", claimed, " and is ", actual);
}

absl::Status CheckPrediction(const SearchRequest& request, const Costed& costed) {
  cost::Problem problem = request.problem;
  problem.products = nullptr;  // Nothing that the search remembers.
  const auto evaluated = cost::Evaluate(problem, costed.plan);
  if (!evaluated.ok()) return Wrong("the plan cannot be evaluated");
  const cost::Prediction& actual = *evaluated;
  const cost::Prediction& claimed = costed.prediction;
  if (!Near(claimed.iteration_seconds, actual.iteration_seconds)) {
    return Wrong("an iteration is claimed to take ", claimed.iteration_seconds, " s and takes ",
                 actual.iteration_seconds);
  }
  if (claimed.stages.size() != actual.stages.size()) {
    return Wrong(claimed.stages.size(), " stages are predicted of ", actual.stages.size());
  }
  for (size_t i = 0; i < actual.stages.size(); ++i) {
    const cost::StagePrediction& is = actual.stages[i];
    const cost::StagePrediction& said = claimed.stages[i];
    HAPMOE_RETURN_IF_ERROR(CheckNear("forward", i, said.forward_seconds, is.forward_seconds));
    HAPMOE_RETURN_IF_ERROR(CheckNear("backward", i, said.backward_seconds, is.backward_seconds));
    HAPMOE_RETURN_IF_ERROR(
        CheckNear("memory", i, said.memory.peak_bytes(), is.memory.peak_bytes()));
    HAPMOE_RETURN_IF_ERROR(
        CheckNear("memory budget", i, said.memory.budget_bytes, is.memory.budget_bytes));
    HAPMOE_RETURN_IF_ERROR(
        CheckNear("host memory", i, said.memory.host_bytes, is.memory.host_bytes));
    if (!is.memory.fits()) {
      return Wrong("stage ", i, " lacks ", is.memory.short_bytes(), " bytes of memory");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckBound(const Costed& costed, double lower_bound_seconds) {
  const double seconds = costed.prediction.iteration_seconds;
  if (lower_bound_seconds >= 0 && lower_bound_seconds <= seconds * (1 + kTolerance)) {
    return absl::OkStatus();
  }
  return Wrong("an iteration of ", seconds, " s is not above the lower bound of ",
               lower_bound_seconds);
}

absl::Status CheckUniform(const std::vector<plan::Stage>& stages) {
  int64_t least = std::numeric_limits<int64_t>::max();
  int64_t most = 0;
  for (const plan::Stage& stage : stages) {
    least = std::min(least, stage.layers());
    most = std::max(most, stage.layers());
    if (!(stage.recompute == stages.front().recompute)) {
      return Wrong("the stages of the uniform plan differ in recomputation");
    }
  }
  if (most - least <= 1) return absl::OkStatus();
  return Wrong("the stages of the uniform plan hold ", least, " to ", most, " layers");
}

}  // namespace

absl::Status CheckValid(const SearchRequest& request, const plan::Plan& plan) {
  HAPMOE_RETURN_IF_ERROR(CheckShape(request, plan));
  const std::vector<plan::Stage> stages = StagesOf(plan);
  HAPMOE_RETURN_IF_ERROR(CheckPieces(request, stages));
  HAPMOE_RETURN_IF_ERROR(CheckPlacement(request, plan));
  HAPMOE_RETURN_IF_ERROR(CheckConstraints(request, plan, stages));
  HAPMOE_RETURN_IF_ERROR(CheckEngine(request, plan, stages));
  return CheckBatch(request, plan);
}

absl::Status CheckPlan(const SearchRequest& request, const Costed& costed) {
  HAPMOE_RETURN_IF_ERROR(CheckValid(request, costed.plan));
  return CheckPrediction(request, costed);
}

absl::Status CheckCertificate(const SearchRequest& request, const Costed& costed,
                              const Termination& termination) {
  HAPMOE_RETURN_IF_ERROR(CheckPlan(request, costed));
  HAPMOE_RETURN_IF_ERROR(CheckBound(costed, termination.lower_bound_seconds));
  const double gap = termination.gap_ratio(costed.prediction.iteration_seconds);
  if (termination.reason == Reason::kOptimal && gap > 2 * kTolerance) {
    return Wrong("the plan is called optimal with a gap of ", gap);
  }
  return absl::OkStatus();
}

absl::Status CheckOutcome(const SearchRequest& request, const Outcome& outcome) {
  if (!outcome.best.has_value()) {
    if (!outcome.uniform.has_value() && outcome.alternatives.empty()) return absl::OkStatus();
    return Wrong("there are other plans, but no best one");
  }
  HAPMOE_RETURN_IF_ERROR(CheckCertificate(request, *outcome.best, outcome.termination));
  const double bound = outcome.termination.lower_bound_seconds;
  if (outcome.uniform.has_value()) {
    HAPMOE_RETURN_IF_ERROR(CheckPlan(request, *outcome.uniform));
    HAPMOE_RETURN_IF_ERROR(CheckUniform(StagesOf(outcome.uniform->plan)));
    HAPMOE_RETURN_IF_ERROR(CheckBound(*outcome.uniform, bound));
  }
  for (const Costed& alternative : outcome.alternatives) {
    HAPMOE_RETURN_IF_ERROR(CheckPlan(request, alternative));
    HAPMOE_RETURN_IF_ERROR(CheckBound(alternative, bound));
  }
  return absl::OkStatus();
}

}  // namespace hapmoe::search
