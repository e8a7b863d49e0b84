#include "tests/bench/paper/comparison.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/status_macros.h"
#include "core/search/baselines/restricted_search.h"
#include "core/search/certificate.h"
#include "tests/bench/requests.h"
#include "tests/server/testing/built_in.h"

namespace hapmoe::bench {
namespace {

using Requests = std::vector<search::SearchRequest>;

// The better of a baseline's plans for the settings that its users may choose from.
absl::StatusOr<Other> Run(const search::Baseline& baseline, const Requests& requests) {
  InlineExecutor executor;
  const Interrupter interrupter;
  Other other{.name = std::string(baseline.name()), .seconds = {}};
  for (const search::SearchRequest& request : requests) {
    HAPMOE_ASSIGN_OR_RETURN(const std::optional<search::Costed> plan,
                            baseline.Plan(request, executor, interrupter));
    if (!plan.has_value()) continue;
    HAPMOE_RETURN_IF_ERROR(search::CheckPlan(request, *plan));
    const double seconds = plan->prediction.iteration_seconds;
    other.seconds = std::min(seconds, other.seconds.value_or(seconds));
  }
  return other;
}

absl::StatusOr<std::vector<Other>> Run(const search::Baselines& baselines,
                                       const Requests& requests) {
  std::vector<Other> others;
  for (const auto& baseline : baselines) {
    HAPMOE_ASSIGN_OR_RETURN(others.emplace_back(), Run(*baseline, requests));
  }
  return others;
}

// Ours; nothing where no plan fits.
absl::StatusOr<std::optional<SearchRun>> Run(const Variant& variant,
                                             search::SearchRequest request) {
  variant.apply(request.constraints);
  InlineExecutor executor;
  const double start = ProcessSeconds();
  HAPMOE_ASSIGN_OR_RETURN(const search::Outcome outcome,
                          search::SearchPlans(request, executor, Interrupter()));
  const double end = ProcessSeconds();
  if (!outcome.best.has_value()) return std::nullopt;
  HAPMOE_RETURN_IF_ERROR(search::CheckOutcome(request, outcome));
  const double seconds = outcome.best->prediction.iteration_seconds;
  return SearchRun{.iteration_seconds = seconds,
                   .gap_ratio = outcome.termination.gap_ratio(seconds),
                   .cpu_seconds = end - start,
                   .certificate_cpu_seconds = ProcessSeconds() - end,
                   .opened = outcome.termination.statistics.candidates_opened};
}

}  // namespace

const std::vector<Variant>& Variants() {
  static const auto* const variants = new std::vector<Variant>{
      {"exact", [](search::Constraints&) {}},
      {"by stage", [](search::Constraints& constraints) { constraints.engine = plan::kFlagScale; }},
      // The paper's prunings at its settings.
      {"delta 0.2",
       [](search::Constraints& constraints) { constraints.prunings.load_balance_ratio = 0.2; }},
      {"eta 2",
       [](search::Constraints& constraints) { constraints.prunings.cross_type_ratio = 2; }}};
  return *variants;
}

std::optional<double> Slowdown(const Comparison& comparison, const std::vector<Other>& others,
                               const std::string& name) {
  for (const Other& other : others) {
    if (other.name == name && other.seconds.has_value()) {
      return *other.seconds / comparison.seconds();
    }
  }
  return std::nullopt;
}

Comparer::Comparer() : profiles_(server::BuiltInProfiles()), engines_(server::BuiltInEngines()) {}

absl::StatusOr<Comparison> Comparer::Compare(const Model& model,
                                             const NamedCluster& cluster) const {
  Comparison comparison;
  comparison.cluster = cluster.name;
  comparison.mixed = cluster.mixed();
  comparison.printed_uniform_latency = cluster.printed_uniform_latency;
  Requests requests;
  const v1::Cluster pools = ClusterOf(cluster.pools);
  HAPMOE_ASSIGN_OR_RETURN(requests.emplace_back(),
                          ReadRequest(*profiles_, engines_, model.megatron_args, pools));
  if (model.may_offload) {
    HAPMOE_ASSIGN_OR_RETURN(
        requests.emplace_back(),
        ReadRequest(*profiles_, engines_, Offloaded(model.megatron_args), pools));
  }
  for (const Variant& variant : Variants()) {
    std::optional<SearchRun> best;
    for (size_t i = 0; i < requests.size(); ++i) {
      HAPMOE_ASSIGN_OR_RETURN(const std::optional<SearchRun> run, Run(variant, requests[i]));
      if (!run.has_value()) continue;
      if (best.has_value() && best->iteration_seconds <= run->iteration_seconds) continue;
      best = run;
      best->offloads = i > 0;
    }
    // Less freedom may leave nothing.
    if (!best.has_value() && comparison.runs.empty()) {
      return absl::FailedPreconditionError("nothing fits");
    }
    comparison.runs.push_back(
        best.value_or(SearchRun{.iteration_seconds = std::numeric_limits<double>::infinity()}));
  }
  HAPMOE_ASSIGN_OR_RETURN(
      comparison.others,
      Run(cluster.mixed() ? search::MixedBaselines() : search::OneTypeBaselines(), requests));
  HAPMOE_ASSIGN_OR_RETURN(comparison.ablations, Run(search::Ablations(), requests));
  return comparison;
}

}  // namespace hapmoe::bench
