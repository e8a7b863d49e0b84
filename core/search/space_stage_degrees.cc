// The space of engines whose stages have degrees of their own.
#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/plan/flagscale_rules.h"
#include "core/search/space.h"

namespace hapmoe::search {
namespace {

// A pipeline of more units than this has too many placements; smaller stages are left out then.
constexpr int64_t kMaxUnits = 48;

class StageDegrees {
 public:
  StageDegrees(const SearchRequest& request, const Interrupter& interrupter)
      : request_(request), interrupter_(interrupter) {}

  Space Run() {
    const auto& pools = request_.problem.cluster.pools;
    int64_t accelerators = 0;
    for (const auto& pool : pools) accelerators += pool.accelerators();
    space_.charge = MemoryCharge(request_.memory);
    least_ranks_ = 1;
    while (accelerators > kMaxUnits * least_ranks_) least_ranks_ *= 2;
    space_.restrictions = {
        "degrees of its own for every stage, without context parallelism and virtual stages",
        "every stage holds at least one decoder layer; the multi-token prediction layers and the "
        "loss are on the last one",
        "where the pipeline leaves a pool it has filled whole nodes",
        "stages that share an embedding have equal tensor and data parallel degrees",
    };
    if (least_ranks_ > 1) {
      space_.restrictions.push_back(
          absl::StrCat("stages of fewer than ", least_ranks_, " accelerators are left out"));
    }
    for (std::string& restriction : DispatcherRestriction(request_)) {
      space_.restrictions.push_back(std::move(restriction));
    }
    if (!request_.constraints.allow_idle_accelerators) {
      space_.restrictions.push_back("no accelerator idles");
    }
    const Violations job = plan::CheckFlagScaleJob(request_.problem.model, RecomputationOfJob());
    if (!job.empty()) {
      for (const Violation& violation : job) ++space_.pruned[violation.rule];
      return std::move(space_);
    }
    const std::vector<std::optional<model::Dispatcher>> dispatchers = AllowedDispatchers(request_);
    for (const std::optional<model::Dispatcher> dispatcher : dispatchers) {
      dispatcher_ = dispatcher;
      // All dispatchers are one where ranks do not send tokens to each other's experts.
      only_dispatching_ = dispatcher != dispatchers.front();
      for (const int64_t samples : Divisors(request_.problem.training.global_batch)) {
        if (interrupter_.tripped()) break;
        AddSamples(samples);
      }
    }
    return std::move(space_);
  }

 private:
  // The search chooses the recomputation itself, unless it has to keep the job's.
  model::TrainingSpec RecomputationOfJob() const {
    model::TrainingSpec training = request_.problem.training;
    if (!request_.constraints.keep_recompute) training.recompute = {};
    return training;
  }

  void AddSamples(int64_t samples) {
    std::vector<StageKind> kinds;
    const auto& pools = request_.problem.cluster.pools;
    for (size_t pool = 0; pool < pools.size(); ++pool) {
      AddKinds(static_cast<int64_t>(pool), pools[pool].accelerators(), samples, kinds);
    }
    AddOneSetOfDegrees(samples, kinds);
    // All stages split experts over ranks, or none does.
    for (const bool split : {false, true}) {
      std::vector<StageKind> some;
      for (const StageKind& kind : kinds) {
        if ((kind.degrees.ep > 1) == split) some.push_back(kind);
      }
      AddByEnds(samples, some);
    }
  }

  void AddKinds(int64_t pool, int64_t accelerators, int64_t samples,
                std::vector<StageKind>& kinds) {
    const Constraints& constraints = request_.constraints;
    if (!Allows(constraints.cp, 1)) return;
    for (const int64_t dp : Divisors(samples)) {
      if (!Allows(constraints.dp, dp) || dp > accelerators) continue;
      for (const int64_t tp : Divisors(request_.problem.model.heads)) {
        const int64_t ranks = tp * dp;
        if (!Allows(constraints.tp, tp) || ranks > accelerators) continue;
        if (ranks < least_ranks_ || ranks % least_ranks_ != 0) continue;
        plan::Degrees degrees = {.tp = tp, .cp = 1, .dp = dp, .ep = 1, .etp = tp};
        if (!request_.problem.model.moe.has_value()) {
          AddKind(pool, degrees, samples / dp, kinds);
          continue;
        }
        for (const int64_t ep : Divisors(std::gcd(request_.problem.model.moe->experts, ranks))) {
          if (!Allows(constraints.ep, ep)) continue;
          for (const int64_t etp : Divisors(ranks / ep)) {
            if (!Allows(constraints.etp, etp)) continue;
            degrees.ep = ep;
            degrees.etp = etp;
            AddKind(pool, degrees, samples / dp, kinds);
          }
        }
      }
    }
  }

  void AddKind(int64_t pool, const plan::Degrees& degrees, int64_t micro_batch,
               std::vector<StageKind>& kinds) {
    const model::TransformerSpec& model = request_.problem.model;
    StageKind kind;
    kind.pool = pool;
    kind.degrees = degrees;
    kind.micro_batch = micro_batch;
    const auto broken = [&](bool first) {
      return plan::BrokenFlagScaleStageRule(model, degrees, {.first = first, .last = false});
    };
    kind.first = broken(true).empty() && StartsWith(micro_batch);
    kind.inner = broken(false).empty();
    kind.last = kind.inner;
    if (!kind.first && !kind.inner) {
      ++space_.pruned[std::string(broken(true).empty() ? broken(false) : broken(true))];
      return;
    }
    if (!request_.constraints.micro_batch.empty() && !StartsWith(micro_batch)) {
      ++space_.pruned["constraint_micro_batch"];
      return;
    }
    const DegreesVerdict verdict = JudgeDegrees(request_, degrees, micro_batch, /*stages=*/1,
                                                /*virtual_stages=*/1, dispatcher_);
    if (verdict.broken != nullptr) {
      ++space_.pruned[std::string(verdict.broken->name)];
      return;
    }
    kinds.push_back(kind);
  }

  // Whether the first stage may run such micro-batches; what the others run follows from it.
  bool StartsWith(int64_t micro_batch) const {
    return Allows(AllowedMicroBatches(request_), micro_batch);
  }

  Candidate CandidateOf(int64_t samples, int64_t unit_ranks) const {
    Candidate candidate;
    candidate.unit_ranks = unit_ranks;
    candidate.dispatcher = dispatcher_;
    candidate.micro_batches = request_.problem.training.global_batch / samples;
    for (const auto& pool : request_.problem.cluster.pools) {
      candidate.pool_units.push_back(pool.accelerators() / unit_ranks);
    }
    return candidate;
  }

  bool LeavesIdle(int64_t unit_ranks) const {
    const auto& pools = request_.problem.cluster.pools;
    return std::any_of(pools.begin(), pools.end(), [&](const cluster::Pool& pool) {
      return pool.accelerators() % unit_ranks != 0;
    });
  }

  // Candidates whose stages all have one of the kinds' degrees.
  void AddOneSetOfDegrees(int64_t samples, const std::vector<StageKind>& kinds) {
    const int64_t pools = static_cast<int64_t>(request_.problem.cluster.pools.size());
    for (const StageKind& kind : kinds) {
      const int64_t ranks = kind.degrees.stage_ranks();
      if (only_dispatching_ && !Dispatches(request_.problem.model, kind.degrees)) continue;
      if (kind.pool != 0 || !kind.first || !kind.inner || !kind.last) continue;
      if (!request_.constraints.allow_idle_accelerators && LeavesIdle(ranks)) continue;
      Candidate candidate = CandidateOf(samples, ranks);
      for (int64_t pool = 0; pool < pools; ++pool) {
        candidate.kinds.push_back(kind);
        candidate.kinds.back().pool = pool;
      }
      const int64_t stages = candidate.max_stages();
      const bool placed =
          request_.constraints.allow_idle_accelerators ||
          (stages <= request_.problem.model.layers && StagesAllowed(request_.constraints, stages));
      if (stages > 0 && placed) space_.Add(std::move(candidate));
    }
  }

  // Candidates that mix kinds. Where the ends share an embedding, one for each pair of degrees that
  // they may have.
  void AddByEnds(int64_t samples, const std::vector<StageKind>& kinds) {
    const model::TransformerSpec& model = request_.problem.model;
    if (!model.tied_embeddings && model.mtp_layers == 0) {
      AddMixed(samples, kinds);
      return;
    }
    std::set<std::pair<int64_t, int64_t>> ends;
    for (const StageKind& kind : kinds) {
      if (kind.first) ends.emplace(kind.degrees.tp, kind.degrees.dp);
    }
    for (const auto& [tp, dp] : ends) {
      std::vector<StageKind> some = kinds;
      for (StageKind& kind : some) {
        const bool end = kind.degrees.tp == tp && kind.degrees.dp == dp;
        kind.first = kind.first && end;
        kind.last = kind.last && end;
      }
      AddMixed(samples, some);
    }
  }

  void AddMixed(int64_t samples, std::vector<StageKind> kinds) {
    const auto any = [&](bool StageKind::*position) {
      return std::any_of(kinds.begin(), kinds.end(),
                         [&](const StageKind& kind) { return kind.*position; });
    };
    if (!any(&StageKind::first) || !any(&StageKind::last)) return;
    if (only_dispatching_ && std::none_of(kinds.begin(), kinds.end(), [&](const StageKind& kind) {
          return Dispatches(request_.problem.model, kind.degrees);
        })) {
      return;
    }
    int64_t unit_ranks = 0;
    for (const StageKind& kind : kinds) {
      unit_ranks = std::gcd(unit_ranks, kind.degrees.stage_ranks());
    }
    if (!request_.constraints.allow_idle_accelerators && LeavesIdle(unit_ranks)) return;
    Candidate candidate = CandidateOf(samples, unit_ranks);
    candidate.degrees_per_mesh = true;
    for (StageKind& kind : kinds) kind.units = kind.degrees.stage_ranks() / unit_ranks;
    candidate.kinds.assign(kinds.begin(), kinds.end());
    space_.Add(std::move(candidate));
  }

  const SearchRequest& request_;
  const Interrupter& interrupter_;
  int64_t least_ranks_ = 1;
  std::optional<model::Dispatcher> dispatcher_;
  bool only_dispatching_ = false;  // Candidates without stages that dispatch are known already.
  Space space_;
};

}  // namespace

Space EnumerateStageDegrees(const SearchRequest& request, const Interrupter& interrupter) {
  return StageDegrees(request, interrupter).Run();
}

}  // namespace hapmoe::search
