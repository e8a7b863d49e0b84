#include "tests/bench/paper/comparison.h"

#include <utility>

#include "core/base/status_macros.h"
#include "core/search/certificate.h"
#include "server/planning/problem_reader.h"
#include "tests/bench/built_in.h"

namespace hapmoe::bench {
namespace {

absl::StatusOr<std::vector<Other>> Run(const search::Baselines& baselines,
                                       const search::SearchRequest& request) {
  std::vector<Other> others;
  InlineExecutor executor;
  const Interrupter interrupter;
  for (const auto& baseline : baselines) {
    HAPMOE_ASSIGN_OR_RETURN(const std::optional<search::Costed> plan,
                            baseline->Plan(request, executor, interrupter));
    Other& other = others.emplace_back();
    other.name = std::string(baseline->name());
    if (!plan.has_value()) continue;
    HAPMOE_RETURN_IF_ERROR(search::CheckPlan(request, *plan));
    other.seconds = plan->prediction.iteration_seconds;
  }
  return others;
}

absl::StatusOr<search::Outcome> Searched(const search::SearchRequest& request) {
  InlineExecutor executor;
  return search::Search(request, executor, Interrupter(), [](const search::Progress&) {});
}

}  // namespace

const std::vector<Variant>& Variants() {
  static const auto* const variants =
      new std::vector<Variant>{{"exact", [](search::Constraints&) {}}};
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

Comparer::Comparer() : profiles_(BuiltInProfiles()), engines_(BuiltInEngines()) {}

absl::StatusOr<search::SearchRequest> Comparer::Read(const std::vector<std::string>& megatron_args,
                                                     const NamedCluster& cluster) const {
  v1::Problem problem;
  for (const std::string& arg : megatron_args) problem.mutable_job()->add_megatron_args(arg);
  *problem.mutable_cluster() = ClusterOf(cluster.pools);
  HAPMOE_ASSIGN_OR_RETURN(
      const server::ReadProblem read,
      server::ReadPlanRequest("paper", problem, *profiles_->catalog(), engines_));
  return server::SearchRequestOf(read);
}

absl::StatusOr<Comparison> Comparer::Compare(const Model& model,
                                             const NamedCluster& cluster) const {
  Comparison comparison;
  comparison.cluster = cluster.name;
  comparison.mixed = cluster.mixed();
  comparison.printed_uniform_latency = cluster.printed_uniform_latency;
  HAPMOE_ASSIGN_OR_RETURN(search::SearchRequest request, Read(model.megatron_args, cluster));
  HAPMOE_ASSIGN_OR_RETURN(const search::Outcome fits, Searched(request));
  if (!fits.best.has_value()) {
    comparison.offloads = true;
    HAPMOE_ASSIGN_OR_RETURN(request, Read(Offloaded(model.megatron_args), cluster));
  }
  for (const Variant& variant : Variants()) {
    search::SearchRequest varied = request;
    variant.apply(varied.constraints);
    const double start = ProcessSeconds();
    HAPMOE_ASSIGN_OR_RETURN(const search::Outcome outcome, Searched(varied));
    const double end = ProcessSeconds();
    if (!outcome.best.has_value()) {
      return absl::FailedPreconditionError(outcome.infeasibility->summary);
    }
    HAPMOE_RETURN_IF_ERROR(search::CheckOutcome(varied, outcome));
    if (comparison.runs.empty()) comparison.certificate_seconds = ProcessSeconds() - end;
    const double seconds = outcome.best->prediction.iteration_seconds;
    comparison.runs.push_back({.iteration_seconds = seconds,
                               .gap_ratio = outcome.termination.gap_ratio(seconds),
                               .cpu_seconds = end - start,
                               .opened = outcome.termination.statistics.candidates_opened});
  }
  HAPMOE_ASSIGN_OR_RETURN(
      comparison.others,
      Run(cluster.mixed() ? search::MixedBaselines() : search::OneTypeBaselines(), request));
  HAPMOE_ASSIGN_OR_RETURN(comparison.ablations, Run(search::Ablations(), request));
  return comparison;
}

}  // namespace hapmoe::bench
