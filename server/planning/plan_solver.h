// What answers a search: the seam between the service and the search itself.
#ifndef HAPMOE_SERVER_PLANNING_PLAN_SOLVER_H_
#define HAPMOE_SERVER_PLANNING_PLAN_SOLVER_H_

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "core/base/executor.h"
#include "core/base/interrupter.h"
#include "core/search/search.h"

namespace hapmoe::server {

// Thread safe; the contract is that of search::Search.
class PlanSolver {
 public:
  virtual ~PlanSolver() = default;

  virtual absl::StatusOr<search::Outcome> Search(
      const search::SearchRequest& request, Executor& executor, const Interrupter& interrupter,
      absl::FunctionRef<void(const search::Progress&)> progress) const = 0;
};

// search::Search.
class SearchSolver : public PlanSolver {
 public:
  absl::StatusOr<search::Outcome> Search(
      const search::SearchRequest& request, Executor& executor, const Interrupter& interrupter,
      absl::FunctionRef<void(const search::Progress&)> progress) const override;
};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_PLANNING_PLAN_SOLVER_H_
