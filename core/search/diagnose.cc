#include "core/search/diagnose.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/search/candidate_costs.h"
#include "core/search/pipeline_dp.h"
#include "core/search/shortage.h"

namespace hapmoe::search {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
// The search for a number of nodes doubles this often, then halves the interval.
constexpr int kMaxDoublings = 6;

struct Closest {
  Shortage shortage;
  const Candidate* candidate = nullptr;
};

// The candidate whose best pipeline lacks the least memory.
Closest FindClosest(const SearchRequest& request, const Space& space,
                    const Interrupter& interrupter) {
  const RangeClasses classes(request.problem.model);
  const RecomputeOptions options = RecomputeOptionsOf(request);
  Closest closest;
  closest.shortage.bytes = std::numeric_limits<double>::infinity();
  for (const Candidate& candidate : space.candidates) {
    if (interrupter.tripped() || closest.shortage.bytes <= 0) break;
    CandidateCosts costs(request, candidate, classes, options);
    const Shortage shortage = LeastShortage(costs.problem());
    if (shortage.bytes < closest.shortage.bytes) closest = {shortage, &candidate};
  }
  return closest;
}

// Whether any plan fits.
bool Feasible(const SearchRequest& request, const Interrupter& interrupter) {
  const Space space = EnumerateSpace(request, interrupter);
  const RangeClasses classes(request.problem.model);
  const RecomputeOptions options = RecomputeOptionsOf(request);
  for (const Candidate& candidate : space.candidates) {
    if (interrupter.tripped()) return false;
    CandidateCosts costs(request, candidate, classes, options);
    if (LeastShortage(costs.problem()).bytes > 0) continue;
    const PipelineResult result = SolvePipelines(
        costs.problem(), std::numeric_limits<double>::infinity(), Sweep::kBest, interrupter);
    if (!result.plans.empty()) return true;
  }
  return false;
}

// The fewest nodes to add to one pool so that something fits, or nothing within reach.
std::optional<int64_t> NodesToAdd(const SearchRequest& request, size_t pool,
                                  const Interrupter& interrupter) {
  const auto feasible = [&](int64_t added) {
    SearchRequest larger = request;
    larger.problem.cluster.pools[pool].nodes += added;
    return Feasible(larger, interrupter);
  };
  int64_t fails = 0;
  int64_t fits = 0;
  for (int64_t i = 0, added = 1; i < kMaxDoublings; ++i, added *= 2) {
    if (feasible(added)) {
      fits = added;
      break;
    }
    fails = added;
  }
  if (fits == 0) return std::nullopt;
  // Feasibility need not grow with every node, since degrees must divide; the answer was checked
  // itself, and so was one node less.
  while (fits - fails > 1) {
    const int64_t middle = (fits + fails) / 2;
    (feasible(middle) ? fits : fails) = middle;
  }
  return fits;
}

std::string Suggest(const SearchRequest& request, const Interrupter& interrupter) {
  SearchRequest changed = request;
  if (!request.constraints.allow_idle_accelerators) {
    changed.constraints.allow_idle_accelerators = true;
    if (Feasible(changed, interrupter)) return "Let accelerators idle (--allow-idle).";
    changed = request;
  }
  if (request.constraints.keep_recompute) {
    changed.constraints.keep_recompute = false;
    if (Feasible(changed, interrupter)) {
      return "Let the planner choose the recomputation (leave out --keep-recompute).";
    }
    changed = request;
  }
  model::Optimizer& optimizer = changed.problem.training.optimizer;
  if (!optimizer.distributed) {
    optimizer.distributed = true;
    if (Feasible(changed, interrupter)) {
      return "Shard the optimizer states (--use-distributed-optimizer).";
    }
  }
  if (optimizer.offload_ratio < 1) {
    optimizer.offload_ratio = 1;
    if (Feasible(changed, interrupter)) {
      return "Keep the optimizer states in host memory (--optimizer-cpu-offload "
             "--use-precision-aware-optimizer).";
    }
  }
  std::optional<int64_t> fewest;
  size_t where = 0;
  for (size_t pool = 0; pool < request.problem.cluster.pools.size(); ++pool) {
    const std::optional<int64_t> added = NodesToAdd(request, pool, interrupter);
    if (added.has_value() && (!fewest.has_value() || *added < *fewest)) {
      fewest = added;
      where = pool;
    }
  }
  if (!fewest.has_value()) return "";
  return absl::StrCat("Add ", *fewest, *fewest == 1 ? " node" : " nodes", " to pool ",
                      request.problem.cluster.pools[where].name, ".");
}

}  // namespace

Infeasibility Diagnose(const SearchRequest& request, const Space& space,
                       const Interrupter& interrupter) {
  Infeasibility result;
  const Closest closest = FindClosest(request, space, interrupter);
  if (closest.candidate == nullptr || closest.shortage.bytes <= 0) {
    // No set of degrees is left, or no way to place its stages.
    int64_t most = 0;
    for (const auto& [rule, count] : space.pruned) {
      if (count <= most) continue;
      most = count;
      result.binding_rule = rule;
    }
    if (result.binding_rule.empty()) result.binding_rule = "no_degrees_allowed";
    result.summary = absl::StrCat(
        "No set of degrees is valid for this job on this cluster; the rule that rules out most of "
        "them is ",
        result.binding_rule, ".");
  } else {
    const Shortage& shortage = closest.shortage;
    const plan::Degrees& degrees = closest.candidate->kinds.front().degrees;
    const auto& pool = request.problem.cluster.pools[static_cast<size_t>(shortage.pool)];
    result.binding_rule = shortage.host_binds ? "host_memory" : "memory";
    result.stage = shortage.stage;
    result.bytes_short = shortage.bytes;
    result.summary = absl::StrFormat(
        "Nothing fits: the plan that comes closest (tp %d, cp %d, dp %d, ep %d, etp %d, %d stages) "
        "lacks %.2f GiB %son stage %d, on %s in pool %s, with all the recomputation that is "
        "allowed.",
        degrees.tp, degrees.cp, degrees.dp, degrees.ep, degrees.etp, shortage.stages,
        shortage.bytes / kGiB, shortage.host_binds ? "of host memory for each rank " : "",
        shortage.stage, pool.accelerator, pool.name);
  }
  result.suggestion = Suggest(request, interrupter);
  return result;
}

}  // namespace hapmoe::search
