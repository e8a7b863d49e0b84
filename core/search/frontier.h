// The frontier over allocations: what parts of a cluster would give, each by a search of its own.
#ifndef HAPMOE_CORE_SEARCH_FRONTIER_H_
#define HAPMOE_CORE_SEARCH_FRONTIER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "core/base/interrupter.h"
#include "core/search/allocation.h"
#include "core/search/search.h"

namespace hapmoe::search {

// What one allocation gives under one headroom.
struct FrontierPoint {
  Allocation allocation;
  int64_t accelerators = 0;  // Of the allocation, used or idle.
  double memory_headroom_ratio = 0;
  // Of its search, its plans in terms of the whole cluster. Absent where it was not searched.
  std::optional<Outcome> outcome;
  std::string why;  // Why there is no plan: a sentence. Empty where there is one.
  // Its search was finished, or was not needed.
  bool settled = true;
  // No other point has a plan that is as good in iteration time, peak device memory and
  // accelerators used, and better in one of them.
  bool on_pareto_front = false;

  bool planned() const { return outcome.has_value() && outcome->best.has_value(); }
  const Costed& best() const { return *outcome->best; }
};

// Searches a request; search::Search with its executor, its interrupter and its progress bound.
using Solve = absl::FunctionRef<absl::StatusOr<Outcome>(const SearchRequest&)>;

// Searches allocations of one request, one after the other, and knows what one search says of the
// allocations within it. That is nothing unless accelerators may idle: only then is a plan of a
// smaller allocation a plan of a larger one.
class AllocationSearches {
 public:
  // All must outlive this object. `interrupter` is the one that `solve` obeys.
  AllocationSearches(const SearchRequest& request, Solve solve, const Interrupter& interrupter)
      : request_(request), solve_(solve), interrupter_(interrupter) {}

  // Searches an allocation, unless the interrupter has tripped or nothing can fit.
  absl::StatusOr<FrontierPoint> Search(const Allocation& allocation);
  // The same with another headroom, which must be larger than the request's.
  absl::StatusOr<FrontierPoint> SearchTightened(const Allocation& allocation,
                                                double memory_headroom_ratio);

  // No plan of the allocation takes less, as far as the searches so far tell: infinity where
  // nothing fits, 0 where nothing is known.
  double LowerBoundSeconds(const Allocation& allocation) const;

  // A point that is not searched, and why.
  FrontierPoint Unsearched(const Allocation& allocation, std::string why) const;
  // One that the time, or the memory, does not suffice for.
  FrontierPoint CutOff(const Allocation& allocation) const;

 private:
  struct Known {
    Allocation allocation;
    double lower_bound_seconds = 0;
  };

  absl::StatusOr<FrontierPoint> Solved(FrontierPoint point) const;

  const SearchRequest& request_;
  const Solve solve_;
  const Interrupter& interrupter_;
  std::vector<Known> known_;
};

struct FrontierRequest {
  std::vector<Allocation> allocations;
  // Searches of each allocation beside the first, each with a tenth less memory than the fullest
  // stage of the plan before took; their points are kept where they are on the Pareto front.
  int64_t memory_steps = 0;
};

// How far the searches of a frontier are.
struct FrontierProgress {
  int64_t done = 0;
  int64_t most = 0;
  // What the frontier would come to if its time ended now. Copies points; callable while this is
  // told.
  std::function<std::vector<FrontierPoint>()> so_far;
};

// One point for each allocation, in their order, and those of its further searches behind it. After
// the interrupter has tripped, allocations are not searched any more. `progress` is told after each
// search. Fails as Search does.
absl::StatusOr<std::vector<FrontierPoint>> Frontier(
    const SearchRequest& request, const FrontierRequest& frontier, Solve solve,
    const Interrupter& interrupter, absl::FunctionRef<void(const FrontierProgress&)> progress);

// Sets on_pareto_front. Of points that are equal in all three figures the first is on it.
void MarkParetoFront(std::vector<FrontierPoint>& points);

}  // namespace hapmoe::search

#endif  // HAPMOE_CORE_SEARCH_FRONTIER_H_
