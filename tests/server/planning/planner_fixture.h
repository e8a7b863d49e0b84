// A planner for tests.
#ifndef HAPMOE_TESTS_SERVER_PLANNING_PLANNER_FIXTURE_H_
#define HAPMOE_TESTS_SERVER_PLANNING_PLANNER_FIXTURE_H_

#include <memory>
#include <utility>

#include "core/base/status_macros.h"
#include "server/planning/planner.h"
#include "tests/server/testing/built_in.h"

namespace hapmoe::server {

// A planner over the built-in data and a solver.
class PlannerFixture {
 public:
  explicit PlannerFixture(std::unique_ptr<PlanSolver> solver = std::make_unique<SearchSolver>())
      : profiles_(BuiltInProfiles()),
        engines_(BuiltInEngines()),
        solver_(std::move(solver)),
        pool_(2, 8),
        schedulers_(BuiltInSchedulers()),
        planner_(*profiles_, engines_, *solver_, pool_, timer_, {.schedulers = &schedulers_}) {}

  absl::StatusOr<v1::PlanAnswer> Plan(const v1::PlanRequest& request,
                                      PlanObserver* observer = nullptr) {
    return planner_.Plan(request.request_id(), request.problem(), interrupter_, observer,
                         request.launch());
  }
  absl::StatusOr<v1::FrontierResponse> Frontier(const v1::FrontierRequest& request) {
    HAPMOE_ASSIGN_OR_RETURN(const auto prepared, planner_.Prepare(request, planner_.View()));
    return planner_.Search(prepared, planner_.BudgetOf(prepared->read), interrupter_,
                           /*observer=*/nullptr);
  }
  absl::StatusOr<v1::ExplainResponse> Explain(const v1::ExplainRequest& request) {
    HAPMOE_ASSIGN_OR_RETURN(const auto prepared, planner_.Prepare(request, planner_.View()));
    return planner_.Search(prepared, planner_.BudgetOf(prepared->read.problem), interrupter_,
                           /*observer=*/nullptr);
  }
  Planner& planner() { return planner_; }
  Interrupter& interrupter() { return *interrupter_; }

 private:
  std::unique_ptr<ProfileStore> profiles_;
  EngineCatalog engines_;
  std::unique_ptr<PlanSolver> solver_;
  DeadlineTimer timer_;
  ThreadPool pool_;
  std::shared_ptr<Interrupter> interrupter_ = std::make_shared<Interrupter>();
  SchedulerCatalog schedulers_;
  Planner planner_;
};

}  // namespace hapmoe::server

#endif  // HAPMOE_TESTS_SERVER_PLANNING_PLANNER_FIXTURE_H_
