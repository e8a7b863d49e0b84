#include "core/search/pipeline_dp.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "core/cost/compute_time.h"
#include "core/search/bound.h"
#include "core/search/layer_caps.h"

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
        caps_(problem.problem->model, candidate_, ports_, *problem.choices, limit_seconds) {
    CountSends();
    Prune();
  }

  PipelineResult Solve() {
    PipelineResult result;
    if (BeyondCapacity()) {
      result.beyond_capacity = true;
      return result;
    }
    for (const bool contiguous : {false, true}) {
      result.contiguous = contiguous;
      result.too_large = !Fill(contiguous);
      if (!result.too_large || sweep_ == Sweep::kAll) break;
    }
    if (interrupter_.tripped()) {
      result.interrupted = true;
      return result;
    }
    if (result.too_large) return result;
    result.labels = static_cast<int64_t>(arena_.size());
    std::stable_sort(finals_.begin(), finals_.end(),
                     [](const Final& a, const Final& b) { return a.seconds < b.seconds; });
    size_t keep = finals_.size();
    if (sweep_ == Sweep::kBest) {
      keep = std::min(keep, static_cast<size_t>(problem_.constraints->max_finalists));
    }
    for (size_t i = 0; i < keep; ++i) {
      result.plans.push_back({finals_[i].seconds, Reconstruct(finals_[i].label)});
    }
    return result;
  }

 private:
  // Finds all labels; false where there are too many states, cells or labels.
  bool Fill(bool contiguous) {
    contiguous_ = contiguous;
    cells_.clear();
    arena_.clear();
    finals_.clear();
    UsedUnits::Limits limits;
    limits.pool_units = candidate_.pool_units;
    limits.max_stages =
        candidate_.stages > 0 ? candidate_.stages : std::min(candidate_.max_stages(), layers_);
    limits.max_states = kMaxStates;
    limits.contiguous = contiguous;
    used_ = std::make_unique<UsedUnits>(ports_, limits);
    if (!used_->complete()) return false;
    blocks_.assign(used_->size() * classes_, Block{});
    for (size_t state = 1; state < used_->size(); ++state) {
      if (StagesLeft(state) < 0) continue;
      for (size_t port = 0; port < ports_.size(); ++port) {
        if (interrupter_.tripped()) return true;
        if (Follows(state, port)) FillBlocks(state, port);
        const bool many = sweep_ == Sweep::kAll && static_cast<int64_t>(arena_.size()) > kMaxLabels;
        if (many || static_cast<int64_t>(cells_.size()) > kMaxCells) return false;
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

  // What the front stage sends back depends on the stage before it, which is not known yet: labels
  // are kept apart by it.
  void CountSends() {
    const size_t count = ports_.size();
    class_of_.assign(count, std::vector<size_t>(count));
    back_sends_.resize(count);
    first_class_.resize(count);
    ring_send_.assign(count, kInfinity);
    ring_send_most_.assign(count, 0);
    for (size_t port = 0; port < count; ++port) {
      std::vector<double>& sends = back_sends_[port];
      for (size_t before = 0; before < count; ++before) {
        const double send = Send(before, port);
        ring_send_[port] = std::min(ring_send_[port], send);
        ring_send_most_[port] = std::max(ring_send_most_[port], send);
        size_t number = 0;
        while (number < sends.size() && sends[number] != send) ++number;
        if (number == sends.size()) sends.push_back(send);
        class_of_[port][before] = number;
      }
      first_class_[port] = classes_;
      classes_ += sends.size();
    }
  }

  // Works out what the paper's prunings leave of each port.
  void Prune() {
    const Prunings& prunings = problem_.constraints->prunings;
    least_layers_.assign(ports_.size(), 1);
    most_layers_.assign(ports_.size(), layers_);
    if (!prunings.any()) return;
    const auto rate_of = [&](int64_t pool) {
      const auto& profile = *problem_.problem->profiles[static_cast<size_t>(pool)];
      return profile.PeakFlops(cost::MatrixPrecisionOf(problem_.problem->training)).value_or(0);
    };
    double rate = 0;
    double passes_rate = 0;  // Layers a second of all stages together.
    for (size_t pool = 0; pool < candidate_.pool_units.size(); ++pool) {
      rate +=
          static_cast<double>(candidate_.pool_units[pool]) * rate_of(static_cast<int64_t>(pool));
    }
    for (size_t port = 0; port < ports_.size(); ++port) {
      const double units = static_cast<double>(ports_[port].units);
      const double stages =
          static_cast<double>(candidate_.pool_units[static_cast<size_t>(ports_[port].pool)]) /
          units;
      double fastest = kInfinity;
      for (const size_t kind : ports_[port].kinds) {
        fastest = std::min(fastest, (*problem_.layer_seconds)[kind]);
      }
      passes_rate += stages / fastest;
      if (!prunings.load_balance_ratio.has_value()) continue;
      const double share = static_cast<double>(layers_) * units * rate_of(ports_[port].pool) / rate;
      // Layers are whole.
      least_layers_[port] = std::max<int64_t>(
          1, static_cast<int64_t>(std::floor(share * (1 - *prunings.load_balance_ratio))));
      most_layers_[port] = std::min<int64_t>(
          layers_, static_cast<int64_t>(std::ceil(share * (1 + *prunings.load_balance_ratio))));
    }
    if (prunings.cross_type_ratio.has_value()) {
      longest_send_ = *prunings.cross_type_ratio * static_cast<double>(layers_) / passes_rate;
    }
  }

  // Stages of every pipeline, where their number is the same in all; else 0.
  int64_t KnownStages() const {
    if (Fixed()) return candidate_.stages;
    return MayIdle() || candidate_.degrees_per_mesh ? 0 : candidate_.max_stages();
  }

  // Layers that the stages with at least `behind` stages behind them hold at most, where the number
  // of all stages is known.
  int64_t CapacityFrom(int64_t behind) {
    const int64_t stages = KnownStages();
    if (capacity_from_.empty()) {
      capacity_from_.resize(static_cast<size_t>(stages + 1));
      for (int64_t at = stages - 1; at >= 0; --at) {
        capacity_from_[static_cast<size_t>(at)] =
            capacity_from_[static_cast<size_t>(at + 1)] + caps_.Most(at);
      }
    }
    return capacity_from_[static_cast<size_t>(behind)];
  }

  // Whether even the emptiest look says that nothing is below the limit.
  bool BeyondCapacity() {
    std::vector<int64_t> units = candidate_.pool_units;
    if (caps_.OfUnits(units, 0) < static_cast<double>(layers_)) return true;
    if (KnownStages() == 0) return false;
    int64_t last = 0;
    for (size_t port = 0; port < ports_.size(); ++port) last = std::max(last, caps_.OfLast(port));
    return last == 0 || last + CapacityFrom(1) < layers_;
  }

  double Send(size_t from, size_t to) const { return (*problem_.send_seconds)[from][to]; }
  bool MayIdle() const { return problem_.constraints->allow_idle_accelerators; }
  bool Fixed() const { return candidate_.stages > 0; }

  Block& BlockOf(size_t state, size_t port, size_t number) {
    return blocks_[state * classes_ + first_class_[port] + number];
  }
  Cell& CellOf(const Block& block, int64_t offset, int64_t covered) {
    return cells_[static_cast<size_t>(block.first_cell + offset * width_ + covered)];
  }

  // Stages still to come, where their number is known; else at least so many. Negative: too many.
  int64_t StagesLeft(size_t state) const {
    if (Fixed()) return candidate_.stages - used_->stages(state);
    if (MayIdle()) return 0;
    int64_t most_units = 1;
    for (const Port& port : ports_) most_units = std::max(most_units, port.units);
    const int64_t units = candidate_.units() - used_->units(state);
    return (units + most_units - 1) / most_units;
  }

  // A pipeline that leaves a pool has filled whole nodes of it.
  bool LeavesFullNodes(size_t state, size_t pool) const {
    const int64_t ranks = used_->Of(state, pool) * candidate_.unit_ranks;
    return ranks % problem_.problem->cluster.pools[pool].accelerators_per_node == 0;
  }

  // Whether a stage of `port` may stand in front of one of `next`, which the run `behind` starts
  // with.
  bool MayPrecede(size_t port, size_t next, size_t behind) const {
    const size_t pool = static_cast<size_t>(ports_[port].pool);
    const size_t left = static_cast<size_t>(ports_[next].pool);
    if (pool == left) return true;
    if (!LeavesFullNodes(behind, left) || Send(port, next) > longest_send_) return false;
    return !contiguous_ ||
           (used_->Of(behind, pool) == 0 && used_->Of(behind, left) == candidate_.pool_units[left]);
  }

  // Whether any label leads to this block.
  bool Follows(size_t state, size_t port) {
    if (used_->Without(state, port) == UsedUnits::kNone) return false;
    const size_t before = static_cast<size_t>(used_->Without(state, port));
    if (before == 0) return true;
    for (size_t next = 0; next < ports_.size(); ++next) {
      if (!BlockOf(before, next, class_of_[next][port]).empty()) return true;
    }
    return false;
  }

  // Layers that the units left can take below the limit.
  double CapacityLeft(size_t state) {
    const int64_t stages = used_->stages(state);
    std::vector<int64_t> left = candidate_.pool_units;
    for (size_t pool = 0; pool < left.size(); ++pool) left[pool] -= used_->Of(state, pool);
    const double of_units = caps_.OfUnits(left, stages);
    if (KnownStages() == 0) return of_units;
    return std::min(of_units, static_cast<double>(CapacityFrom(stages)));
  }

  // Fills front_seconds_[l]: forward and backward passes of the stages still to come, at least,
  // when they hold l layers. The fastest accelerators take as many as they can; where none may
  // idle, every stage holds one.
  void BoundFront(size_t state) {
    const int64_t stages = used_->stages(state);
    struct Share {
      double seconds = 0;  // One layer.
      double layers = 0;   // At most, beside the one that every stage holds.
    };
    std::vector<Share> shares(candidate_.pool_units.size(), Share{kInfinity, 0});
    for (size_t port = 0; port < ports_.size(); ++port) {
      Share& share = shares[static_cast<size_t>(ports_[port].pool)];
      for (const size_t kind : ports_[port].kinds) {
        share.seconds = std::min(share.seconds, (*problem_.layer_seconds)[kind]);
      }
    }
    const bool all_used = !MayIdle() && !candidate_.degrees_per_mesh;
    const double least = all_used ? static_cast<double>(virtual_stages_) : 0;
    double held = 0;
    double seconds = 0;
    for (size_t pool = 0; pool < shares.size(); ++pool) {
      const double units =
          static_cast<double>(candidate_.pool_units[pool] - used_->Of(state, pool));
      shares[pool].layers = units * std::max(0.0, caps_.OfUnit(pool, stages) - least);
      held += units * least;
      if (units > 0) seconds += units * least * shares[pool].seconds;
    }
    std::sort(shares.begin(), shares.end(),
              [](const Share& a, const Share& b) { return a.seconds < b.seconds; });
    front_seconds_.assign(static_cast<size_t>(width_), kInfinity);
    size_t next = 0;
    for (int64_t layers = 0; layers <= layers_; ++layers) {
      double more = static_cast<double>(layers) - held;
      if (more < 0) continue;  // Too few for all stages: never asked.
      while (next < shares.size() && more > shares[next].layers) {
        seconds += shares[next].layers * shares[next].seconds;
        held += shares[next].layers;
        more -= shares[next].layers;
        ++next;
      }
      if (next == shares.size()) break;
      front_seconds_[static_cast<size_t>(layers)] =
          (seconds + more * shares[next].seconds) / static_cast<double>(virtual_stages_);
    }
    front_seconds_[0] = 0;
  }

  bool Completes(size_t state) const {
    if (Fixed() && used_->stages(state) != candidate_.stages) return false;
    return StagesAllowed(*problem_.constraints, used_->stages(state)) &&
           (MayIdle() || used_->units(state) == candidate_.units());
  }

  void FillBlocks(size_t state, size_t port) {
    const size_t numbers = back_sends_[port].size();
    scratch_.resize(std::max(scratch_.size(), numbers));
    const int64_t stages = used_->stages(state);
    const int64_t left_stages = StagesLeft(state);
    const double capacity = CapacityLeft(state);
    BoundFront(state);
    const int64_t least =
        std::max(stages * virtual_stages_,
                 static_cast<int64_t>(std::ceil(static_cast<double>(layers_) - capacity - 1e-9)));
    const bool completes = Completes(state);
    const int64_t most = completes && (MayIdle() || left_stages == 0)
                             ? layers_
                             : layers_ - std::max<int64_t>(1, left_stages) * virtual_stages_;
    for (int64_t covered = least; covered <= most; ++covered) {
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
    const int64_t most_layers =
        std::min({covered, caps_.Of(port, used_->stages(state) - 1), most_layers_[port]});
    const int64_t least_layers = std::max(virtual_stages_, least_layers_[port]);
    if (before == 0) {
      if (covered > most_layers || covered < least_layers) return;
      // With virtual stages the last chunk may hold fewer layers than the others of the last rank.
      const int64_t least = (covered + virtual_stages_ - 1) / virtual_stages_;
      for (int64_t chunk = least; chunk * (virtual_stages_ - 1) < covered; ++chunk) {
        if (offset + chunk < leading_) continue;
        Add(state, port, ports_.size(), covered, covered, chunk, offset, Label{}, kNoParent);
        if (virtual_stages_ == 1) break;
      }
      return;
    }
    for (size_t next = 0; next < ports_.size(); ++next) {
      if (!MayPrecede(port, next, before)) continue;
      const Block& block = BlockOf(before, next, class_of_[next][port]);
      const int64_t least = std::max(block.least_covered, covered - most_layers);
      const int64_t most = std::min(block.most_covered, covered - least_layers);
      for (int64_t behind = least; behind <= most; ++behind) {
        const int64_t layers = covered - behind;
        if (layers % virtual_stages_ != 0) continue;
        const int64_t chunk = layers / virtual_stages_;
        const int64_t after = std::min(leading_, offset + chunk);
        const Cell& cell = CellOf(block, after, behind);
        for (int32_t label = cell.begin; label < cell.end; ++label) {
          Add(state, port, next, covered, layers, chunk, offset, arena_[static_cast<size_t>(label)],
              label);
        }
      }
    }
  }

  // Adds a stage of each kind of the port that may stand there. `next`: the port behind it.
  void Add(size_t state, size_t port, size_t next, int64_t covered, int64_t layers, int64_t chunk,
           int64_t offset, const Label& suffix, int32_t parent) {
    const bool front = covered == layers_;
    const bool last = parent == kNoParent;
    const double send = last ? 0 : Send(port, next);
    Label label;
    label.parent = parent;
    label.first = static_cast<int32_t>(layers_ - covered);
    label.last = label.first + static_cast<int32_t>(layers);
    label.offset = static_cast<int32_t>(offset);
    label.chunk = static_cast<int32_t>(chunk);
    for (const size_t number : KindsFor(port, label, front, last, used_->stages(state) - 1)) {
      label.kind = static_cast<int32_t>(number);
      const StageChoice& choice = ChoiceOf(label, used_->stages(state) - 1);
      if (!choice.fits) continue;
      label.last_chunk = last ? choice.last_chunk_seconds : suffix.last_chunk;
      if (front) {
        label.bound = Extended(suffix, choice, send, 0, port, front, last, state);
        const double seconds = label.bound.seconds();
        if (seconds < limit_) finals_.push_back({seconds, label});
        continue;
      }
      for (size_t i = 0; i < back_sends_[port].size(); ++i) {
        label.bound =
            Extended(suffix, choice, send, back_sends_[port][i], port, front, last, state);
        const double front_seconds = front_seconds_[static_cast<size_t>(label.first)];
        if (std::max(label.bound.passes + front_seconds, label.bound.seconds()) >= limit_) {
          continue;
        }
        scratch_[i].push_back(label);
      }
    }
  }

  static bool MayStand(const StageKind& kind, bool front, bool last) {
    return (!front || kind.first) && (!last || kind.last) && (front || last || kind.inner);
  }

  // Kinds of a port for the layers of `label`: where there are several, those that fit and that no
  // other beats in everything.
  const std::vector<size_t>& KindsFor(size_t port, const Label& label, bool front, bool last,
                                      int64_t behind) {
    const std::vector<size_t>& all = ports_[port].kinds;
    if (all.size() == 1) {
      return MayStand(candidate_.kinds[all.front()], front, last) ? all : no_kinds_;
    }
    StageChoices& any = *problem_.choices->front();
    const int64_t range = any.classes().ClassOf(label.first, label.last);
    const int64_t window = std::min(behind + 1, micro_batches_);
    const int64_t key =
        (((range * (micro_batches_ + 1) + window) * static_cast<int64_t>(ports_.size()) +
          static_cast<int64_t>(port)) *
             2 +
         (front ? 1 : 0)) *
            2 +
        (last ? 1 : 0);
    const auto [entry, added] = kinds_for_.try_emplace(key);
    if (!added) return entry->second;
    std::vector<size_t>& kept = entry->second;
    const auto choice = [&](size_t kind) -> const StageChoice& {
      return (*problem_.choices)[kind]->Best(label.first, label.last, window);
    };
    // What is sent differs a little with the degrees: bounds take the least, simulations do not.
    const auto sends_alike = [&](size_t a, size_t b) {
      const plan::Degrees& one = candidate_.kinds[a].degrees;
      const plan::Degrees& other = candidate_.kinds[b].degrees;
      return sweep_ == Sweep::kBest || (one.tp == other.tp && one.dp == other.dp);
    };
    const auto beats = [&](size_t a, size_t b) {
      if (!sends_alike(a, b)) return false;
      const StageChoice& one = choice(a);
      const StageChoice& other = choice(b);
      return one.forward_seconds <= other.forward_seconds &&
             one.backward_seconds <= other.backward_seconds &&
             one.sync_seconds <= other.sync_seconds && one.step_seconds <= other.step_seconds;
    };
    for (const size_t kind : all) {
      if (!MayStand(candidate_.kinds[kind], front, last) || !choice(kind).fits) continue;
      if (std::any_of(kept.begin(), kept.end(), [&](size_t other) { return beats(other, kind); })) {
        continue;
      }
      kept.erase(std::remove_if(kept.begin(), kept.end(),
                                [&](size_t other) { return beats(kind, other); }),
                 kept.end());
      kept.push_back(kind);
    }
    return kept;
  }

  const StageChoice& ChoiceOf(const Label& label, int64_t behind) const {
    StageChoices& choices = *(*problem_.choices)[static_cast<size_t>(label.kind)];
    if (virtual_stages_ == 1) {
      return choices.Best(label.first, label.last, std::min(behind + 1, micro_batches_));
    }
    const int64_t others = label.chunk * (virtual_stages_ - 1);
    const InterleavedStage stage = {.chunk_layers = label.chunk,
                                    .last_chunk_layers = label.last - label.first - others,
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
                     choice.sync_seconds, choice.step_seconds},
                    micro_batches_, std::min(used_->stages(state), micro_batches_));
    }
    InterleavedSeconds rank;
    rank.first_forward = choice.first_forward_seconds + send;
    rank.first_backward = choice.first_backward_seconds + back_send;
    rank.work = choice.forward_seconds + choice.backward_seconds;
    if (!problem_.problem->training.overlap.pipeline) {
      // From the last rank back to the first, whose port is not known, one chunk fewer.
      const double count = static_cast<double>(virtual_stages_);
      rank.work += last ? (count - 1) * ring_send_[port] : count * send;
      rank.work += front ? (count - 1) * ring_send_[port] : count * back_send;
    }
    rank.slowest_pair = choice.slowest_pair_seconds;
    if (!problem_.problem->training.overlap.pipeline) {
      rank.slowest_pair +=
          std::max(send, ring_send_most_[port]) + std::max(back_send, ring_send_most_[port]);
    }
    rank.sync = choice.sync_seconds;
    rank.step = choice.step_seconds;
    return ExtendInterleaved(suffix.bound, rank, micro_batches_, candidate_.stages,
                             used_->stages(state) - 1, suffix.last_chunk);
  }

  // Moves labels into the arena, in Sweep::kBest only those that no other one beats in everything.
  void Keep(Block& block, int64_t covered, int64_t offset, std::vector<Label>& labels) {
    if (labels.empty()) return;
    if (block.empty()) {
      block.first_cell = static_cast<int64_t>(cells_.size());
      cells_.resize(cells_.size() + static_cast<size_t>(width_ * (leading_ + 1)));
    }
    Cell& cell = CellOf(block, offset, covered);
    cell.begin = static_cast<int32_t>(arena_.size());
    if (sweep_ == Sweep::kAll) {
      arena_.insert(arena_.end(), labels.begin(), labels.end());
    } else {
      std::stable_sort(labels.begin(), labels.end(), [](const Label& a, const Label& b) {
        return std::tie(a.bound.round_trip, a.bound.passes, a.bound.ready, a.bound.step) <
               std::tie(b.bound.round_trip, b.bound.passes, b.bound.ready, b.bound.step);
      });
      for (const Label& label : labels) {
        const auto beats = [&](const Label& kept) {
          return kept.last_chunk <= label.last_chunk && kept.bound.passes <= label.bound.passes &&
                 kept.bound.ready <= label.bound.ready && kept.bound.step <= label.bound.step;
        };
        if (std::none_of(arena_.begin() + cell.begin, arena_.end(), beats)) {
          arena_.push_back(label);
        }
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
        const bool last = chunk + 1 == virtual_stages_;
        const int64_t layers =
            last ? ranks[i].last - ranks[i].first - ranks[i].chunk * (virtual_stages_ - 1)
                 : ranks[i].chunk;
        stages[i].chunks.push_back(ChunkOf(problem_.problem->model, first, first + layers));
        first += layers;
      }
    }
    plan::Plan plan = EmptyPlan(candidate_);
    for (size_t i = 0; i < ranks.size(); ++i) {
      stages[i].recompute =
          ChoiceOf(ranks[i], static_cast<int64_t>(ranks.size() - 1 - i)).recompute;
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
  LayerCaps caps_;
  std::vector<int64_t> capacity_from_;  // See CapacityFrom.
  // See Prune.
  std::vector<int64_t> least_layers_;  // [port]
  std::vector<int64_t> most_layers_;
  double longest_send_ = kInfinity;
  bool contiguous_ = false;
  std::unique_ptr<UsedUnits> used_;
  size_t classes_ = 0;                           // Of all ports together.
  std::vector<size_t> first_class_;              // [port]
  std::vector<std::vector<size_t>> class_of_;    // [port][port before it]
  std::vector<std::vector<double>> back_sends_;  // [port][class]
  std::vector<double> ring_send_;                // [port]: from the other end, at least.
  std::vector<double> ring_send_most_;
  std::vector<double> front_seconds_;  // See BoundFront.
  const std::vector<size_t> no_kinds_;
  absl::flat_hash_map<int64_t, std::vector<size_t>> kinds_for_;  // See KindsFor.
  std::vector<Block> blocks_;
  std::vector<Cell> cells_;
  std::vector<Label> arena_;
  std::vector<std::vector<Label>> scratch_;  // [class]
  std::vector<Final> finals_;
};

}  // namespace

PipelineResult SolvePipelines(const PipelineProblem& problem, double limit_seconds, Sweep sweep,
                              const Interrupter& interrupter) {
  return Program(problem, limit_seconds, sweep, interrupter).Solve();
}

}  // namespace hapmoe::search
