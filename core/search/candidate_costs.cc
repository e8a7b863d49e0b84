#include "core/search/candidate_costs.h"

#include <algorithm>
#include <utility>

#include "core/cost/communication_time.h"
#include "core/plan/megatron_rules.h"
#include "core/search/bound.h"

namespace hapmoe::search {
namespace {

using model::Recompute;

// Module sets worth trying, by what they cost: element-wise work first, whole blocks last.
std::vector<uint32_t> ModuleSets(const SearchRequest& request) {
  const model::TransformerSpec& spec = request.problem.model;
  const model::TrainingSpec& training = request.problem.training;
  std::vector<uint32_t> sets;
  uint32_t light = model::kRecomputeLayerNorm;
  if (!training.flash_attention) {
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

}  // namespace

RecomputeOptions RecomputeOptionsOf(const SearchRequest& request) {
  RecomputeOptions result;
  if (request.constraints.keep_recompute) {
    result.options = {request.problem.training.recompute};
    result.only_options = true;
    result.modules = {request.problem.training.recompute.modules};
    return result;
  }
  const auto allowed = [&](const Recompute& recompute) {
    model::TrainingSpec training = request.problem.training;
    training.recompute = recompute;
    plan::EngineFacts facts = request.facts;
    // The launcher replaces what the job itself says about recomputation.
    facts.recompute_options = false;
    facts.unknown_recompute_modules.clear();
    facts.moe_layer_recompute = false;
    facts.distribute_saved_activations = false;
    plan::ParallelSpec parallel;
    plan::RuleContext context;
    context.model = &request.problem.model;
    context.training = &training;
    context.parallel = &parallel;
    context.facts = &facts;
    context.world_size = 1;
    return plan::FirstBroken(context, plan::kRecomputeScope) == nullptr;
  };
  result.options.push_back(Recompute{});
  for (const uint32_t set : ModuleSets(request)) {
    Recompute recompute;
    recompute.granularity = Recompute::Granularity::kSelective;
    recompute.modules = set;
    if (set == 0 || !allowed(recompute)) continue;
    if (std::find(result.modules.begin(), result.modules.end(), set) != result.modules.end()) {
      continue;
    }
    result.options.push_back(recompute);
    result.modules.push_back(set);
  }
  Recompute block;
  block.granularity = Recompute::Granularity::kFull;
  block.num_layers = 1;
  result.only_options = !allowed(block);
  return result;
}

CandidateCosts::CandidateCosts(const SearchRequest& request, const Candidate& candidate,
                               const RangeClasses& classes, const RecomputeOptions& options) {
  const cost::Problem& problem = request.problem;
  const size_t pools = problem.cluster.pools.size();
  for (size_t pool = 0; pool < pools; ++pool) {
    owned_costs_.push_back(std::make_unique<cost::MeshCost>(
        problem, static_cast<int64_t>(pool), candidate.degrees, candidate.micro_batch,
        candidate.degrees.tp > 1, options.modules));
    costs_.push_back(owned_costs_.back().get());
    owned_choices_.push_back(std::make_unique<StageChoices>(problem.model, classes, *costs_.back(),
                                                            options.options, options.only_options));
    choices_.push_back(owned_choices_.back().get());
    // The cheapest kind of layer, without its neighbours, recomputation or transfers.
    double least = 0;
    for (int64_t layer = 0; layer < problem.model.layers; ++layer) {
      if (layer > 0 && problem.model.kind(layer) == problem.model.kind(layer - 1)) continue;
      plan::Chunk chunk;
      chunk.first_layer = layer;
      chunk.layers = 1;
      const cost::LayerCost cost = costs_.back()->Chunk(chunk, options.options.front()).passes;
      const double seconds = cost.forward.total() + cost.backward.total();
      least = layer == 0 ? seconds : std::min(least, seconds);
    }
    layer_seconds_.push_back(least);
  }
  for (size_t from = 0; from < pools; ++from) {
    std::vector<double> row;
    for (size_t to = 0; to < pools; ++to) {
      const cost::Route route =
          from == to ? cost::RouteWithin(costs_[from]->fabric(), candidate.degrees.stage_ranks())
                     : cost::RouteBetween(problem.cluster, static_cast<int64_t>(from),
                                          static_cast<int64_t>(to), costs_[from]->fabric(),
                                          costs_[to]->fabric(), nullptr);
      row.push_back(
          route.Seconds(std::max(costs_[from]->border_bytes(), costs_[to]->border_bytes())));
    }
    send_seconds_.push_back(std::move(row));
  }
  std::vector<double> stage_seconds;
  for (size_t pool = 0; pool < pools; ++pool) {
    stage_seconds.insert(stage_seconds.end(), static_cast<size_t>(candidate.pool_stages[pool]),
                         layer_seconds_[pool]);
  }
  lower_bound_seconds_ = SplitBound(
      std::move(stage_seconds), static_cast<double>(problem.model.layers), candidate.micro_batches);
  problem_.problem = &problem;
  problem_.candidate = &candidate;
  problem_.constraints = &request.constraints;
  problem_.costs = &costs_;
  problem_.choices = &choices_;
  problem_.send_seconds = &send_seconds_;
  problem_.layer_seconds = &layer_seconds_;
}

double CandidateCosts::LowerBoundOf(const plan::Plan& plan) const {
  SuffixBound suffix;
  int64_t behind = 0;
  size_t next_pool = 0;
  for (size_t m = plan.meshes.size(); m-- > 0;) {
    const plan::Mesh& mesh = plan.meshes[m];
    const size_t pool = static_cast<size_t>(mesh.pool);
    for (size_t i = mesh.stages.size(); i-- > 0;) {
      const cost::StageCost stage = costs_[pool]->Stage(mesh.stages[i]);
      const cost::TailCost tail = costs_[pool]->Tail(stage);
      StageSeconds seconds{stage.passes.forward.total(), stage.passes.backward_seconds(),
                           tail.gradient_sync_seconds, tail.step_seconds()};
      if (behind > 0) seconds.forward += send_seconds_[pool][next_pool];
      if (i > 0) {
        seconds.backward += send_seconds_[pool][pool];
      } else if (m > 0) {
        seconds.backward += send_seconds_[static_cast<size_t>(plan.meshes[m - 1].pool)][pool];
      }
      ++behind;
      suffix = Extend(suffix, seconds, plan.micro_batches, std::min(behind, plan.micro_batches));
      next_pool = pool;
    }
  }
  return suffix.seconds();
}

std::vector<const cost::MeshCost*> CandidateCosts::CostsOf(const plan::Plan& plan) const {
  std::vector<const cost::MeshCost*> costs;
  for (const plan::Mesh& mesh : plan.meshes)
    costs.push_back(costs_[static_cast<size_t>(mesh.pool)]);
  return costs;
}

}  // namespace hapmoe::search
