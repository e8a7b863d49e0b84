// Other objectives than time: which part of a cluster to take for a job.
#ifndef HAPMOE_CORE_SEARCH_OBJECTIVES_H_
#define HAPMOE_CORE_SEARCH_OBJECTIVES_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "core/base/interrupter.h"
#include "core/search/allocation.h"
#include "core/search/frontier.h"
#include "core/search/search.h"

namespace hapmoe::search {

struct Objective {
  enum class Kind {
    kTime,    // The fastest plan, whatever it takes: a search of the whole cluster.
    kPrice,   // The allocation that trains most tokens for its price.
    kFewest,  // The allocation of fewest accelerators that meets the limits.
  };
  Kind kind = Kind::kTime;
  // Limits that a plan must meet; kFewest needs one.
  std::optional<double> deadline_seconds;   // Of one iteration.
  std::optional<double> tokens_per_second;  // At least.
};

// Price of an hour of an allocation, its idle accelerators included. Every pool must have a price.
double PricePerHour(const cluster::Cluster& cluster, const Allocation& allocation);

// Tokens for one unit of price; every pool must have a price.
double TokensPerPrice(const cluster::Cluster& cluster, const Allocation& allocation,
                      double tokens_per_second);

// The allocation that an objective picks, and why.
struct Choice {
  std::vector<FrontierPoint> points;  // One for each allocation, in their order.
  std::optional<size_t> winner;       // Of `points`. Absent: see `infeasibility`.
  // No other allocation can be better, and none that is as good has fewer accelerators; for kFewest
  // none with fewer accelerators can meet the limits.
  bool proven = false;
  std::string why;  // In numbers.
  // Why there is no winner; absent where the interrupter tripped before that was clear.
  std::optional<Infeasibility> infeasibility;
};

// How far a choice is.
struct ChoiceProgress {
  int64_t done = 0;  // Allocations that are settled, of `most`.
  int64_t most = 0;
  // What would be chosen if the time ended now. Copies plans; callable while this is told.
  std::function<Choice()> so_far;
};

// Picks among allocations by kPrice or kFewest. Of two that are as good the one with fewer
// accelerators wins, then the faster, then the first. Allocations that cannot win, by what searches
// of others tell, are not searched. Fails as Search does.
absl::StatusOr<Choice> Choose(const SearchRequest& request, const Objective& objective,
                              const std::vector<Allocation>& allocations, Solve solve,
                              const Interrupter& interrupter,
                              absl::FunctionRef<void(const ChoiceProgress&)> progress);

}  // namespace hapmoe::search

#endif  // HAPMOE_CORE_SEARCH_OBJECTIVES_H_
