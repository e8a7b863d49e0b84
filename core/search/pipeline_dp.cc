#include "core/search/pipeline_dp.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "core/search/bound.h"

namespace hapmoe::search {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int32_t kNoParent = -1;

// Every count of stages used of each pool, at most max_total of them together, fewest first. Number
// 0 uses none.
class UsedStages {
 public:
  static constexpr int32_t kNone = -1;

  // Stops at max_size: see complete().
  UsedStages(const std::vector<int64_t>& limits, int64_t max_total, int64_t max_size)
      : pools_(limits.size()) {
    Add(std::vector<int64_t>(pools_, 0));
    // Every vector is made once, from the one with a stage less of its last pool in use.
    for (size_t from = 0; from < totals_.size(); ++from) {
      if (totals_[from] == max_total) break;
      if (static_cast<int64_t>(totals_.size()) > max_size) {
        complete_ = false;
        return;
      }
      std::vector<int64_t> counts = Counts(from);
      size_t last = pools_;
      while (last > 0 && counts[last - 1] == 0) --last;
      for (size_t pool = last == 0 ? 0 : last - 1; pool < pools_; ++pool) {
        if (counts[pool] == limits[pool]) continue;
        ++counts[pool];
        Add(counts);
        --counts[pool];
      }
    }
    without_.resize(totals_.size() * pools_, kNone);
    for (size_t index = 0; index < totals_.size(); ++index) {
      std::vector<int64_t> counts = Counts(index);
      for (size_t pool = 0; pool < pools_; ++pool) {
        if (counts[pool] == 0) continue;
        --counts[pool];
        without_[index * pools_ + pool] = numbers_.at(counts);
        ++counts[pool];
      }
    }
    numbers_.clear();
  }

  bool complete() const { return complete_; }
  size_t size() const { return totals_.size(); }
  int64_t Of(size_t index, size_t pool) const { return counts_[index * pools_ + pool]; }
  int64_t Total(size_t index) const { return totals_[index]; }
  // The number with one stage of a pool less, or kNone.
  int32_t Without(size_t index, size_t pool) const { return without_[index * pools_ + pool]; }

 private:
  std::vector<int64_t> Counts(size_t index) const {
    const auto begin = counts_.begin() + static_cast<std::ptrdiff_t>(index * pools_);
    return {begin, begin + static_cast<std::ptrdiff_t>(pools_)};
  }
  void Add(const std::vector<int64_t>& counts) {
    numbers_.emplace(counts, static_cast<int32_t>(totals_.size()));
    counts_.insert(counts_.end(), counts.begin(), counts.end());
    totals_.push_back(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
  }

  const size_t pools_;
  bool complete_ = true;
  std::vector<int64_t> counts_;
  std::vector<int64_t> totals_;
  std::vector<int32_t> without_;
  absl::flat_hash_map<std::vector<int64_t>, int32_t> numbers_;  // While it is built.
};

int64_t MaxPlacements(const Candidate& candidate, int64_t layers) {
  return kMaxCells / (static_cast<int64_t>(candidate.pool_stages.size()) * (layers + 1));
}

// A run of stages that ends the pipeline.
struct Label {
  SuffixBound bound;
  int32_t parent = kNoParent;  // The run behind the front stage.
  int32_t pool = 0;            // Of the front stage.
  int64_t first = 0;           // Layers of the front stage: [first, last).
  int64_t last = 0;
};

class Program {
 public:
  Program(const PipelineProblem& problem, double limit_seconds, const Interrupter* interrupter)
      : problem_(problem),
        candidate_(*problem.candidate),
        limit_(limit_seconds),
        interrupter_(interrupter),
        layers_(problem.problem->model.layers),
        pools_(candidate_.pool_stages.size()),
        max_stages_(std::min(candidate_.max_stages(), layers_)),
        used_(candidate_.pool_stages, max_stages_, MaxPlacements(candidate_, layers_)) {
    blocks_.resize(used_.size() * pools_);
    fastest_layer_ =
        *std::min_element(problem.layer_seconds->begin(), problem.layer_seconds->end());
    // What the stage in front, not known yet, receives back costs at least this.
    least_send_.assign(pools_, kInfinity);
    for (size_t to = 0; to < pools_; ++to) {
      for (size_t from = 0; from < pools_; ++from) {
        least_send_[to] = std::min(least_send_[to], Send(from, to));
      }
    }
  }

  PipelineResult Solve() {
    PipelineResult result;
    if (!used_.complete()) {
      result.too_large = true;
      return result;
    }
    for (size_t used = 1; used < used_.size(); ++used) {
      const double rate = LeftRate(used);
      for (size_t pool = 0; pool < pools_; ++pool) {
        if (used_.Without(used, pool) == UsedStages::kNone || !Follows(used, pool)) continue;
        if (interrupter_ != nullptr && interrupter_->tripped()) {
          result.interrupted = true;
          return result;
        }
        Block& block = blocks_[used * pools_ + pool];
        block.first_cell = static_cast<int64_t>(cells_.size());
        cells_.resize(cells_.size() + static_cast<size_t>(layers_ + 1));
        for (int64_t covered = used_.Total(used); covered <= layers_; ++covered) {
          if (Reachable(used, covered)) Fill(used, pool, covered, rate);
        }
      }
    }
    result.labels = static_cast<int64_t>(arena_.size());
    std::stable_sort(finals_.begin(), finals_.end(),
                     [](const Final& a, const Final& b) { return a.seconds < b.seconds; });
    const size_t keep =
        std::min(finals_.size(), static_cast<size_t>(problem_.constraints->max_finalists));
    for (size_t i = 0; i < keep; ++i) {
      result.plans.push_back({finals_[i].seconds, Reconstruct(finals_[i].label)});
    }
    return result;
  }

 private:
  struct Cell {
    int32_t begin = 0;
    int32_t end = 0;
  };
  struct Final {
    double seconds = 0;
    Label label;
  };

  // The cells of one count of used stages and one pool of the front stage: one for each number of
  // layers covered.
  struct Block {
    int64_t first_cell = 0;
    int64_t least_covered = 1;  // Of the cells that hold labels.
    int64_t most_covered = 0;
  };

  // Whether any label leads to this block.
  bool Follows(size_t used, size_t pool) const {
    const size_t before = static_cast<size_t>(used_.Without(used, pool));
    if (before == 0) return true;
    for (size_t next = 0; next < pools_; ++next) {
      const Block& block = blocks_[before * pools_ + next];
      if (block.least_covered <= block.most_covered) return true;
    }
    return false;
  }

  double Send(size_t from, size_t to) const { return (*problem_.send_seconds)[from][to]; }
  bool MayIdle() const { return problem_.constraints->allow_idle_accelerators; }

  // Whether stages and layers that are left can still be matched.
  bool Reachable(size_t used, int64_t covered) const {
    const int64_t left = layers_ - covered;
    const int64_t stages_left = candidate_.max_stages() - used_.Total(used);
    if (left == 0) {
      return StagesAllowed(*problem_.constraints, used_.Total(used)) &&
             (MayIdle() || stages_left == 0);
    }
    return stages_left > 0 && (MayIdle() || stages_left <= left);
  }

  // A pipeline that leaves a pool has filled whole nodes of it.
  bool LeavesFullNodes(size_t used, size_t pool) const {
    const int64_t ranks = used_.Of(used, pool) * candidate_.degrees.stage_ranks();
    return ranks % problem_.problem->cluster.pools[pool].accelerators_per_node == 0;
  }

  // Layers a second that the stages left can do together.
  double LeftRate(size_t used) const {
    double rate = 0;
    for (size_t pool = 0; pool < pools_; ++pool) {
      const int64_t left = candidate_.pool_stages[pool] - used_.Of(used, pool);
      rate += static_cast<double>(left) / (*problem_.layer_seconds)[pool];
    }
    return rate;
  }

  // Collects the labels of one cell from all cells that one stage leads from.
  void Fill(size_t used, size_t pool, int64_t covered, double left_rate) {
    scratch_.clear();
    const size_t before = static_cast<size_t>(used_.Without(used, pool));
    const int64_t first = layers_ - covered;
    if (before == 0) {
      Add(pool, first, layers_, SuffixBound{}, kNoParent, 0, 1, left_rate);
    } else {
      const int64_t in_flight = std::min(used_.Total(used), candidate_.micro_batches);
      for (size_t next = 0; next < pools_; ++next) {
        if (next != pool && !LeavesFullNodes(before, next)) continue;
        const Block& block = blocks_[before * pools_ + next];
        const int64_t most = std::min(block.most_covered, covered - 1);
        for (int64_t behind = block.least_covered; behind <= most; ++behind) {
          const Cell& cell = cells_[static_cast<size_t>(block.first_cell + behind)];
          for (int32_t label = cell.begin; label < cell.end; ++label) {
            Add(pool, first, layers_ - behind, arena_[static_cast<size_t>(label)].bound, label,
                Send(pool, next), in_flight, left_rate);
          }
        }
      }
    }
    Keep(blocks_[used * pools_ + pool], covered);
  }

  void Add(size_t pool, int64_t first, int64_t last, const SuffixBound& suffix, int32_t parent,
           double send, int64_t in_flight, double left_rate) {
    const StageChoice& choice = (*problem_.choices)[pool]->Best(first, last, in_flight);
    if (!choice.fits) return;
    const bool front = first == 0;
    const double forward = choice.forward_seconds + send;
    const double backward = choice.backward_seconds + (front ? 0 : least_send_[pool]);
    Label label;
    label.bound = Extend(suffix, {forward, backward, choice.sync_seconds, choice.step_seconds},
                         candidate_.micro_batches, in_flight);
    label.parent = parent;
    label.pool = static_cast<int32_t>(pool);
    label.first = first;
    label.last = last;
    if (front) {
      const double seconds = label.bound.seconds();
      if (seconds < limit_) finals_.push_back({seconds, label});
      return;
    }
    const double left = static_cast<double>(first);
    const double count = static_cast<double>(candidate_.micro_batches);
    if (label.bound.passes + left * fastest_layer_ >= limit_) return;
    if (count * left >= limit_ * left_rate) return;
    scratch_.push_back(label);
  }

  // Moves the labels that no other one beats in everything into the arena.
  void Keep(Block& block, int64_t covered) {
    if (scratch_.empty()) return;
    std::stable_sort(scratch_.begin(), scratch_.end(), [](const Label& a, const Label& b) {
      return std::tie(a.bound.round_trip, a.bound.passes, a.bound.ready, a.bound.step) <
             std::tie(b.bound.round_trip, b.bound.passes, b.bound.ready, b.bound.step);
    });
    Cell& cell = cells_[static_cast<size_t>(block.first_cell + covered)];
    cell.begin = static_cast<int32_t>(arena_.size());
    for (const Label& label : scratch_) {
      const auto beats = [&](const Label& kept) {
        return kept.bound.passes <= label.bound.passes && kept.bound.ready <= label.bound.ready &&
               kept.bound.step <= label.bound.step;
      };
      if (std::none_of(arena_.begin() + cell.begin, arena_.end(), beats)) arena_.push_back(label);
    }
    cell.end = static_cast<int32_t>(arena_.size());
    if (block.least_covered > block.most_covered) block.least_covered = covered;
    block.most_covered = covered;
  }

  plan::Plan Reconstruct(Label label) const {
    plan::Plan plan = EmptyPlan(candidate_);
    int64_t behind = 0;
    for (int32_t next = label.parent; next != kNoParent;
         next = arena_[static_cast<size_t>(next)].parent) {
      ++behind;
    }
    for (;;) {
      const int64_t in_flight = std::min(behind + 1, candidate_.micro_batches);
      plan::Stage stage;
      stage.chunks = {ChunkOf(problem_.problem->model, label.first, label.last)};
      stage.recompute = (*problem_.choices)[static_cast<size_t>(label.pool)]
                            ->Best(label.first, label.last, in_flight)
                            .recompute;
      AddStage(plan, candidate_, label.pool, std::move(stage));
      if (label.parent == kNoParent) return plan;
      label = arena_[static_cast<size_t>(label.parent)];
      --behind;
    }
  }

  const PipelineProblem& problem_;
  const Candidate& candidate_;
  const double limit_;
  const Interrupter* interrupter_;
  const int64_t layers_;
  const size_t pools_;
  const int64_t max_stages_;
  const UsedStages used_;
  std::vector<Block> blocks_;
  std::vector<Cell> cells_;
  std::vector<Label> arena_;
  std::vector<Label> scratch_;
  std::vector<Final> finals_;
  std::vector<double> least_send_;
  double fastest_layer_ = 0;
};

}  // namespace

PipelineResult SolvePipelines(const PipelineProblem& problem, double limit_seconds,
                              const Interrupter& interrupter) {
  return Program(problem, limit_seconds, &interrupter).Solve();
}

Shortage LeastShortage(const PipelineProblem& problem) {
  const Candidate& candidate = *problem.candidate;
  const model::TransformerSpec& model = problem.problem->model;
  const int64_t layers = model.layers;
  const size_t pools = candidate.pool_stages.size();
  const bool may_idle = problem.constraints->allow_idle_accelerators;
  const int64_t max_stages = std::min(candidate.max_stages(), layers);
  Shortage least;
  least.bytes = kInfinity;
  const UsedStages used(candidate.pool_stages, max_stages, MaxPlacements(candidate, layers));
  if (!used.complete()) return least;
  // As above with another objective: the shortage of the fullest stage, the smaller the better.
  struct State {
    double bytes = kInfinity;
    int64_t stage_from_end = 0;
    int64_t pool = 0;
    model::Recompute recompute;
    bool host_binds = false;
  };
  const size_t width = static_cast<size_t>(layers + 1);
  std::vector<State> states(used.size() * width);
  states[0].bytes = 0;
  for (size_t index = 1; index < used.size(); ++index) {
    const int64_t total = used.Total(index);
    for (int64_t covered = total; covered <= layers; ++covered) {
      State& state = states[index * width + static_cast<size_t>(covered)];
      const int64_t first = layers - covered;
      for (size_t pool = 0; pool < pools; ++pool) {
        if (used.Of(index, pool) == 0) continue;
        const size_t before = static_cast<size_t>(used.Without(index, pool));
        for (int64_t stage_layers = 1; stage_layers <= covered; ++stage_layers) {
          const State& suffix =
              states[before * width + static_cast<size_t>(covered - stage_layers)];
          if (suffix.bytes >= state.bytes) continue;
          const StageChoice& choice = (*problem.choices)[pool]->Best(
              first, first + stage_layers, std::min(total, candidate.micro_batches));
          const double own = choice.fits ? 0 : choice.short_bytes;
          if (own <= suffix.bytes) {
            state = suffix;
          } else if (own < state.bytes) {
            state = {own, total - 1, static_cast<int64_t>(pool), choice.recompute,
                     choice.host_binds};
          }
        }
      }
      const bool complete = covered == layers && StagesAllowed(*problem.constraints, total) &&
                            (may_idle || total == candidate.max_stages());
      if (complete && state.bytes < least.bytes) {
        least = {state.bytes,     total - 1 - state.stage_from_end,
                 total,           state.pool,
                 state.recompute, state.host_binds};
      }
    }
  }
  return least;
}

}  // namespace hapmoe::search
