// Reads a request into a problem that core can work on, or into the error that its caller sees.
#ifndef HAPMOE_SERVER_PLANNING_PROBLEM_READER_H_
#define HAPMOE_SERVER_PLANNING_PROBLEM_READER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/violation.h"
#include "core/cost/problem.h"
#include "core/engine/megatron_job.h"
#include "core/engine/schedulers/scheduler_options.h"
#include "core/plan/plan.h"
#include "core/search/allocation.h"
#include "core/search/objectives.h"
#include "core/search/search.h"
#include "hapmoe/v1/planner.pb.h"
#include "server/planning/corrections.h"
#include "server/planning/engine_catalog.h"
#include "server/planning/launch_reader.h"
#include "server/profile_store/profile_catalog.h"
#include "server/wire/from_wire.h"

namespace hapmoe::server {

// Stands for every engine in Constraints.engine.
inline constexpr char kAnyEngine[] = "any";

// An engine that is asked for.
struct ReadEngine {
  std::string name;
  const EngineCapabilities* capabilities = nullptr;  // Never null. Owned by the catalog.
  Violations faults = {};  // Why it cannot run the job on this cluster, whatever the plan.
};

// A validated problem.
struct ReadProblem {
  engine::MegatronJob job;
  std::string entry;
  cost::Problem problem;
  PlanLimits limits;
  search::Objective objective;
  // Allocations to search; empty where the objective is time and a call asks for one plan.
  std::vector<search::Allocation> allocations;
  int64_t memory_steps = 0;
  // What to tell a scheduler, by the problem's pools; nothing where none is asked for.
  std::optional<engine::SchedulerOptions> scheduler;
  // Set by Correct: what reports say, and the profiles as they are without.
  std::shared_ptr<const CorrectedProfiles> corrections;
  Profiles uncorrected;
  // Those that may run the plan: one, or several where any may.
  std::vector<ReadEngine> engines;
  const EngineCatalog* catalog = nullptr;  // Of all engines. Never null.

  bool any_engine() const { return limits.engine == kAnyEngine; }
  // What the engine of a plan of this problem can run.
  const EngineCapabilities& EngineOf(const plan::Plan& plan) const;
};

// A validated layout.
struct ReadLayout {
  ReadProblem problem;
  plan::Plan plan;
};

// Reads what Plan and StreamPlan ask. Faults of the request are all told at once; profiles are
// looked for only when there are none. Fields are paths of PlanRequest.
absl::StatusOr<ReadProblem> ReadPlanRequest(const std::string& request_id,
                                            const v1::Problem& problem,
                                            const ProfileCatalog& profiles,
                                            const EngineCatalog& engines,
                                            const LaunchRequest& launch = {});

// Reads what Frontier asks.
absl::StatusOr<ReadProblem> ReadFrontierRequest(const v1::FrontierRequest& request,
                                                const ProfileCatalog& profiles,
                                                const EngineCatalog& engines);

// What Explain asks: a problem, and its own layout or the rules that it breaks.
struct ReadExplanation {
  ReadProblem problem;
  std::optional<ReadLayout> layout;
  Violations layout_faults;
};
absl::StatusOr<ReadExplanation> ReadExplainRequest(const v1::ExplainRequest& request,
                                                   const ProfileCatalog& profiles,
                                                   const EngineCatalog& engines);

// What the search is asked about a problem that was read.
search::SearchRequest SearchRequestOf(const ReadProblem& read);

// Simulating an iteration of a layout takes some tens of nanoseconds a pass: at most this many.
inline constexpr int64_t kMostPasses = int64_t{1} << 24;

// A fault "passes_in_range" of `field` where an iteration of the plan has more than `most` passes.
void CheckPasses(const plan::Plan& plan, int64_t most, absl::string_view field,
                 Violations& violations);

// Reads what Evaluate asks, and checks the job's own layout by the engine's rules.
absl::StatusOr<ReadLayout> ReadEvaluateRequest(const v1::EvaluateRequest& request,
                                               const ProfileCatalog& profiles,
                                               const EngineCatalog& engines);

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_PLANNING_PROBLEM_READER_H_
