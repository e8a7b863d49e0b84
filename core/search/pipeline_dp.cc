#include "core/search/pipeline_dp.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <tuple>
#include <utility>

#include "core/base/block_vector.h"
#include "core/search/bound.h"
#include "core/search/paper_prunings.h"
#include "core/search/stage_kinds.h"
#include "core/search/stages_to_come.h"

namespace hapmoe::search {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int32_t kNoParent = -1;

// A run of stages that ends the pipeline.
struct Label {
  SuffixBound bound;
  int32_t parent = kNoParent;  // The run behind the front stage.
  int32_t kind = 0;            // Of the front stage.
  // Of the layers, counted as if ranks held consecutive ones, the front stage's are [first, last).
  int32_t first = 0;
  int32_t last = 0;
  // Virtual stages only.
  int32_t offset = 0;     // InterleavedStage::offset.
  int32_t chunk = 0;      // Layers of each chunk, but for the last one of the pipeline.
  double last_chunk = 0;  // Seconds of both passes of the last one of the pipeline.

  // Layers of a rank's chunk of so many.
  int64_t ChunkLayers(int64_t number, int64_t chunks) const {
    return number + 1 < chunks ? chunk : last - first - chunk * (chunks - 1);
  }
};

class Program {
 public:
  Program(const PipelineProblem& problem, double limit_seconds, Sweep sweep,
          const Interrupter& interrupter)
      : problem_(problem),
        candidate_(*problem.candidate),
        ports_(*problem.ports),
        limit_(limit_seconds),
        sweep_(sweep),
        interrupter_(interrupter),
        layers_(problem.problem->model.layers),
        micro_batches_(candidate_.micro_batches),
        virtual_stages_(candidate_.virtual_stages),
        leading_(virtual_stages_ > 1 ? LeadingDenseLayers(problem.problem->model).value_or(0) : 0),
        width_(layers_ + 1),
        sends_(*problem.sends),
        prunings_(problem),
        to_come_(problem, limit_seconds),
        kinds_(problem, sweep),
        charge_(problem.memory) {}

  PipelineResult Solve() {
    PipelineResult result;
    if (to_come_.BeyondCapacity()) {
      result.beyond_capacity = true;
      return result;
    }
    for (const bool contiguous : {false, true}) {
      result.contiguous = contiguous;
      result.too_large = !Fill(contiguous);
      if (!result.too_large || sweep_ == Sweep::kAll || interrupter_.tripped()) break;
    }
    if (interrupter_.tripped()) {
      result.interrupted = true;
      return result;
    }
    if (result.too_large) return result;
    result.labels = static_cast<int64_t>(arena_.size());
    // Sorting takes a copy of one half.
    const auto half = static_cast<int64_t>((finals_.size() + 1) / 2 * sizeof(Final));
    if (!charge_.Add(half)) {
      result.interrupted = true;
      return result;
    }
    std::stable_sort(finals_.begin(), finals_.end(),
                     [](const Final& a, const Final& b) { return a.seconds < b.seconds; });
    charge_.Subtract(half);
    size_t keep = finals_.size();
    if (sweep_ == Sweep::kBest) {
      keep = std::min(keep, static_cast<size_t>(problem_.constraints->max_finalists));
    }
    result.charge = MemoryCharge(problem_.memory);
    for (size_t i = 0; i < keep && !result.interrupted; ++i) {
      if (interrupter_.tripped()) {
        result.interrupted = true;
        break;
      }
      BoundedPlan plan = {finals_[i].seconds, Reconstruct(finals_[i].label)};
      if (result.charge.Add(BytesOf(plan.plan)) &&
          result.charge.Reserve(result.plans, result.plans.size() + 1)) {
        result.plans.push_back(std::move(plan));
      } else {
        result.interrupted = true;
      }
    }
    return result;
  }

 private:
  // Of what a plan holds elsewhere.
  int64_t BytesOf(const plan::Plan& plan) const {
    const int64_t stages = plan.pipeline_stages();
    return static_cast<int64_t>(plan.meshes.capacity() * sizeof(plan::Mesh)) +
           stages * (static_cast<int64_t>(sizeof(plan::Stage)) +
                     virtual_stages_ * static_cast<int64_t>(sizeof(plan::Chunk)));
  }

  // Finds all labels; false where there are too many states, cells or labels.
  bool Fill(bool contiguous) {
    contiguous_ = contiguous;
    cells_.clear();
    arena_.Clear();
    finals_.clear();
    UsedUnits::Limits limits;
    limits.pool_units.assign(candidate_.pool_units.begin(), candidate_.pool_units.end());
    limits.max_stages =
        candidate_.stages > 0 ? candidate_.stages : std::min(candidate_.max_stages(), layers_);
    limits.max_states = kMaxStates;
    limits.contiguous = contiguous;
    limits.memory = problem_.memory;
    used_ = std::make_unique<UsedUnits>(ports_, limits, interrupter_);
    if (!used_->complete()) return false;
    const size_t blocks = used_->size() * sends_.classes();
    if (!charge_.Reserve(blocks_, blocks)) return false;
    blocks_.assign(blocks, Block{});
    for (size_t state = 1; state < used_->size(); ++state) {
      if (to_come_.Stages(*used_, state) < 0) continue;
      bool bounded = false;  // What is to come depends on the state alone.
      for (size_t port = 0; port < ports_.size(); ++port) {
        if (interrupter_.tripped()) return true;
        if (!Follows(state, port)) continue;
        if (!bounded) {
          front_layers_ = to_come_.Layers(*used_, state);
          front_seconds_ = to_come_.Seconds(*used_, state);
          bounded = true;
        }
        FillBlocks(state, port);
        if (static_cast<int64_t>(arena_.size()) > kMaxLabels) return false;
        if (static_cast<int64_t>(cells_.size()) > kMaxCells) return false;
      }
    }
    return true;
  }

  struct Cell {
    int32_t begin = 0;
    int32_t end = 0;
  };
  struct Final {
    double seconds = 0;
    Label label;
  };

  // The cells of one state, one port of the front stage and one class of stages before it: one for
  // each offset and number of layers covered.
  struct Block {
    int64_t first_cell = 0;
    int64_t least_covered = 1;  // Of the cells that hold labels.
    int64_t most_covered = 0;
    bool empty() const { return least_covered > most_covered; }
  };

  bool MayIdle() const { return problem_.constraints->allow_idle_accelerators; }
  bool Fixed() const { return candidate_.stages > 0; }

  Block& BlockOf(size_t state, size_t port, size_t number) {
    return blocks_[state * sends_.classes() + sends_.FirstClass(port) + number];
  }
  Cell& CellOf(const Block& block, int64_t offset, int64_t covered) {
    return cells_[static_cast<size_t>(block.first_cell + offset * width_ + covered)];
  }

  // A pipeline that leaves a pool has filled whole nodes of it.
  bool LeavesFullNodes(size_t state, size_t pool) const {
    const int64_t ranks = used_->Of(state, pool) * candidate_.unit_ranks;
    return ranks % problem_.problem->cluster.pools[pool].accelerators_per_node == 0;
  }

  // Seconds to the first stage, of port `next`, of the run `behind`.
  double SendBetween(size_t port, size_t next, size_t behind) const {
    return sends_.Between(port, next, used_->Of(behind, PoolOf(next)));
  }
  size_t PoolOf(size_t port) const { return static_cast<size_t>(ports_[port].pool); }

  // Whether a stage of `port` may stand in front of one of `next`, which the run `behind` starts
  // with.
  bool MayPrecede(size_t port, size_t next, size_t behind) const {
    const size_t pool = PoolOf(port);
    const size_t left = PoolOf(next);
    if (pool == left) return true;
    if (!LeavesFullNodes(behind, left) ||
        SendBetween(port, next, behind) > prunings_.longest_send_seconds) {
      return false;
    }
    return !contiguous_ ||
           (used_->Of(behind, pool) == 0 && used_->Of(behind, left) == candidate_.pool_units[left]);
  }

  // Whether any label leads to this block.
  bool Follows(size_t state, size_t port) {
    if (used_->Without(state, port) == UsedUnits::kNone) return false;
    const size_t before = static_cast<size_t>(used_->Without(state, port));
    if (before == 0) return true;
    for (size_t next = 0; next < ports_.size(); ++next) {
      if (!BlockOf(before, next, sends_.ClassBefore(next, port)).empty()) return true;
    }
    return false;
  }

  bool Completes(size_t state) const {
    if (Fixed() && used_->stages(state) != candidate_.stages) return false;
    return StagesAllowed(*problem_.constraints, used_->stages(state)) &&
           (MayIdle() || used_->units(state) == candidate_.units());
  }

  void FillBlocks(size_t state, size_t port) {
    const size_t numbers = sends_.ClassesOf(port);
    scratch_.resize(std::max(scratch_.size(), numbers));
    back_sends_.clear();
    for (size_t number = 0; number < numbers; ++number) {
      back_sends_.push_back(sends_.Back(port, number, used_->Of(state, PoolOf(port))));
    }
    const int64_t stages = used_->stages(state);
    const int64_t left_stages = to_come_.Stages(*used_, state);
    const int64_t least = std::max(
        stages * virtual_stages_,
        static_cast<int64_t>(std::ceil(static_cast<double>(layers_) - front_layers_ - 1e-9)));
    const bool completes = Completes(state);
    const int64_t most = completes && (MayIdle() || left_stages == 0)
                             ? layers_
                             : layers_ - std::max<int64_t>(1, left_stages) * virtual_stages_;
    for (int64_t covered = least; covered <= most && !interrupter_.tripped(); ++covered) {
      const bool front = covered == layers_;
      if (front && !completes) continue;
      if (!front && left_stages == 0 && !MayIdle()) continue;
      for (int64_t offset = 0; offset <= leading_; ++offset) {
        if (leading_ > 0 && (offset == 0) != front) continue;
        Collect(state, port, covered, offset);
        for (size_t number = 0; number < numbers; ++number) {
          Keep(BlockOf(state, port, number), covered, offset, scratch_[number]);
        }
      }
    }
  }

  // Gathers the labels of one cell, of each class, from all cells that one stage leads from.
  void Collect(size_t state, size_t port, int64_t covered, int64_t offset) {
    for (std::vector<Label>& labels : scratch_) labels.clear();
    const size_t before = static_cast<size_t>(used_->Without(state, port));
    const int64_t most_layers = std::min(
        {covered, to_come_.caps().Of(port, used_->stages(state) - 1), prunings_.most_layers[port]});
    const int64_t least_layers = std::max(virtual_stages_, prunings_.least_layers[port]);
    if (before == 0) {
      if (covered > most_layers || covered < least_layers) return;
      // With virtual stages the last chunk may hold fewer layers than the others of the last rank.
      const int64_t least = (covered + virtual_stages_ - 1) / virtual_stages_;
      for (int64_t chunk = least; chunk * (virtual_stages_ - 1) < covered; ++chunk) {
        if (offset + chunk < leading_) continue;
        Add(state, port, 0, covered, covered, chunk, offset, Label{}, kNoParent);
        if (virtual_stages_ == 1) break;
      }
      return;
    }
    for (size_t next = 0; next < ports_.size(); ++next) {
      if (!MayPrecede(port, next, before)) continue;
      const Block& block = BlockOf(before, next, sends_.ClassBefore(next, port));
      if (block.empty()) continue;
      const double send = SendBetween(port, next, before);
      const int64_t least = std::max(block.least_covered, covered - most_layers);
      const int64_t most = std::min(block.most_covered, covered - least_layers);
      for (int64_t behind = least; behind <= most; ++behind) {
        const int64_t layers = covered - behind;
        if (layers % virtual_stages_ != 0) continue;
        const int64_t chunk = layers / virtual_stages_;
        const int64_t after = std::min(leading_, offset + chunk);
        const Cell& cell = CellOf(block, after, behind);
        for (int32_t label = cell.begin; label < cell.end; ++label) {
          Add(state, port, send, covered, layers, chunk, offset, arena_[static_cast<size_t>(label)],
              label);
        }
      }
    }
  }

  // Adds a stage of each kind of the port that may stand there. `send`: seconds to the one behind.
  void Add(size_t state, size_t port, double send, int64_t covered, int64_t layers, int64_t chunk,
           int64_t offset, const Label& suffix, int32_t parent) {
    const bool front = covered == layers_;
    const bool last = parent == kNoParent;
    Label label;
    label.parent = parent;
    label.first = static_cast<int32_t>(layers_ - covered);
    label.last = label.first + static_cast<int32_t>(layers);
    label.offset = static_cast<int32_t>(offset);
    label.chunk = static_cast<int32_t>(chunk);
    const PipelinePlace place = {
        .first = label.first,
        .last = label.last,
        .in_flight = std::min(used_->stages(state), micro_batches_),
        .units_behind = used_->Of(state, PoolOf(port)) - ports_[port].units,
        .starts = front,
        .ends = last};
    for (const size_t number : kinds_.At(port, place)) {
      label.kind = static_cast<int32_t>(number);
      const StageChoice& choice = ChoiceOf(label, used_->stages(state) - 1, place.units_behind);
      if (!choice.fits) continue;
      label.last_chunk = last ? choice.last_chunk_seconds : suffix.last_chunk;
      if (front) {
        label.bound = Extended(suffix, choice, send, 0, port, front, last, state);
        const double seconds = label.bound.seconds();
        if (seconds < limit_ && charge_.Reserve(finals_, finals_.size() + 1)) {
          finals_.push_back({seconds, label});
        }
        continue;
      }
      for (size_t i = 0; i < back_sends_.size(); ++i) {
        label.bound = Extended(suffix, choice, send, back_sends_[i], port, front, last, state);
        const double front_seconds = front_seconds_[static_cast<size_t>(label.first)];
        if (std::max(label.bound.passes + front_seconds, label.bound.seconds()) >= limit_) {
          continue;
        }
        if (charge_.Reserve(scratch_[i], scratch_[i].size() + 1)) scratch_[i].push_back(label);
      }
    }
  }

  // `behind`: stages. `units_behind`: of its pool.
  const StageChoice& ChoiceOf(const Label& label, int64_t behind, int64_t units_behind) const {
    StageChoices& choices = *(*problem_.choices)[static_cast<size_t>(label.kind)].At(units_behind);
    if (virtual_stages_ == 1) {
      return choices.Best(label.first, label.last, std::min(behind + 1, micro_batches_));
    }
    const InterleavedStage stage = {
        .chunk_layers = label.chunk,
        .last_chunk_layers = label.ChunkLayers(virtual_stages_ - 1, virtual_stages_),
        .offset = label.offset,
        .behind = behind,
        .front = label.first == 0};
    return choices.BestInterleaved(stage, candidate_.stages, virtual_stages_, micro_batches_);
  }

  SuffixBound Extended(const Label& suffix, const StageChoice& choice, double send,
                       double back_send, size_t port, bool front, bool last, size_t state) const {
    if (virtual_stages_ == 1) {
      return Extend(suffix.bound,
                    {choice.forward_seconds + send, choice.backward_seconds + back_send,
                     choice.sync_seconds, choice.step_seconds, back_send},
                    micro_batches_, std::min(used_->stages(state), micro_batches_));
    }
    InterleavedSeconds rank;
    rank.first_forward = choice.first_forward_seconds + send;
    rank.first_backward = choice.first_backward_seconds + back_send;
    rank.work = choice.forward_seconds + choice.backward_seconds;
    rank.slowest_pair = choice.slowest_pair_seconds;
    if (!problem_.problem->training.overlap.pipeline) {
      // From the last rank back to the first, whose port is not known, one chunk fewer.
      const double count = static_cast<double>(virtual_stages_);
      const double least = (count - 1) * sends_.LeastFromAny(port);
      const double most = sends_.MostFromAny(port);
      rank.work += (last ? least : count * send) + (front ? least : count * back_send);
      rank.slowest_pair += std::max(send, most) + std::max(back_send, most);
    }
    rank.sync = choice.sync_seconds;
    rank.step = choice.step_seconds;
    rank.last_send = back_send;
    rank.last_send_occupies = !problem_.problem->training.overlap.pipeline;
    return ExtendInterleaved(suffix.bound, rank, micro_batches_, candidate_.stages,
                             used_->stages(state) - 1, suffix.last_chunk);
  }

  // Moves labels into the arena, in Sweep::kBest only those that no other one beats in everything.
  void Keep(Block& block, int64_t covered, int64_t offset, std::vector<Label>& labels) {
    if (labels.empty()) return;
    if (block.empty()) {
      const size_t cells = cells_.size() + static_cast<size_t>(width_ * (leading_ + 1));
      if (!charge_.Reserve(cells_, cells)) return;
      block.first_cell = static_cast<int64_t>(cells_.size());
      cells_.resize(cells);
    }
    Cell& cell = CellOf(block, offset, covered);
    cell.begin = static_cast<int32_t>(arena_.size());
    if (sweep_ == Sweep::kAll) {
      for (const Label& label : labels) {
        if (!arena_.Add(label, charge_)) break;
      }
    } else {
      std::stable_sort(labels.begin(), labels.end(), [](const Label& a, const Label& b) {
        return std::tie(a.bound.round_trip, a.bound.passes, a.bound.ready, a.bound.step) <
               std::tie(b.bound.round_trip, b.bound.passes, b.bound.ready, b.bound.step);
      });
      for (const Label& label : labels) {
        const auto beaten_by = [&](const Label& kept) {
          return kept.last_chunk <= label.last_chunk && kept.bound.passes <= label.bound.passes &&
                 kept.bound.ready <= label.bound.ready && kept.bound.step <= label.bound.step;
        };
        size_t kept = static_cast<size_t>(cell.begin);
        while (kept < arena_.size() && !beaten_by(arena_[kept])) ++kept;
        if (kept == arena_.size() && !arena_.Add(label, charge_)) break;
      }
    }
    cell.end = static_cast<int32_t>(arena_.size());
    if (block.empty()) block.least_covered = covered;
    block.most_covered = covered;
  }

  plan::Plan Reconstruct(const Label& front) const {
    std::vector<Label> ranks = {front};
    while (ranks.back().parent != kNoParent) {
      ranks.push_back(arena_[static_cast<size_t>(ranks.back().parent)]);
    }
    std::vector<plan::Stage> stages(ranks.size());
    int64_t first = 0;
    for (int64_t chunk = 0; chunk < virtual_stages_; ++chunk) {
      for (size_t i = 0; i < ranks.size(); ++i) {
        const int64_t layers = ranks[i].ChunkLayers(chunk, virtual_stages_);
        stages[i].chunks.push_back(ChunkOf(problem_.problem->model, first, first + layers));
        first += layers;
      }
    }
    PoolUnits units_behind(candidate_.pool_units.size(), 0);
    for (size_t i = ranks.size(); i-- > 0;) {
      const StageKind& kind = candidate_.kinds[static_cast<size_t>(ranks[i].kind)];
      int64_t& units = units_behind[static_cast<size_t>(kind.pool)];
      stages[i].recompute =
          ChoiceOf(ranks[i], static_cast<int64_t>(ranks.size() - 1 - i), units).recompute;
      units += kind.units;
    }
    plan::Plan plan = EmptyPlan(*problem_.constraints, candidate_);
    for (size_t i = 0; i < ranks.size(); ++i) {
      AddStage(plan, candidate_.kinds[static_cast<size_t>(ranks[i].kind)], std::move(stages[i]));
    }
    return plan;
  }

  const PipelineProblem& problem_;
  const Candidate& candidate_;
  const std::vector<Port>& ports_;
  const double limit_;
  const Sweep sweep_;
  const Interrupter& interrupter_;
  const int64_t layers_;
  const int64_t micro_batches_;
  const int64_t virtual_stages_;
  const int64_t leading_;  // Leading dense layers, where they matter.
  const int64_t width_;
  const PortSends& sends_;
  const PaperPrunings prunings_;
  StagesToCome to_come_;
  StageKinds kinds_;
  bool contiguous_ = false;
  std::unique_ptr<UsedUnits> used_;
  // StagesToCome::Layers and Seconds of the state in hand.
  double front_layers_ = 0;
  std::vector<double> front_seconds_;
  std::vector<Block> blocks_;
  std::vector<Cell> cells_;
  BlockVector<Label> arena_;
  // Of the block in hand: [class].
  std::vector<double> back_sends_;
  std::vector<std::vector<Label>> scratch_;
  std::vector<Final> finals_;
  MemoryCharge charge_;  // Of what grows with the states.
};

}  // namespace

double FastestLayer(const PipelineProblem& problem, const Port& port) {
  double fastest = kInfinity;
  for (const size_t kind : port.kinds) {
    fastest = std::min(fastest, (*problem.layer_seconds)[kind]);
  }
  return fastest;
}

PipelineResult SolvePipelines(const PipelineProblem& problem, double limit_seconds, Sweep sweep,
                              const Interrupter& interrupter) {
  return Program(problem, limit_seconds, sweep, interrupter).Solve();
}

}  // namespace hapmoe::search
