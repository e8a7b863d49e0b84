#include "core/search/candidate_costs.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "core/cost/border.h"
#include "core/cost/evaluate.h"
#include "core/cost/schedule.h"
#include "core/plan/engine_traits.h"
#include "core/plan/megatron_rules.h"
#include "core/search/bound.h"

namespace hapmoe::search {
namespace {

using model::Recompute;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Module sets worth trying, by what they cost: element-wise work first, whole blocks last.
std::vector<uint32_t> ModuleSets(const SearchRequest& request) {
  const model::TransformerSpec& spec = request.problem.model;
  const model::TrainingSpec& training = request.problem.training;
  std::vector<uint32_t> sets;
  uint32_t light = model::kRecomputeLayerNorm;
  const auto keeps_scores = [&](const auto& profile) {
    return !cost::TrainingOn(training, *profile).flash_attention;
  };
  const auto& profiles = request.problem.profiles;
  if (std::any_of(profiles.begin(), profiles.end(), keeps_scores)) {
    sets.push_back(model::kRecomputeCoreAttention);
    light |= model::kRecomputeCoreAttention;
  }
  sets.push_back(model::kRecomputeLayerNorm);
  if (spec.moe.has_value() && spec.moe->grouped_gemm) {
    sets.push_back(model::kRecomputeMoeActivation);
    light |= model::kRecomputeMoeActivation;
  }
  if (spec.mla.has_value()) {
    sets.push_back(model::kRecomputeMlaUpProjection);
    light |= model::kRecomputeMlaUpProjection;
  }
  sets.push_back(light);
  uint32_t heavy = 0;
  if (spec.moe.has_value()) heavy |= model::kRecomputeMoe;
  if (std::count(spec.layer_kinds.begin(), spec.layer_kinds.end(), model::LayerKind::kDense) > 0) {
    heavy |= model::kRecomputeMlp;
  }
  sets.push_back(heavy);
  // The whole block's recomputation covers the activation inside it.
  sets.push_back((light & ~model::kRecomputeMoeActivation) | heavy);
  return sets;
}

double LeastLayerSeconds(const model::TransformerSpec& model, const cost::MeshCost& costs,
                         const Recompute& recompute) {
  double least = kInfinity;
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    if (layer > 0 && model.kind(layer) == model.kind(layer - 1)) continue;
    const plan::Chunk chunk = {.first_layer = layer, .layers = 1};
    const cost::LayerCost cost = costs.Chunk(chunk, recompute).passes;
    least = std::min(least, cost.forward.total() + cost.backward.total());
  }
  return least;
}

}  // namespace

bool RecomputeAllowed(const SearchRequest& request, const Recompute& recompute) {
  model::TrainingSpec training = request.problem.training;
  training.recompute = recompute;
  const plan::EngineFacts facts = plan::WithoutWrittenRecompute(request.facts);
  const plan::ParallelSpec parallel;
  plan::RuleContext context;
  context.model = &request.problem.model;
  context.training = &training;
  context.parallel = &parallel;
  context.facts = &facts;
  context.world_size = 1;
  return plan::FirstBroken(context, plan::kRecomputeScope) == nullptr;
}

RecomputeOptions RecomputeOptionsOf(const SearchRequest& request) {
  RecomputeOptions result;
  if (request.constraints.keep_recompute) {
    result.options = {request.problem.training.recompute};
    result.only_options = true;
    result.modules = {request.problem.training.recompute.modules};
    return result;
  }
  result.options.push_back(Recompute{});
  const plan::EngineTraits* engine = plan::FindEngine(request.constraints.engine);
  const bool modules = engine == nullptr || engine->recomputes_modules;
  for (const uint32_t set : ModuleSets(request)) {
    Recompute recompute;
    recompute.granularity = Recompute::Granularity::kSelective;
    recompute.modules = set;
    if (!modules || set == 0 || !RecomputeAllowed(request, recompute)) continue;
    if (std::find(result.modules.begin(), result.modules.end(), set) != result.modules.end()) {
      continue;
    }
    result.options.push_back(recompute);
    result.modules.push_back(set);
  }
  Recompute block;
  block.granularity = Recompute::Granularity::kFull;
  block.num_layers = 1;
  result.only_options = !RecomputeAllowed(request, block);
  return result;
}

double CandidateBound(const SearchRequest& request, const Candidate& candidate,
                      const LayerSeconds& layer_seconds) {
  const double layers = static_cast<double>(request.problem.model.layers);
  const size_t pools = candidate.pool_units.size();
  // The most layers that a unit of each pool does a second.
  std::vector<double> unit_rate(pools, 0);
  for (size_t kind = 0; kind < candidate.kinds.size(); ++kind) {
    double& rate = unit_rate[static_cast<size_t>(candidate.kinds[kind].pool)];
    rate = std::max(rate,
                    1 / (layer_seconds[kind] * static_cast<double>(candidate.kinds[kind].units)));
  }
  if (candidate.degrees_per_mesh) {
    // A stage may take all of a pool, so nothing is known of the time before the last stage starts.
    double rate = 0;
    for (size_t pool = 0; pool < pools; ++pool) {
      rate += static_cast<double>(candidate.pool_units[pool]) * unit_rate[pool];
    }
    return static_cast<double>(candidate.micro_batches) * layers / rate;
  }
  std::vector<double> stage_seconds;
  for (size_t pool = 0; pool < pools; ++pool) {
    stage_seconds.insert(stage_seconds.end(), static_cast<size_t>(candidate.pool_units[pool]),
                         1 / unit_rate[pool]);
  }
  if (candidate.stages > 0 && candidate.stages < static_cast<int64_t>(stage_seconds.size())) {
    std::sort(stage_seconds.begin(), stage_seconds.end());
    stage_seconds.resize(static_cast<size_t>(candidate.stages));
  }
  return SplitBound(std::move(stage_seconds), layers, candidate.micro_batches,
                    candidate.virtual_stages);
}

KindCosts KindCostsOf(const SearchRequest& request, const Candidate& candidate,
                      const RecomputeOptions& options) {
  KindCosts costs;
  for (const StageKind& kind : candidate.kinds) {
    const size_t pool = static_cast<size_t>(kind.pool);
    const int64_t node = request.problem.cluster.pools[pool].accelerators_per_node;
    const cost::Fabric fabric =
        cost::FabricOf(request.problem.cluster.pools[pool], *request.problem.profiles[pool]);
    std::vector<std::shared_ptr<const cost::MeshCost>> distinct;
    std::vector<uint16_t> numbers;  // Nodes are small: see cluster.cc.
    // Nodes begin at the same places again after so many units.
    const int64_t period = node / std::gcd(node, candidate.unit_ranks);
    for (int64_t units = 0; units < period; ++units) {
      if (units > 0 && units + kind.units > candidate.pool_units[pool]) break;
      const cost::StageLinks links(fabric, kind.degrees, {.behind = units * candidate.unit_ranks});
      size_t number = 0;
      while (number < distinct.size() && !distinct[number]->links().SplitsLike(links)) ++number;
      if (number == distinct.size()) {
        distinct.push_back(std::make_shared<const cost::MeshCost>(
            request.problem, kind.pool, kind.degrees, kind.micro_batch, kind.degrees.tp > 1,
            options.modules, candidate.dispatcher, links));
      }
      numbers.push_back(static_cast<uint16_t>(number));
    }
    if (distinct.size() == 1) numbers = {0};
    costs.emplace_back(std::move(distinct), std::move(numbers));
  }
  return costs;
}

CandidateCosts::CandidateCosts(const SearchRequest& request, const Candidate& candidate,
                               const RangeClasses& classes, const RecomputeOptions& options,
                               KindCosts kind_costs)
    : candidate_(candidate), costs_(std::move(kind_costs)) {
  const cost::Problem& problem = request.problem;
  problem_.problem = &problem;
  std::vector<double> border_bytes;  // [port]
  for (size_t number = 0; number < candidate.kinds.size(); ++number) {
    const StageKind& kind = candidate.kinds[number];
    const cost::MeshCost& costs = *costs_[number].At(0);
    choices_.push_back(costs_[number].Map([&](const auto& place) {
      return std::make_unique<StageChoices>(problem.model, classes, *place, options.options,
                                            options.only_options, request.memory);
    }));
    double least = kInfinity;
    for (const auto& place : costs_[number].distinct()) {
      least = std::min(least, LeastLayerSeconds(problem.model, *place, options.options.front()));
    }
    layer_seconds_.push_back(least);
    size_t port = 0;
    while (port < ports_.size() &&
           (ports_[port].pool != kind.pool || ports_[port].units != kind.units ||
            border_bytes[port] != costs.border_bytes())) {
      ++port;
    }
    if (port == ports_.size()) {
      ports_.push_back({.pool = kind.pool, .units = kind.units, .kinds = {}});
      border_bytes.push_back(costs.border_bytes());
    }
    ports_[port].kinds.push_back(number);
    port_of_.push_back(port);
  }
  // What a stage sends depends on its degrees and the receiver's; the program takes the least.
  SendSeconds most;
  most.fill(kInfinity);
  std::vector<std::vector<SendSeconds>> sends(ports_.size(),
                                              std::vector<SendSeconds>(ports_.size(), most));
  std::vector<const cost::Fabric*> fabrics;
  for (const Port& port : ports_) fabrics.push_back(&costs_[port.kinds.front()].At(0)->fabric());
  for (size_t from = 0; from < candidate.kinds.size(); ++from) {
    for (size_t to = 0; to < candidate.kinds.size(); ++to) {
      SendSeconds& least = sends[port_of_[from]][port_of_[to]];
      for (size_t reach = 0; reach < cost::kReaches; ++reach) {
        least[reach] =
            std::min(least[reach], SendSecondsOf(from, to, static_cast<cost::Reach>(reach)));
      }
    }
  }
  sends_.emplace(ports_, std::move(sends), std::move(fabrics), candidate.unit_ranks,
                 candidate.stages);
  problem_.candidate = &candidate;
  problem_.constraints = &request.constraints;
  problem_.ports = &ports_;
  problem_.choices = &choices_;
  problem_.sends = &*sends_;
  problem_.layer_seconds = &layer_seconds_;
  problem_.memory = request.memory;
}

double CandidateCosts::SendSecondsOf(size_t from, size_t to, cost::Reach reach) const {
  return cost::SendSeconds(*problem_.problem, candidate_.kinds[from].pool, *costs_[from].At(0),
                           candidate_.kinds[to].pool, *costs_[to].At(0), reach, nullptr);
}

size_t CandidateCosts::KindOf(const plan::Mesh& mesh) const {
  size_t kind = 0;
  while (candidate_.kinds[kind].pool != mesh.pool ||
         !(candidate_.kinds[kind].degrees == mesh.degrees)) {
    ++kind;
  }
  return kind;
}

CandidateCosts::Timing CandidateCosts::TimingOf(const plan::Plan& plan) const {
  Timing timing;
  std::vector<size_t> kinds;
  const std::vector<const cost::MeshCost*> stage_costs = CostsOf(plan);
  for (const plan::Mesh& mesh : plan.meshes) {
    const size_t kind = KindOf(mesh);
    for (const plan::Stage& stage : mesh.stages) {
      const cost::MeshCost& costs = *stage_costs[kinds.size()];
      cost::StageTimes times;
      for (const plan::Chunk& chunk : stage.chunks) {
        const cost::LayerCost passes = costs.Chunk(chunk, stage.recompute).passes;
        times.chunks.push_back({passes.forward.total(), passes.backward_seconds()});
      }
      timing.stages.push_back(std::move(times));
      timing.tails.push_back(costs.Tail(costs.Stage(stage)));
      kinds.push_back(kind);
    }
  }
  const std::vector<cost::Reach> reaches =
      cost::BorderReaches(*problem_.problem, plan, stage_costs);
  for (size_t i = 0; i < kinds.size(); ++i) {
    timing.stages[i].send_seconds =
        SendSecondsOf(kinds[i], kinds[(i + 1) % kinds.size()], reaches[i]);
  }
  timing.options = cost::ScheduleOptionsOf(*problem_.problem, plan);
  return timing;
}

double CandidateCosts::BoundOf(const Timing& timing) {
  if (timing.stages.front().chunks.size() > 1) {
    const std::vector<double> finish = InterleavedFinish(timing.stages, timing.options);
    return timing.IterationSeconds([&](size_t i) { return finish[i]; });
  }
  const int64_t micro_batches = timing.options.micro_batches;
  SuffixBound suffix;
  for (size_t i = timing.stages.size(); i-- > 0;) {
    const cost::ChunkTimes& times = timing.stages[i].chunks.front();
    const int64_t behind = static_cast<int64_t>(timing.stages.size() - i);
    StageSeconds stage{times.forward, times.backward, timing.tails[i].gradient_sync_seconds,
                       timing.tails[i].step_seconds()};
    if (behind > 1) stage.forward += timing.stages[i].send_seconds;
    if (i > 0) stage.backward += stage.last_send = timing.stages[i - 1].send_seconds;
    suffix = Extend(suffix, stage, micro_batches, std::min(behind, micro_batches));
  }
  return suffix.seconds();
}

double CandidateCosts::SimulatedSeconds(const plan::Plan& plan, double limit_seconds) const {
  Timing timing = TimingOf(plan);
  const double bound = BoundOf(timing);
  if (bound >= limit_seconds) return bound;
  timing.options.give_up_seconds = limit_seconds - timing.StepSeconds();
  const auto timelines = cost::SimulateSchedule(timing.stages, timing.options);
  return timing.IterationSeconds([&](size_t i) { return timelines[i].finish_seconds; });
}

std::vector<const cost::MeshCost*> CandidateCosts::CostsOf(const plan::Plan& plan) const {
  const std::vector<cost::StagePlace> places = cost::PlacesOf(plan, problem_.problem->cluster);
  std::vector<const cost::MeshCost*> costs;
  for (const plan::Mesh& mesh : plan.meshes) {
    const auto& mesh_costs = costs_[KindOf(mesh)];
    for (size_t i = 0; i < mesh.stages.size(); ++i) {
      costs.push_back(mesh_costs.At(places[costs.size()].behind / candidate_.unit_ranks).get());
    }
  }
  return costs;
}

}  // namespace hapmoe::search
