#include "core/search/space.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "core/plan/engine_traits.h"

namespace hapmoe::search {

void Space::Add(Candidate candidate) {
  int64_t elsewhere = 0;  // Bytes that it does not hold itself.
  if (candidate.kinds.size() > kFewPools) elsewhere += sizeof(StageKind) * candidate.kinds.size();
  if (candidate.pool_units.size() > kFewPools) {
    elsewhere += sizeof(int64_t) * candidate.pool_units.size();
  }
  if (elsewhere > 0 && !charge.Add(elsewhere)) return;
  candidates.Add(std::move(candidate), charge);
}

std::vector<int64_t> Divisors(int64_t number) {
  std::vector<int64_t> divisors;
  for (int64_t i = 1; i * i <= number; ++i) {
    if (number % i != 0) continue;
    divisors.push_back(i);
    if (i != number / i) divisors.push_back(number / i);
  }
  std::sort(divisors.begin(), divisors.end());
  return divisors;
}

namespace {

// Ranks of a stage that leave no accelerator idle, or all that any pool can hold.
std::vector<int64_t> StageSizes(const SearchRequest& request) {
  const auto& pools = request.problem.cluster.pools;
  if (!request.constraints.allow_idle_accelerators) {
    int64_t common = 0;
    for (const auto& pool : pools) common = std::gcd(common, pool.accelerators());
    return Divisors(common);
  }
  // With accelerators to spare a stage may be anything that fits a pool and fills whole nodes, or
  // divides a node.
  std::set<int64_t> sizes;
  for (const auto& pool : pools) {
    for (int64_t nodes = 1; nodes <= pool.nodes; ++nodes) {
      for (const int64_t size : Divisors(nodes * pool.accelerators_per_node)) sizes.insert(size);
    }
  }
  return {sizes.begin(), sizes.end()};
}

class Enumeration {
 public:
  Enumeration(const SearchRequest& request, const Interrupter& interrupter)
      : request_(request),
        interrupter_(interrupter),
        dispatchers_(AllowedDispatchers(request)),
        engine_(*plan::FindEngine(request.constraints.engine)),
        most_virtual_(MostVirtualStages(request.problem.model)) {
    space_.charge = MemoryCharge(request.memory);
  }

  Space Run() {
    const model::TransformerSpec& spec = request_.problem.model;
    for (const int64_t ranks : StageSizes(request_)) {
      if (interrupter_.tripped()) break;
      pool_units_.clear();
      int64_t stages = 0;
      for (const auto& pool : request_.problem.cluster.pools) {
        pool_units_.push_back(pool.accelerators() / ranks);
        stages += pool_units_.back();
      }
      if (stages == 0) continue;
      if (!request_.constraints.allow_idle_accelerators &&
          (stages > spec.layers || !StagesAllowed(request_.constraints, stages))) {
        ++space_.pruned[stages > spec.layers ? "every_stage_holds_a_layer" : "constraint_pp"];
        continue;
      }
      for (const int64_t tp : Divisors(ranks)) {
        if (!Allows(request_.constraints.tp, tp)) continue;
        for (const int64_t cp : Divisors(ranks / tp)) {
          if (!Allows(request_.constraints.cp, cp)) continue;
          const int64_t dp = ranks / (tp * cp);
          if (!Allows(request_.constraints.dp, dp)) continue;
          Experts(std::min(stages, spec.layers), {.tp = tp, .cp = cp, .dp = dp});
        }
      }
    }
    space_.restrictions = {
        "one set of degrees for all stages",
        "every stage and virtual stage holds at least one decoder layer; the multi-token "
        "prediction "
        "layers and the loss are on the last one",
        "where the pipeline leaves a pool it has filled whole nodes",
        most_virtual_ > 1
            ? absl::StrCat("at most ", most_virtual_,
                           " virtual stages, which hold equally many layers on a rank, but for the "
                           "last one of the pipeline, which may hold fewer")
            : "no virtual stages",
    };
    if (request_.constraints.allow_idle_accelerators) {
      space_.restrictions.push_back("the ranks of a stage divide a whole number of nodes");
    }
    for (std::string& restriction : DispatcherRestriction(request_)) {
      space_.restrictions.push_back(std::move(restriction));
    }
    if (!engine_.restriction.empty()) {
      space_.restrictions.push_back(absl::StrCat(engine_.name, ": ", engine_.restriction));
    }
    if (!request_.constraints.allow_idle_accelerators) {
      space_.restrictions.push_back("no accelerator idles");
    }
    return std::move(space_);
  }

 private:
  int64_t MostVirtualStages(const model::TransformerSpec& model) const {
    if (!LeadingDenseLayers(model).has_value()) return 1;
    return engine_.max_virtual_stages > 0 ? std::min(engine_.max_virtual_stages, kMaxVirtualStages)
                                          : kMaxVirtualStages;
  }

  void Experts(int64_t stages, plan::Degrees degrees) {
    const auto& moe = request_.problem.model.moe;
    if (!moe.has_value()) {
      degrees.etp = degrees.tp;  // The engine's default; it moves nothing without experts.
      MicroBatches(stages, degrees);
      return;
    }
    const int64_t ranks = degrees.stage_ranks();
    for (const int64_t ep : Divisors(std::gcd(moe->experts, ranks))) {
      if (!Allows(request_.constraints.ep, ep)) continue;
      for (const int64_t etp : Divisors(ranks / ep)) {
        if (!Allows(request_.constraints.etp, etp)) continue;
        degrees.ep = ep;
        degrees.etp = etp;
        MicroBatches(stages, degrees);
      }
    }
  }

  // How a family of candidates runs, which differ in virtual stages alone.
  struct Family {
    const plan::Degrees& degrees;
    int64_t micro_batch;
    std::optional<model::Dispatcher> dispatcher;
  };

  void MicroBatches(int64_t stages, const plan::Degrees& degrees) {
    for (const int64_t micro_batch : AllowedMicroBatches(request_)) {
      for (const std::optional<model::Dispatcher> dispatcher : dispatchers_) {
        VirtualStages(stages, {degrees, micro_batch, dispatcher});
        if (!Dispatches(request_.problem.model, degrees)) break;
      }
    }
  }

  void VirtualStages(int64_t stages, const Family& family) {
    for (int64_t virtual_stages = 1; virtual_stages <= most_virtual_; ++virtual_stages) {
      if (!Allows(request_.constraints.virtual_stages, virtual_stages)) continue;
      if (virtual_stages == 1) {
        AddIfValid(stages, 1, family);
        continue;
      }
      // The schedule's warm-up depends on the number of stages, so each number is a candidate.
      const int64_t most = std::min(stages, request_.problem.model.layers / virtual_stages);
      const int64_t least = request_.constraints.allow_idle_accelerators ? 2 : stages;
      for (int64_t count = least; count <= most; ++count) {
        if (!StagesAllowed(request_.constraints, count)) continue;
        AddIfValid(count, virtual_stages, family);
      }
    }
  }

  void AddIfValid(int64_t stages, int64_t virtual_stages, const Family& family) {
    if (interrupter_.tripped()) return;
    const plan::Degrees& degrees = family.degrees;
    const DegreesVerdict verdict = JudgeDegrees(request_, degrees, family.micro_batch, stages,
                                                virtual_stages, family.dispatcher);
    if (verdict.broken != nullptr) {
      ++space_.pruned[std::string(verdict.broken->name)];
      return;
    }
    const absl::string_view rule =
        plan::BrokenEngineRule(engine_, request_.problem.model, degrees, stages, virtual_stages);
    if (!rule.empty()) {
      ++space_.pruned[std::string(rule)];
      return;
    }
    Candidate candidate;
    for (size_t pool = 0; pool < pool_units_.size(); ++pool) {
      candidate.kinds.push_back({.pool = static_cast<int64_t>(pool),
                                 .degrees = degrees,
                                 .micro_batch = family.micro_batch});
    }
    candidate.pool_units = pool_units_;
    candidate.unit_ranks = degrees.stage_ranks();
    candidate.micro_batches = verdict.micro_batches;
    candidate.dispatcher = family.dispatcher;
    candidate.virtual_stages = virtual_stages;
    if (virtual_stages > 1) candidate.stages = stages;
    space_.Add(std::move(candidate));
  }

  const SearchRequest& request_;
  const Interrupter& interrupter_;
  const std::vector<std::optional<model::Dispatcher>> dispatchers_;
  const plan::EngineTraits& engine_;
  const int64_t most_virtual_;
  PoolUnits pool_units_;
  Space space_;
};

}  // namespace

DegreesVerdict JudgeDegrees(const SearchRequest& request, const plan::Degrees& degrees,
                            int64_t micro_batch, int64_t stages, int64_t virtual_stages,
                            std::optional<model::Dispatcher> dispatcher) {
  plan::ParallelSpec parallel;
  parallel.tp = degrees.tp;
  parallel.cp = degrees.cp;
  parallel.ep = degrees.ep;
  parallel.etp = degrees.etp;
  parallel.pp = stages;
  parallel.overlap_p2p = request.problem.training.overlap.pipeline;
  model::TrainingSpec training = request.problem.training;
  training.micro_batch = micro_batch;
  training.dispatcher = dispatcher.value_or(training.dispatcher);
  training.sequence_parallel = degrees.tp > 1;
  plan::RuleContext context;
  context.model = &request.problem.model;
  context.training = &training;
  context.parallel = &parallel;
  context.facts = &request.facts;
  context.world_size = degrees.stage_ranks() * stages;
  context.virtual_stages = virtual_stages;
  const auto& profiles = request.problem.profiles;
  context.fuses_attention = std::all_of(profiles.begin(), profiles.end(),
                                        [](const auto& one) { return one->fused_attention; });
  return {plan::FirstBroken(context, plan::kDegreesScope), context.micro_batches()};
}

std::vector<std::optional<model::Dispatcher>> AllowedDispatchers(const SearchRequest& request) {
  const std::vector<model::Dispatcher>& allowed = request.constraints.dispatchers;
  if (allowed.empty() || !request.problem.model.moe.has_value()) return {std::nullopt};
  model::TrainingSpec training = request.problem.training;
  const auto faults = [&](model::Dispatcher dispatcher) {
    training.dispatcher = dispatcher;
    return plan::CheckJob(request.problem.model, training, request.facts).size();
  };
  // What is wrong with the job under every dispatcher is for others to say.
  size_t least = faults(model::kDispatchers[0]);
  for (const model::Dispatcher dispatcher : model::kDispatchers) {
    least = std::min(least, faults(dispatcher));
  }
  std::vector<std::optional<model::Dispatcher>> dispatchers;
  for (const model::Dispatcher dispatcher : model::kDispatchers) {
    if (Allows(allowed, dispatcher) && faults(dispatcher) == least) {
      dispatchers.push_back(dispatcher);
    }
  }
  return dispatchers;
}

std::vector<std::string> DispatcherRestriction(const SearchRequest& request) {
  if (!request.problem.model.moe.has_value()) return {};
  std::vector<std::string> names;
  for (const model::Dispatcher dispatcher : request.constraints.dispatchers) {
    names.push_back(model::DispatcherName(dispatcher));
  }
  if (names.empty()) {
    return {absl::StrCat("the job's own dispatcher, ",
                         model::DispatcherName(request.problem.training.dispatcher))};
  }
  return {absl::StrCat(names.size() == 1 ? "the dispatcher " : "the dispatchers ",
                       absl::StrJoin(names, " and "))};
}

bool Dispatches(const model::TransformerSpec& model, const plan::Degrees& degrees) {
  return model.moe.has_value() && degrees.dispatch_ranks() > 1;
}

std::vector<int64_t> AllowedMicroBatches(const SearchRequest& request) {
  if (!request.constraints.micro_batch.empty()) return request.constraints.micro_batch;
  return {request.problem.training.micro_batch};
}

bool StagesAllowed(const Constraints& constraints, int64_t stages) {
  return Allows(constraints.pp, stages);
}

plan::Plan EmptyPlan(const Constraints& constraints, const Candidate& candidate) {
  plan::Plan plan;
  plan.engine = constraints.engine;
  plan.dispatcher = candidate.dispatcher;
  plan.micro_batches = candidate.micro_batches;
  plan.global_batch = candidate.samples_per_step() * candidate.micro_batches;
  return plan;
}

void AddStage(plan::Plan& plan, const StageKind& kind, plan::Stage stage) {
  if (plan.meshes.empty()) plan.micro_batch = kind.micro_batch;
  if (kind.degrees.tp > 1) plan.sequence_parallel = true;
  if (plan.meshes.empty() || plan.meshes.back().pool != kind.pool ||
      !(plan.meshes.back().degrees == kind.degrees)) {
    plan.meshes.push_back({.pool = kind.pool, .degrees = kind.degrees, .stages = {}});
  }
  plan.meshes.back().stages.push_back(std::move(stage));
}

std::optional<int64_t> LeadingDenseLayers(const model::TransformerSpec& model) {
  const int64_t dense = model.first_moe_layer();
  if (dense == model.layers) return 0;
  for (int64_t layer = dense; layer < model.layers; ++layer) {
    if (model.kind(layer) != model::LayerKind::kMoe) return std::nullopt;
  }
  return dense;
}

bool FillsNodes(const SearchRequest& request, const Candidate& candidate,
                const std::vector<int64_t>& order) {
  for (size_t i = 1; i < order.size(); ++i) {
    const size_t pool = static_cast<size_t>(order[i]);
    const int64_t ranks = candidate.pool_units[pool] * candidate.unit_ranks;
    if (ranks % request.problem.cluster.pools[pool].accelerators_per_node != 0) return false;
  }
  return true;
}

Space EnumerateUniformDegrees(const SearchRequest& request, const Interrupter& interrupter) {
  return Enumeration(request, interrupter).Run();
}

Space EnumerateSpace(const SearchRequest& request, const Interrupter& interrupter) {
  return plan::FindEngine(request.constraints.engine)->degrees_per_stage
             ? EnumerateStageDegrees(request, interrupter)
             : EnumerateUniformDegrees(request, interrupter);
}

}  // namespace hapmoe::search
