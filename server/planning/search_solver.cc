#include "server/planning/plan_solver.h"

namespace hapmoe::server {

absl::StatusOr<search::Outcome> SearchSolver::Search(
    const search::SearchRequest& request, Executor& executor, const Interrupter& interrupter,
    absl::FunctionRef<void(const search::Progress&)> progress) const {
  return search::Search(request, executor, interrupter, progress);
}

}  // namespace hapmoe::server
