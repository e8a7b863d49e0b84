// Answers what callers ask about plans, without knowing how they ask.
#ifndef HAPMOE_SERVER_PLANNING_PLANNER_H_
#define HAPMOE_SERVER_PLANNING_PLANNER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "core/base/interrupter.h"
#include "core/base/memory_budget.h"
#include "hapmoe/v1/planner.pb.h"
#include "server/concurrency/deadline_timer.h"
#include "server/concurrency/thread_pool.h"
#include "server/planning/corrections.h"
#include "server/planning/engine_catalog.h"
#include "server/planning/plan_basis.h"
#include "server/planning/plan_solver.h"
#include "server/planning/problem_reader.h"
#include "server/planning/scheduler_catalog.h"
#include "server/profile_store/profile_store.h"

namespace hapmoe::server {

// Told what a call would answer with so far while its searches run, from one thread at a time. Must
// return soon: the search waits.
template <typename Response>
class SoFarObserver {
 public:
  virtual ~SoFarObserver() = default;
  // Whether OnSoFar is of use now. Any thread.
  virtual bool WantsSoFar() const { return false; }
  // `build` gives what the call would answer if its time ended now, or why it would fail. It takes
  // as long as building an answer does, may be called by any thread, and outlives the search.
  virtual void OnSoFar(const std::function<absl::StatusOr<Response>()>& /*build*/) {}
};

// Told about the search of a plan too.
class PlanObserver : public SoFarObserver<v1::PlanAnswer> {
 public:
  virtual void OnProgress(const v1::Progress& progress) = 0;
  // A better plan than any before, without artifacts.
  virtual void OnIncumbent(v1::PlanAnswer answer) = 0;
  // Whether OnIncumbent is worth building an answer for.
  virtual bool WantsIncumbents() const { return true; }
};

// A problem to plan that was read: without faults, and with the profiles that it needs. Immutable.
struct PreparedPlan {
  v1::Problem problem;  // As it was asked.
  ReadProblem read;
  int64_t cpu_nanoseconds = 0;  // Spent on reading it.
};

// The same of what Frontier and Explain ask.
struct PreparedFrontier {
  ReadProblem read;
  int64_t cpu_nanoseconds = 0;
};
struct PreparedExplanation {
  v1::ExplainRequest request;
  ReadExplanation read;
  int64_t cpu_nanoseconds = 0;
};

// Errors are those that the services document, with their details (server/errors); any other error
// is a fault of ours.
//
// Thread safe. Calls take as long as a search takes and use the calling thread and the helpers of
// the pool: they belong on a thread of the pool.
class Planner {
 public:
  struct Options {
    std::chrono::nanoseconds max_time_budget = std::chrono::seconds(30);
    // Progress is told at most this often; better plans always.
    std::chrono::nanoseconds progress_interval = std::chrono::milliseconds(100);
    // Must outlive the planner. Null: no scheduler is known.
    const SchedulerCatalog* schedulers = nullptr;
    // What all searches may have together. Must outlive the planner. Null: nobody counts.
    MemoryBudget* memory = nullptr;
  };

  // All must outlive the planner. `corrections` may be null: profiles then hold as they are.
  Planner(const ProfileStore& profiles, const EngineCatalog& engines, const PlanSolver& solver,
          ThreadPool& pool, DeadlineTimer& timer, Options options,
          CorrectionsSource* corrections = nullptr);

  // The best plan by the problem's objective. Trips `interrupter` when the time budget has passed;
  // stops soon after it is tripped, by whomever, with the best plan found by then. `observer` may
  // be null.
  absl::StatusOr<v1::PlanAnswer> Plan(
      const std::string& request_id, const v1::Problem& problem,
      const std::shared_ptr<Interrupter>& interrupter, PlanObserver* observer,
      const v1::LaunchOptions& launch = v1::LaunchOptions::default_instance()) const;

  // Plan in two steps. Preparing takes as long as reading does and searches nothing; `view` is that
  // of the plan.
  absl::StatusOr<std::shared_ptr<const PreparedPlan>> Prepare(const std::string& request_id,
                                                              const v1::Problem& problem,
                                                              const v1::LaunchOptions& launch,
                                                              const ProfileView& view) const;
  // Without a budget the caller trips the interrupter when time is over.
  absl::StatusOr<v1::PlanAnswer> Search(const std::shared_ptr<const PreparedPlan>& prepared,
                                        std::optional<std::chrono::nanoseconds> budget,
                                        const std::shared_ptr<Interrupter>& interrupter,
                                        PlanObserver* observer) const;

  // Keeps the plans of an answer to a problem for reports. Search does so with its own.
  void Remember(const v1::Problem& problem, const v1::PlanAnswer& answer) const;

  // What plans that are made now rest on.
  ProfileView View() const;
  // The time that a search may take.
  std::chrono::nanoseconds BudgetOf(const ReadProblem& read) const;

  // What parts of the cluster would give, without the request's id. Budget and interrupter are
  // those of all its searches.
  absl::StatusOr<std::shared_ptr<const PreparedFrontier>> Prepare(
      const v1::FrontierRequest& request, const ProfileView& view) const;
  absl::StatusOr<v1::FrontierResponse> Search(
      const std::shared_ptr<const PreparedFrontier>& prepared,
      std::optional<std::chrono::nanoseconds> budget,
      const std::shared_ptr<Interrupter>& interrupter,
      SoFarObserver<v1::FrontierResponse>* observer) const;

  // The best plan beside the job's own layout, without the request's id.
  absl::StatusOr<std::shared_ptr<const PreparedExplanation>> Prepare(
      const v1::ExplainRequest& request, const ProfileView& view) const;
  absl::StatusOr<v1::ExplainResponse> Search(
      const std::shared_ptr<const PreparedExplanation>& prepared,
      std::optional<std::chrono::nanoseconds> budget,
      const std::shared_ptr<Interrupter>& interrupter,
      SoFarObserver<v1::ExplainResponse>* observer) const;
  // Keeps what an answer shows for reports. Search does so with its own.
  void Remember(const v1::ExplainRequest& request, const v1::ExplainResponse& response) const;

  absl::StatusOr<v1::EvaluateResponse> Evaluate(const v1::EvaluateRequest& request) const;

  std::chrono::nanoseconds max_time_budget() const { return options_.max_time_budget; }
  int search_threads() const { return pool_.threads(); }

 private:
  // Keeps the layout of a job's own arguments for reports.
  void RememberLayout(const v1::Job& job, const v1::Cluster& cluster, int32_t world_size,
                      const v1::ExecutionPlan& plan) const;

  const ProfileStore& profiles_;
  const EngineCatalog& engines_;
  const PlanSolver& solver_;
  ThreadPool& pool_;
  DeadlineTimer& timer_;
  const Options options_;
  CorrectionsSource* const corrections_;
};

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_PLANNING_PLANNER_H_
