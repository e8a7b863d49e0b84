// A solver for tests whose answers are a table over allocations.
#ifndef HAPMOE_TESTS_CORE_SEARCH_TABLE_SOLVER_H_
#define HAPMOE_TESTS_CORE_SEARCH_TABLE_SOLVER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/base/interrupter.h"
#include "core/search/search.h"

namespace hapmoe::search {

// What the table says of one allocation.
struct TableEntry {
  double seconds = 0;
  double bytes = 0;           // Peak of the only stage, of 100.
  double lower_bound = 0;     // Of the search; the plan's own time when 0.
  std::string short_of = {};  // The rule that binds; there is no plan then.
};

// Pools "a", "b", ... of four accelerators in a node; an iteration trains 1000 tokens. Ends the
// test program where an allocation is not in the table.
class TableSolver {
 public:
  explicit TableSolver(const std::vector<int64_t>& nodes);

  // `nodes` of each pool of the cluster.
  void Set(const std::vector<int64_t>& nodes, TableEntry entry) { table_[nodes] = entry; }
  void AllowIdle(bool allow) { request_.constraints.allow_idle_accelerators = allow; }
  // Prices of an accelerator of each pool.
  void SetPrices(const std::vector<double>& prices);
  // The time runs out during this search, counted from 1, which still answers.
  void TripAfter(int64_t searches) { trip_after_ = searches; }

  const SearchRequest& request() const { return request_; }
  const Interrupter& interrupter() const { return interrupter_; }
  int64_t searched() const { return searched_; }
  const std::function<absl::StatusOr<Outcome>(const SearchRequest&)>& solve() const {
    return solve_;
  }

 private:
  absl::StatusOr<Outcome> Answer(const SearchRequest& request);

  SearchRequest request_;
  Interrupter interrupter_;
  std::map<std::vector<int64_t>, TableEntry> table_;
  int64_t searched_ = 0;
  int64_t trip_after_ = 0;
  std::function<absl::StatusOr<Outcome>(const SearchRequest&)> solve_;
};

}  // namespace hapmoe::search

#endif  // HAPMOE_TESTS_CORE_SEARCH_TABLE_SOLVER_H_
