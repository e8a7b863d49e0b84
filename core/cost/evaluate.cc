#include "core/cost/evaluate.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"
#include "core/cost/band.h"
#include "core/cost/border.h"

namespace hapmoe::cost {
namespace {

// A stage of the plan with everything that its position decides.
struct StageAt {
  const plan::Stage* stage = nullptr;
  const MeshCost* costs = nullptr;
  int64_t pool = 0;
  StageCost cost;
  TailCost tail;
  double send_seconds = 0;  // To the next stage; the last one sends to the first.
};

std::string PrecisionName(const model::TrainingSpec& training) {
  if (training.fp8) return "fp8";
  switch (training.precision) {
    case model::Precision::kFp16:
      return "fp16";
    case model::Precision::kFp32:
      return "fp32";
    case model::Precision::kBf16:
      return "bf16";
  }
  return "";
}

// Fills in the time that one micro-batch takes to the following stage.
void CostTransfers(const Problem& problem, const std::vector<Reach>& reaches,
                   std::vector<StageAt>& stages, std::vector<std::string>& assumptions) {
  for (size_t i = 0; i < stages.size(); ++i) {
    StageAt& from = stages[i];
    const StageAt& to = stages[i + 1 < stages.size() ? i + 1 : 0];
    bool assumed = false;
    from.send_seconds =
        SendSeconds(problem, from.pool, *from.costs, to.pool, *to.costs, reaches[i], &assumed);
    const bool used = i + 1 < stages.size() || from.stage->chunks.size() > 1;
    if (assumed && used) {
      const auto& pools = problem.cluster.pools;
      const double rate = RouteBetween(problem.cluster, from.pool, to.pool, from.costs->fabric(),
                                       to.costs->fabric(), nullptr)
                              .bytes_per_second;
      assumptions.push_back(absl::StrFormat(
          "The link between pools %s and %s is not given: the slower side's network is assumed, "
          "%.1f GB/s for each accelerator.",
          pools[static_cast<size_t>(from.pool)].name, pools[static_cast<size_t>(to.pool)].name,
          rate / 1e9));
    }
  }
}

TimeBreakdown Explain(const StageAt& stage, const StageTimeline& timeline, int64_t index,
                      double micro_batches, double iteration_seconds) {
  TimeBreakdown time;
  const LayerCost& passes = stage.cost.passes;
  time.stage = index;
  time.compute_seconds = micro_batches * (passes.forward.compute + passes.backward.compute);
  time.recompute_seconds = micro_batches * passes.recompute.total();
  time.tensor_parallel_seconds = micro_batches * (passes.forward.tensor + passes.backward.tensor);
  time.context_parallel_seconds =
      micro_batches * (passes.forward.context + passes.backward.context);
  time.expert_parallel_seconds = micro_batches * (passes.forward.expert + passes.backward.expert);
  time.launch_seconds = micro_batches * (passes.forward.launch + passes.backward.launch);
  time.pipeline_seconds = timeline.transfer_seconds;
  time.gradient_sync_seconds =
      stage.tail.gradient_sync_seconds + stage.tail.parameter_gather_seconds;
  time.optimizer_seconds = stage.tail.optimizer_seconds;
  const double busy = time.compute_seconds + time.recompute_seconds + time.tensor_parallel_seconds +
                      time.context_parallel_seconds + time.expert_parallel_seconds +
                      time.pipeline_seconds + time.gradient_sync_seconds + time.optimizer_seconds +
                      time.launch_seconds;
  time.bubble_seconds = std::max(0.0, iteration_seconds - busy);  // Rounding may leave -1e-15.
  return time;
}

double PeakFlopsInUse(const Problem& problem, const plan::Plan& plan) {
  double peak = 0;
  for (const plan::Mesh& mesh : plan.meshes) {
    const auto& profile = *problem.profiles[static_cast<size_t>(mesh.pool)];
    const double ranks =
        static_cast<double>(mesh.degrees.stage_ranks()) * static_cast<double>(mesh.stages.size());
    peak += ranks * profile.PeakFlops(MatrixPrecisionOf(problem.training)).value_or(0);
  }
  return peak;
}

std::string_view BalancingName(model::Balancing balancing) {
  switch (balancing) {
    case model::Balancing::kForced:
      return "forced balancing";
    case model::Balancing::kExpertBias:
      return "expert biases";
    case model::Balancing::kSinkhorn:
      return "Sinkhorn's assignment";
    case model::Balancing::kAuxiliaryLoss:
      return "an auxiliary loss";
    case model::Balancing::kNone:
      break;
  }
  return "nothing that balances, taken as an auxiliary loss, which may well be too little,";
}

// The load of the busiest expert rank, and why: the largest of any mesh.
std::string RoutingAssumption(const Problem& problem, const plan::Plan& plan) {
  model::Imbalance most;
  for (const plan::Mesh& mesh : plan.meshes) {
    const model::Imbalance imbalance = model::ExpertImbalance(
        problem.model, problem.training,
        ShardingOf(mesh.degrees, plan.micro_batch, plan.sequence_parallel, plan.dispatcher));
    most.time = std::max(most.time, imbalance.time);
    most.memory = std::max(most.memory, imbalance.memory);
    most.saved = std::max(most.saved, imbalance.saved);
  }
  if (most.memory <= 1) return "Tokens are routed to expert ranks evenly.";
  if (problem.training.router_statistics == nullptr) {
    const std::string_view name = BalancingName(problem.training.balancing);
    if (problem.training.imbalance_quantile == 0) {
      return absl::StrFormat(
          "With %s the busiest expert rank is assumed to have %.3f times the mean tokens, in time "
          "and "
          "memory alike. Router statistics would tell.",
          name, most.time);
    }
    return absl::StrFormat(
        "With %s the busiest expert rank is assumed to have %.3f times the mean tokens. Memory "
        "holds "
        "%.3f times in a layer and %.3f times in what is saved, enough in %g %% of passes. Router "
        "statistics would tell.",
        name, most.time, most.memory, most.saved, 100 * problem.training.imbalance_quantile);
  }
  return absl::StrFormat(
      "By the router statistics the busiest expert rank has %.3f times the mean tokens, on average "
      "over layers, and at most %.3f times in any, which memory must hold.",
      most.time, most.memory);
}

// Says where attention is not fused although the job does not mind.
void AddAttentionAssumptions(const Problem& problem, const plan::Plan& plan,
                             std::vector<std::string>& assumptions) {
  std::set<std::string> named;
  for (const plan::Mesh& mesh : plan.meshes) {
    const auto& profile = *problem.profiles[static_cast<size_t>(mesh.pool)];
    const bool fuses = TrainingOn(problem.training, profile).flash_attention;
    if (fuses || !problem.training.flash_attention || !named.insert(profile.name).second) continue;
    assumptions.push_back(absl::StrCat("No kernel fuses attention on ", profile.name,
                                       ": its scores are computed whole and kept in memory."));
  }
}

}  // namespace

double InFlightMicroBatches(int64_t stage, int64_t stages, int64_t virtual_stages, int64_t group,
                            int64_t micro_batches) {
  const int64_t behind = stages - stage - 1;
  if (virtual_stages == 1) return static_cast<double>(std::min(micro_batches, behind + 1));
  const int64_t passes =
      std::min(micro_batches * virtual_stages, 2 * behind + (virtual_stages - 1) * group + 1);
  return static_cast<double>(passes) / static_cast<double>(virtual_stages);
}

ScheduleOptions ScheduleOptionsOf(const Problem& problem, const plan::Plan& plan) {
  ScheduleOptions options;
  options.micro_batches = plan.micro_batches;
  options.interleaving_group = plan.interleaving_group;
  options.overlap_transfers = plan.virtual_stages() > 1 && problem.training.overlap.pipeline;
  return options;
}

absl::Status CheckPrecision(const Problem& problem, int64_t pool) {
  const auto& profile = *problem.profiles[static_cast<size_t>(pool)];
  for (const bool low : {false, true}) {
    if (!profile.PeakFlops(MatrixPrecisionOf(problem.training, low)).has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the profile of ", profile.name, " has no peak rate for ",
                       PrecisionName(problem.training), ", which the job trains in"));
    }
  }
  return absl::OkStatus();
}

Prediction Predict(const Problem& problem, const plan::Plan& plan,
                   const std::vector<const MeshCost*>& stage_costs) {
  const int64_t count = plan.pipeline_stages();
  const int64_t virtual_stages = plan.virtual_stages();
  const int64_t group = plan.interleaving_group > 0 ? plan.interleaving_group : count;
  const double micro_batches = static_cast<double>(plan.micro_batches);
  Prediction prediction;

  std::vector<StageAt> stages;
  for (const plan::Mesh& mesh : plan.meshes) {
    for (const plan::Stage& stage : mesh.stages) {
      StageAt at;
      at.stage = &stage;
      at.costs = stage_costs[stages.size()];
      at.pool = mesh.pool;
      at.cost = at.costs->Stage(stage);
      at.tail = at.costs->Tail(at.cost);
      stages.push_back(at);
    }
  }
  CostTransfers(problem, BorderReaches(problem, plan, stage_costs), stages, prediction.assumptions);

  std::vector<StageTimes> times;
  for (int64_t i = 0; i < count; ++i) {
    const StageAt& at = stages[static_cast<size_t>(i)];
    StageTimes one;
    for (const plan::Chunk& chunk : at.stage->chunks) {
      const LayerCost passes = at.costs->Chunk(chunk, at.stage->recompute).passes;
      one.chunks.push_back({passes.forward.total(), passes.backward_seconds()});
    }
    one.send_seconds = at.send_seconds;
    times.push_back(std::move(one));

    StagePrediction stage;
    stage.forward_seconds = at.cost.passes.forward.total();
    stage.backward_seconds = at.cost.passes.backward_seconds();
    stage.memory = at.costs->Memory(
        at.cost, InFlightMicroBatches(i, count, virtual_stages, group, plan.micro_batches),
        at.costs->process_groups(count > 1));
    stage.dense_parameters = std::llround(at.cost.passes.dense_parameters);
    stage.expert_parameters = std::llround(at.cost.passes.expert_parameters);
    prediction.stages.push_back(stage);
    Evidence evidence = at.cost.passes.evidence;
    evidence *= micro_batches;
    prediction.evidence += evidence;
  }
  const std::vector<StageTimeline> timelines =
      SimulateSchedule(times, ScheduleOptionsOf(problem, plan));

  // The gradient norm needs every stage's gradients, so the steps start together.
  double gradients_ready = 0;
  double step = 0;
  size_t busiest = 0;
  double most = 0;
  for (size_t i = 0; i < stages.size(); ++i) {
    const StageAt& at = stages[i];
    gradients_ready =
        std::max(gradients_ready, timelines[i].finish_seconds + at.tail.gradient_sync_seconds);
    step = std::max(step, at.tail.step_seconds());
    const double busy =
        micro_batches * (at.cost.passes.forward.total() + at.cost.passes.backward_seconds()) +
        timelines[i].transfer_seconds + at.tail.total();
    if (busy > most) {
      most = busy;
      busiest = i;
    }
    prediction.evidence.communication_seconds += timelines[i].transfer_seconds +
                                                 at.tail.gradient_sync_seconds +
                                                 at.tail.parameter_gather_seconds;
    prediction.evidence.analytic_seconds += at.tail.optimizer_seconds;
  }
  prediction.iteration_seconds = gradients_ready + step;
  const Band band = BandOf(prediction.evidence, prediction.iteration_seconds);
  prediction.low_iteration_seconds = band.low_seconds;
  prediction.high_iteration_seconds = band.high_seconds;
  prediction.time = Explain(stages[busiest], timelines[busiest], static_cast<int64_t>(busiest),
                            micro_batches, prediction.iteration_seconds);
  prediction.tokens_per_second = static_cast<double>(plan.global_batch * problem.model.seq_length) /
                                 prediction.iteration_seconds;
  model::TrainingSpec training = problem.training;
  training.global_batch = plan.global_batch;
  prediction.model_flops =
      model::ModelFlops(problem.model, training, plan.meshes.front().degrees.tp);
  const double peak = PeakFlopsInUse(problem, plan) * prediction.iteration_seconds;
  prediction.model_flops_utilization = peak > 0 ? prediction.model_flops / peak : 0;
  if (problem.model.moe.has_value()) {
    prediction.assumptions.push_back(RoutingAssumption(problem, plan));
  }
  AddAttentionAssumptions(problem, plan, prediction.assumptions);
  if (problem.training.optimizer.offload_ratio > 0) {
    for (const plan::Mesh& mesh : plan.meshes) {
      const cluster::Pool& pool = problem.cluster.pools[static_cast<size_t>(mesh.pool)];
      const auto& profile = *problem.profiles[static_cast<size_t>(mesh.pool)];
      prediction.assumptions.push_back(absl::StrFormat(
          "Offloaded gradients and parameters of pool %s move at %.0f GB/s for each "
          "accelerator, and its host updates them at %.0f GB/s of memory traffic.",
          pool.name, HostLinkBytesPerSecond(profile) / 1e9,
          HostMemoryBytesPerSecond(profile) / 1e9));
      if (pool.host_memory_bytes.has_value()) continue;
      prediction.assumptions.push_back(
          absl::StrCat("The host memory of pool ", pool.name, " is not given, and not checked."));
    }
  }
  return prediction;
}

absl::StatusOr<Prediction> Evaluate(const Problem& problem, const plan::Plan& plan) {
  const std::vector<StagePlace> places = PlacesOf(plan, problem.cluster);
  std::vector<std::unique_ptr<MeshCost>> owned;
  std::vector<const MeshCost*> costs;  // [stage]
  for (const plan::Mesh& mesh : plan.meshes) {
    HAPMOE_RETURN_IF_ERROR(CheckPrecision(problem, mesh.pool));
    std::vector<uint32_t> modules;
    for (const plan::Stage& stage : mesh.stages) modules.push_back(stage.recompute.modules);
    const Fabric fabric = FabricOf(problem.cluster.pools[static_cast<size_t>(mesh.pool)],
                                   *problem.profiles[static_cast<size_t>(mesh.pool)]);
    const auto first = static_cast<int64_t>(owned.size());  // Of this mesh; few places differ.
    for (size_t i = 0; i < mesh.stages.size(); ++i) {
      const StageLinks links(fabric, mesh.degrees, places[costs.size()]);
      const auto same = std::find_if(owned.begin() + first, owned.end(), [&](const auto& cost) {
        return cost->links().SplitsLike(links);
      });
      if (same != owned.end()) {
        costs.push_back(same->get());
        continue;
      }
      owned.push_back(std::make_unique<MeshCost>(problem, mesh.pool, mesh.degrees,
                                                 plan.micro_batch_of(mesh), plan.sequence_parallel,
                                                 modules, plan.dispatcher, links));
      costs.push_back(owned.back().get());
    }
  }
  return Predict(problem, plan, costs);
}

}  // namespace hapmoe::cost
