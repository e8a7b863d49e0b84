#include "core/search/greedy.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "core/cost/evaluate.h"
#include "core/search/stage_choice.h"

namespace hapmoe::search {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr size_t kMaxPermutedPools = 4;

class Greedy {
 public:
  Greedy(const SearchRequest& request, const Candidate& candidate, CandidateCosts& costs)
      : request_(request), candidate_(candidate), costs_(costs), model_(request.problem.model) {}

  // The plan on these pools in this order, if one is found that fits.
  std::optional<Costed> On(const std::vector<int64_t>& order) {
    if (!FillsNodes(request_, candidate_, order)) return std::nullopt;
    pools_.clear();
    for (const int64_t pool : order) {
      pools_.insert(pools_.end(),
                    static_cast<size_t>(candidate_.pool_units[static_cast<size_t>(pool)]), pool);
    }
    const int64_t count = static_cast<int64_t>(pools_.size());
    if (count == 0 || count > model_.layers) return std::nullopt;
    if (!StagesAllowed(request_.constraints, count)) return std::nullopt;
    if (!AssignLayers()) return std::nullopt;
    const std::optional<plan::Plan> plan = Build();
    if (!plan.has_value()) return std::nullopt;
    cost::Prediction prediction = cost::Predict(request_.problem, *plan, costs_.CostsOf(*plan));
    if (!prediction.fits()) return std::nullopt;
    return Costed{*plan, std::move(prediction)};
  }

 private:
  int64_t InFlight(size_t stage) const {
    return std::min(static_cast<int64_t>(pools_.size() - stage), candidate_.micro_batches);
  }

  // A pool's stages follow each other, and each takes a unit.
  StageChoices& ChoicesAt(size_t stage) {
    const auto last = std::find(pools_.rbegin(), pools_.rend(), pools_[stage]);
    const auto own = pools_.rend() - static_cast<int64_t>(stage) - 1;
    return costs_.choices(pools_[stage], own - last);
  }

  // Seconds of a stage with so many layers, infinite where it does not fit. Layers are counted from
  // where the stage would start if all others were equal: exact for models of one kind of layer.
  double Seconds(size_t stage, int64_t layers) {
    const int64_t count = static_cast<int64_t>(pools_.size());
    int64_t first = stage == 0 ? 0 : static_cast<int64_t>(stage) * model_.layers / count;
    if (stage + 1 == pools_.size()) first = model_.layers - layers;
    first = std::clamp<int64_t>(first, stage == 0 ? 0 : 1, model_.layers - layers);
    int64_t last = first + layers;
    // Only the last stage ends the model.
    if (stage + 1 < pools_.size() && last == model_.layers) {
      if (first <= 1) return kInfinity;
      --first;
      --last;
    }
    const StageChoice& choice = ChoicesAt(stage).Best(first, last, InFlight(stage));
    return choice.fits ? choice.forward_seconds + choice.backward_seconds : kInfinity;
  }

  // One layer for every stage, then each of the others where it makes the least of a longest stage.
  bool AssignLayers() {
    layers_.assign(pools_.size(), 1);
    std::vector<double> next(pools_.size());
    for (size_t i = 0; i < pools_.size(); ++i) {
      if (Seconds(i, 1) == kInfinity) return false;
      next[i] = Seconds(i, 2);
    }
    for (int64_t left = model_.layers - static_cast<int64_t>(pools_.size()); left > 0; --left) {
      const size_t least =
          static_cast<size_t>(std::min_element(next.begin(), next.end()) - next.begin());
      if (next[least] == kInfinity) return false;
      ++layers_[least];
      next[least] =
          layers_[least] + 1 < model_.layers ? Seconds(least, layers_[least] + 1) : kInfinity;
    }
    return true;
  }

  std::optional<plan::Plan> Build() {
    plan::Plan plan = EmptyPlan(request_.constraints, candidate_);
    int64_t first = 0;
    for (size_t i = 0; i < pools_.size(); ++i) {
      const int64_t last = first + layers_[i];
      const StageChoice& choice = ChoicesAt(i).Best(first, last, InFlight(i));
      if (!choice.fits) return std::nullopt;
      AddStage(plan, candidate_.kinds[static_cast<size_t>(pools_[i])],
               {.chunks = {ChunkOf(model_, first, last)}, .recompute = choice.recompute});
      first = last;
    }
    return plan;
  }

  const SearchRequest& request_;
  const Candidate& candidate_;
  CandidateCosts& costs_;
  const model::TransformerSpec& model_;
  std::vector<int64_t> pools_;   // Of each stage.
  std::vector<int64_t> layers_;  // On each stage.
};

// Pools that hold a stage; every non-empty set of them, or all.
std::vector<std::vector<int64_t>> PoolSets(const SearchRequest& request,
                                           const Candidate& candidate) {
  std::vector<int64_t> all;
  for (size_t pool = 0; pool < candidate.pool_units.size(); ++pool) {
    if (candidate.pool_units[pool] > 0) all.push_back(static_cast<int64_t>(pool));
  }
  if (!request.constraints.allow_idle_accelerators || all.size() > kMaxPermutedPools) {
    return {all};
  }
  std::vector<std::vector<int64_t>> sets;
  for (uint32_t mask = (1u << all.size()) - 1; mask > 0; --mask) {
    std::vector<int64_t> set;
    for (size_t i = 0; i < all.size(); ++i) {
      if ((mask >> i & 1u) != 0) set.push_back(all[i]);
    }
    sets.push_back(std::move(set));
  }
  return sets;
}

}  // namespace

bool HasGreedyPlan(const Candidate& candidate) {
  return candidate.virtual_stages == 1 && !candidate.degrees_per_mesh;
}

std::optional<Costed> GreedyPlan(const SearchRequest& request, const Candidate& candidate,
                                 CandidateCosts& costs, const Interrupter& interrupter) {
  Greedy greedy(request, candidate, costs);
  std::optional<Costed> best;
  for (std::vector<int64_t> order : PoolSets(request, candidate)) {
    do {
      if (interrupter.tripped()) return best;
      std::optional<Costed> plan = greedy.On(order);
      if (plan.has_value() && (!best.has_value() || plan->prediction.iteration_seconds <
                                                        best->prediction.iteration_seconds)) {
        best = std::move(plan);
      }
    } while (order.size() <= kMaxPermutedPools &&
             std::next_permutation(order.begin(), order.end()));
  }
  return best;
}

}  // namespace hapmoe::search
