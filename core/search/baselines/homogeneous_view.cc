#include "core/search/baselines/homogeneous_view.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "core/base/status_macros.h"
#include "core/cost/compute_time.h"
#include "core/search/baselines/restricted_search.h"

namespace hapmoe::search {
namespace {

using Profile = std::shared_ptr<const profile::AcceleratorProfile>;

size_t SlowestPool(const cost::Problem& problem) {
  const auto peak = [&problem](const Profile& profile) {
    return profile->PeakFlops(cost::MatrixPrecisionOf(problem.training)).value_or(0);
  };
  const auto slowest =
      std::min_element(problem.profiles.begin(), problem.profiles.end(),
                       [&peak](const Profile& a, const Profile& b) { return peak(a) < peak(b); });
  return static_cast<size_t>(slowest - problem.profiles.begin());
}

}  // namespace

SearchRequest HomogeneousView(const SearchRequest& request, ViewedMemory memory) {
  const cost::Problem& problem = request.problem;
  const size_t slowest = SlowestPool(problem);
  double least = problem.profiles[slowest]->memory_bytes;
  for (const Profile& profile : problem.profiles) least = std::min(least, profile->memory_bytes);
  SearchRequest view = request;
  view.problem.cluster.links.clear();
  view.problem.products = nullptr;  // Those of other profiles.
  for (size_t pool = 0; pool < problem.profiles.size(); ++pool) {
    profile::AcceleratorProfile profile = *problem.profiles[slowest];
    profile.memory_bytes =
        memory == ViewedMemory::kLeast ? least : problem.profiles[pool]->memory_bytes;
    view.problem.profiles[pool] =
        std::make_shared<const profile::AcceleratorProfile>(std::move(profile));
    view.problem.cluster.pools[pool].network = problem.cluster.pools[slowest].network;
  }
  return view;
}

absl::StatusOr<std::optional<Costed>> PlanForView(const SearchRequest& request, Executor& executor,
                                                  const Interrupter& interrupter) {
  for (const ViewedMemory memory : {ViewedMemory::kLeast, ViewedMemory::kOwn}) {
    HAPMOE_ASSIGN_OR_RETURN(Outcome outcome,
                            SearchPlans(HomogeneousView(request, memory), executor, interrupter));
    if (outcome.best.has_value()) return std::move(outcome.best);
  }
  return std::nullopt;
}

}  // namespace hapmoe::search
