#include "core/search/diagnose.h"

#include <limits>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/search/advisor.h"
#include "core/search/fitting.h"

namespace hapmoe::search {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
struct Closest {
  TightStage tight;
  const Candidate* candidate = nullptr;
};

// The candidate whose best pipeline lacks the least memory.
Closest FindClosest(const SearchRequest& request, const Space& space, Fitting& fitting,
                    const Interrupter& interrupter) {
  Closest closest;
  double most_bytes = std::numeric_limits<double>::infinity();
  for (const Candidate& candidate : space.candidates) {
    if (interrupter.tripped() || most_bytes <= 0) break;
    const auto tight = fitting.Tightest(candidate, request.constraints, most_bytes);
    if (!tight.has_value()) continue;
    closest = {*tight, &candidate};
    // Better by more than Tightest is off.
    most_bytes = tight->short_bytes * (1 - 2e-6);
  }
  return closest;
}

}  // namespace

Infeasibility Diagnose(const SearchRequest& request, const Space& space,
                       const Interrupter& interrupter) {
  Infeasibility result;
  Fitting fitting(request);
  const Closest closest = FindClosest(request, space, fitting, interrupter);
  if (closest.candidate == nullptr || closest.tight.short_bytes <= 0) {
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
    const TightStage& tight = closest.tight;
    const plan::Degrees& degrees = closest.candidate->kinds.front().degrees;
    const auto& pool = request.problem.cluster.pools[static_cast<size_t>(tight.pool)];
    result.binding_rule = tight.host_binds ? "host_memory" : "memory";
    result.stage = tight.stage;
    result.bytes_short = tight.short_bytes;
    result.summary = absl::StrFormat(
        "Nothing fits: the plan that comes closest (tp %d, cp %d, dp %d, ep %d, etp %d, %d stages) "
        "lacks %.2f GiB %son stage %d, on %s in pool %s, with all the recomputation that is "
        "allowed.",
        degrees.tp, degrees.cp, degrees.dp, degrees.ep, degrees.etp, tight.stages,
        tight.short_bytes / kGiB, tight.host_binds ? "of host memory for each rank " : "",
        tight.stage, pool.accelerator, pool.name);
  }
  if (!request.seek_changes) return result;
  Advisor advisor(request, fitting, interrupter);
  result.suggestions = advisor.Alone();
  if (!result.suggestions.empty()) {
    result.suggestion = result.suggestions.front().sentence;
    return result;
  }
  result.together = advisor.Together();
  for (const Suggestion& part : result.together) {
    absl::StrAppend(&result.suggestion, result.suggestion.empty() ? "" : " ", part.sentence);
  }
  return result;
}

}  // namespace hapmoe::search
