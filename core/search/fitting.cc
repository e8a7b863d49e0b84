#include "core/search/fitting.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "core/cost/memory.h"
#include "core/search/stage_choice.h"

namespace hapmoe::search {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

Fitting::Fitting(const SearchRequest& request)
    : request_(request),
      problem_(request.problem),
      options_(RecomputeOptionsOf(request_)),
      dispatchers_(AllowedDispatchers(request_)) {
  const model::TransformerSpec& model = request_.problem.model;
  moe_before_ = {0};
  int64_t first = 0;
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    moe_before_.push_back(moe_before_.back() +
                          (model.kind(layer) == model::LayerKind::kMoe ? 1 : 0));
    if (model.kind(layer) != model.kind(first)) first = layer;
    if (layer + 1 - first > run_layers_) {
      run_layers_ = layer + 1 - first;
      run_first_ = first;
    }
  }
}

void Fitting::SetOptimizer(const model::Optimizer& optimizer) {
  problem_.training.optimizer = optimizer;
  for (auto& [key, mesh] : meshes_) mesh.needs.clear();
}

bool Fitting::UsesLeastDispatcher(const Candidate& candidate) const {
  if (dispatchers_.size() < 2) return true;
  const StageKind& kind = candidate.kinds.front();
  const auto bytes = [&](std::optional<model::Dispatcher> dispatcher) {
    return cost::DispatchBytes(
        problem_.model, problem_.training,
        cost::ShardingOf(kind.degrees, kind.micro_batch, kind.degrees.tp > 1, dispatcher));
  };
  const double own = bytes(candidate.dispatcher);
  bool before = true;
  for (const std::optional<model::Dispatcher> other : dispatchers_) {
    if (other == candidate.dispatcher) {
      before = false;
      continue;
    }
    if (bytes(other) > own || (!before && bytes(other) == own)) continue;
    const DegreesVerdict verdict =
        JudgeDegrees(request_, kind.degrees, kind.micro_batch, candidate.max_stages(),
                     candidate.virtual_stages, other);
    if (verdict.broken == nullptr) return false;
  }
  return true;
}

Fitting::Mesh& Fitting::MeshOf(int64_t pool, const Candidate& candidate) {
  const plan::Degrees& degrees = candidate.kinds.front().degrees;
  Mesh& mesh = meshes_[{
      pool, degrees.tp, degrees.cp, degrees.dp, degrees.ep, degrees.etp,
      candidate.kinds.front().micro_batch,
      candidate.dispatcher.has_value() ? static_cast<int64_t>(*candidate.dispatcher) : -1}];
  mesh.pool = pool;
  if (mesh.cost == nullptr) {
    mesh.cost = std::make_unique<cost::MeshCost>(
        request_.problem, pool, degrees, candidate.kinds.front().micro_batch, degrees.tp > 1,
        options_.modules, candidate.dispatcher);
  }
  return mesh;
}

Fitting::Mesh::Need Fitting::NeedOf(Mesh& mesh, const plan::Chunk& chunk, int64_t in_flight) const {
  // Only the numbers of layers of each kind count, and the ends of the model.
  const int64_t last = chunk.first_layer + chunk.layers;
  const int64_t moe =
      moe_before_[static_cast<size_t>(last)] - moe_before_[static_cast<size_t>(chunk.first_layer)];
  uint64_t key = static_cast<uint64_t>(in_flight);
  key = key << 16 | static_cast<uint64_t>(chunk.layers);
  key = key << 16 | static_cast<uint64_t>(moe);
  key = key << 2 | (chunk.embedding ? 2 : 0) | (chunk.loss ? 1 : 0);
  const auto [entry, added] = mesh.needs.try_emplace(key);
  if (!added) return entry->second;
  Mesh::Need& need = entry->second;
  need.short_bytes = kInfinity;
  const int64_t groups =
      mesh.cost->process_groups(/*pipeline=*/chunk.layers < request_.problem.model.layers);
  const cluster::Pool& pool = problem_.cluster.pools[static_cast<size_t>(mesh.pool)];
  const profile::AcceleratorProfile& profile = *problem_.profiles[static_cast<size_t>(mesh.pool)];
  const auto consider = [&](const model::Recompute& recompute) {
    const cost::MemoryBreakdown memory =
        cost::MemoryOf(mesh.cost->Chunk(chunk, recompute), problem_, pool, profile,
                       mesh.cost->degrees(), static_cast<double>(in_flight), groups);
    if (memory.short_bytes() >= need.short_bytes) return;
    need = {memory.short_bytes(), memory.host_binds()};
  };
  // Recomputing all layers needs the least as a rule, and nothing less than enough is of interest.
  if (!options_.only_options) {
    model::Recompute block;
    block.granularity = model::Recompute::Granularity::kFull;
    block.method = model::Recompute::Method::kBlock;
    block.num_layers = chunk.layers;
    consider(block);
  }
  for (const model::Recompute& recompute : options_.options) {
    if (need.short_bytes == 0) break;
    consider(recompute);
  }
  return need;
}

bool Fitting::Hopeless(const std::vector<Mesh*>& meshes, const Candidate& candidate,
                       double most_bytes) {
  // A stage cannot hold more of the longest run of equal layers than it can of them alone, with
  // one micro-batch in flight.
  const model::TransformerSpec& model = request_.problem.model;
  int64_t covered = 0;
  for (size_t pool = 0; pool < meshes.size(); ++pool) {
    if (candidate.pool_units[pool] == 0) continue;
    // The whole model in one stage has no communicators of a pipeline.
    const plan::Chunk whole = ChunkOf(model, 0, model.layers);
    if (NeedOf(*meshes[pool], whole, 1).short_bytes <= most_bytes) return false;
    int64_t fits = 0;
    int64_t fails = run_layers_ + 1;
    while (fails - fits > 1) {
      plan::Chunk chunk;
      chunk.first_layer = run_first_;
      chunk.layers = (fits + fails) / 2;
      (NeedOf(*meshes[pool], chunk, 1).short_bytes <= most_bytes ? fits : fails) = chunk.layers;
    }
    covered += fits * candidate.pool_units[pool];
    if (covered >= run_layers_) return false;
  }
  return true;
}

// The dynamic program over runs of stages: the most layers that each can cover.
class Fitting::Reach {
 public:
  // With `stages` exactly, or with any number of them where that is 0.
  Reach(Fitting& fitting, const std::vector<Mesh*>& meshes, const Candidate& candidate,
        int64_t stages, double most_bytes)
      : fitting_(fitting),
        meshes_(meshes),
        candidate_(candidate),
        model_(fitting.request_.problem.model),
        stages_(stages),
        most_stages_(stages > 0 ? stages : std::min(candidate.max_stages(), model_.layers)),
        most_bytes_(most_bytes),
        firsts_(meshes.size() * static_cast<size_t>(most_stages_ * (model_.layers + 1)), kUnknown) {
    placements_ = 1;
    for (const int64_t most : candidate.pool_units) {
      strides_.push_back(placements_);
      if (placements_ <= kMaxPlacements) placements_ *= most + 1;
    }
  }

  std::optional<TightStage> Run() {
    const size_t pools = meshes_.size();
    if (placements_ > kMaxPlacements) return std::nullopt;
    states_.assign(static_cast<size_t>(placements_) * pools, State());
    std::vector<int64_t> used(pools, 0);
    for (int64_t placement = 1; placement < placements_; ++placement) {
      for (size_t pool = 0; ++used[pool] > candidate_.pool_units[pool]; ++pool) used[pool] = 0;
      const int64_t total = std::accumulate(used.begin(), used.end(), int64_t{0});
      if (total > most_stages_) continue;
      for (size_t pool = 0; pool < pools; ++pool) {
        if (used[pool] == 0) continue;
        State& state = states_[static_cast<size_t>(placement) * pools + pool];
        Extend(placement, used, total, pool, state);
        if (state.covered == model_.layers && (stages_ == 0 || total == stages_)) {
          return TightestOf(placement, total, pool);
        }
      }
    }
    return std::nullopt;
  }

 private:
  static constexpr int16_t kUnknown = -1;

  struct State {
    int32_t covered = 0;  // Layers; 0: no such run.
    int32_t behind = -1;  // Pool of the stage behind the front one; -1: none.
  };

  // Adds a stage of `pool` in front of all runs that use one less of it.
  void Extend(int64_t placement, const std::vector<int64_t>& used, int64_t total, size_t pool,
              State& state) {
    const size_t pools = meshes_.size();
    // Each stage that is still to come holds a layer.
    const int64_t most = model_.layers - (stages_ > 0 ? stages_ - total : 0);
    if (total == 1) {
      state.covered = static_cast<int32_t>(Cover(pool, model_.layers, total, most));
      return;
    }
    const size_t before = static_cast<size_t>(placement - strides_[pool]) * pools;
    for (size_t behind = 0; behind < pools; ++behind) {
      const State& suffix = states_[before + behind];
      if (suffix.covered == 0 || suffix.covered >= most) continue;
      if (behind != pool && !FillsNodes(behind, used[behind])) continue;
      const int64_t covered = Cover(pool, model_.layers - suffix.covered, total, most);
      if (covered > state.covered) {
        state = {static_cast<int32_t>(covered), static_cast<int32_t>(behind)};
      }
    }
  }

  // Where the pipeline leaves a pool it has filled whole nodes.
  bool FillsNodes(size_t pool, int64_t stages) const {
    return stages * candidate_.unit_ranks %
               fitting_.request_.problem.cluster.pools[pool].accelerators_per_node ==
           0;
  }

  double Short(size_t pool, int64_t first, int64_t last, int64_t stages) const {
    return fitting_
        .NeedOf(*meshes_[pool], ChunkOf(model_, first, last),
                std::min(stages, candidate_.micro_batches))
        .short_bytes;
  }

  // Layers covered when a stage of the pool, the `stages`-th from the end, ends at `last` and takes
  // what it can, at most `most`; 0 where it cannot take one.
  int64_t Cover(size_t pool, int64_t last, int64_t stages, int64_t most) {
    int16_t& known =
        firsts_[(pool * static_cast<size_t>(most_stages_) + static_cast<size_t>(stages - 1)) *
                    static_cast<size_t>(model_.layers + 1) +
                static_cast<size_t>(last)];
    if (known == kUnknown) {
      int64_t fits = last;
      int64_t fails = -1;
      if (last == model_.layers) {
        // All layers in one stage need no communicators of a pipeline, so that they may fit where a
        // part of them does not.
        if (stages_ <= 1 && Short(pool, 0, last, stages) <= most_bytes_) fits = 0;
        fails = fits == 0 ? -1 : 0;
      }
      while (fits - fails > 1) {
        const int64_t first = (fits + fails) / 2;
        (Short(pool, first, last, stages) <= most_bytes_ ? fits : fails) = first;
      }
      known = static_cast<int16_t>(fits);
    }
    return known == last ? 0 : std::min(model_.layers - known, most);
  }

  TightStage TightestOf(int64_t placement, int64_t total, size_t pool) const {
    const size_t pools = meshes_.size();
    TightStage tightest;
    tightest.stages = total;
    tightest.short_bytes = -1;
    // From the front, which is the total-th from the end.
    for (int64_t left = total; left > 0; --left) {
      const State& state = states_[static_cast<size_t>(placement) * pools + pool];
      placement -= strides_[pool];
      const int64_t behind =
          state.behind < 0
              ? 0
              : states_[static_cast<size_t>(placement) * pools + static_cast<size_t>(state.behind)]
                    .covered;
      const Mesh::Need need = fitting_.NeedOf(
          *meshes_[pool], ChunkOf(model_, model_.layers - state.covered, model_.layers - behind),
          std::min(left, candidate_.micro_batches));
      if (need.short_bytes > tightest.short_bytes) {
        tightest.short_bytes = need.short_bytes;
        tightest.stage = total - left;
        tightest.pool = static_cast<int64_t>(pool);
        tightest.host_binds = need.host_binds;
      }
      pool = static_cast<size_t>(std::max(state.behind, 0));
    }
    return tightest;
  }

  Fitting& fitting_;
  const std::vector<Mesh*>& meshes_;
  const Candidate& candidate_;
  const model::TransformerSpec& model_;
  const int64_t stages_;
  const int64_t most_stages_;
  const double most_bytes_;
  int64_t placements_ = 0;
  std::vector<int64_t> strides_;
  std::vector<int16_t> firsts_;  // [pool][stages - 1][last]: first layer of the longest stage.
  std::vector<State> states_;    // [placement][pool of the front stage]
};

std::optional<TightStage> Fitting::Find(const Candidate& candidate, const Constraints& constraints,
                                        double most_bytes) {
  // Virtual stages hold no fewer micro-batches in flight, so they fit nothing that does not fit
  // without them; stages with degrees of their own are not told apart.
  if (candidate.virtual_stages > 1 || candidate.degrees_per_mesh) return std::nullopt;
  // It fits where any other does, and the space holds it too.
  if (!UsesLeastDispatcher(candidate)) return std::nullopt;
  std::vector<Mesh*> meshes;
  // References into a hash map do not survive an insertion; pointers are taken when all are there.
  for (size_t pool = 0; pool < candidate.pool_units.size(); ++pool) {
    MeshOf(static_cast<int64_t>(pool), candidate);
  }
  for (size_t pool = 0; pool < candidate.pool_units.size(); ++pool) {
    meshes.push_back(&MeshOf(static_cast<int64_t>(pool), candidate));
  }
  if (Hopeless(meshes, candidate, most_bytes)) return std::nullopt;
  const int64_t most = std::min(candidate.max_stages(), request_.problem.model.layers);
  if (!constraints.allow_idle_accelerators) {
    if (candidate.max_stages() > most || !StagesAllowed(constraints, most)) return std::nullopt;
    return Reach(*this, meshes, candidate, most, most_bytes).Run();
  }
  if (constraints.pp.empty()) return Reach(*this, meshes, candidate, 0, most_bytes).Run();
  for (const int64_t stages : constraints.pp) {
    if (stages > most) continue;
    const auto found = Reach(*this, meshes, candidate, stages, most_bytes).Run();
    if (found.has_value()) return found;
  }
  return std::nullopt;
}

bool Fitting::Within(const Candidate& candidate, const Constraints& constraints,
                     double most_bytes) {
  return Find(candidate, constraints, most_bytes).has_value();
}

std::optional<TightStage> Fitting::Tightest(const Candidate& candidate,
                                            const Constraints& constraints, double most_bytes) {
  std::optional<TightStage> best = Find(candidate, constraints, most_bytes);
  if (!best.has_value() || best->short_bytes == 0) return best;
  std::optional<TightStage> better = Find(candidate, constraints, 0);
  double fails = 0;
  for (;;) {
    if (better.has_value()) best = better;
    if (best->short_bytes <= std::max(1.0, fails * (1 + 1e-6))) return best;
    const double middle = (fails + best->short_bytes) / 2;
    better = Find(candidate, constraints, middle);
    if (!better.has_value()) fails = middle;
  }
}

}  // namespace hapmoe::search
