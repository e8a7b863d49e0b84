// The search: the fastest plan of a stated space that fits, with a bound that says how far from the
// best it can be.
#ifndef HAPMOE_CORE_SEARCH_SEARCH_H_
#define HAPMOE_CORE_SEARCH_SEARCH_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "core/base/executor.h"
#include "core/base/interrupter.h"
#include "core/base/memory_budget.h"
#include "core/cost/prediction.h"
#include "core/cost/problem.h"
#include "core/plan/engine_facts.h"
#include "core/plan/plan.h"
#include "core/search/infeasibility.h"

namespace hapmoe::search {

// The prunings of HAPMoE (arXiv 2609.39350, section 3.4), which make the search smaller and may
// cost the best plan; none by default. Its third one, by memory, costs nothing and is always on.
struct Prunings {
  // A stage holds within (1 +- this) of its share of the layers by peak rate; 0.2 in the paper.
  std::optional<double> load_balance_ratio;
  // A transfer between types that takes longer than so many times the mean passes of a stage is not
  // used; 2 in the paper.
  std::optional<double> cross_type_ratio;

  bool any() const { return load_balance_ratio.has_value() || cross_type_ratio.has_value(); }
};

// What a plan must respect beside the engine's rules. Empty lists allow everything.
struct Constraints {
  std::string engine = plan::kMegatronLm;  // One of plan::Engines().
  std::vector<int64_t> tp, cp, ep, etp, dp, pp;
  // Empty: the job's own, on the first stage where stages have their own degrees.
  std::vector<int64_t> micro_batch;
  std::vector<int64_t> virtual_stages;         // Of each rank.
  std::vector<model::Dispatcher> dispatchers;  // Empty: the job's own.
  bool allow_idle_accelerators = false;
  bool keep_recompute = false;  // Keep the job's own recomputation on every stage.
  int64_t max_finalists = 8;    // Plans simulated for each candidate that is opened.
  Prunings prunings;
};

struct SearchRequest {
  cost::Problem problem;
  Constraints constraints;
  plan::EngineFacts facts;   // What the engine's rules ask about the job.
  bool seek_changes = true;  // Where nothing fits, say what would: Infeasibility::suggestions.
  // Charged for what grows with the request: candidates, costs that are kept, tables and labels of
  // the dynamic program. Has the interrupter of the search, which ends when it refuses. Null:
  // nobody counts.
  MemoryMeter* memory = nullptr;
};

enum class Reason { kOptimal, kIncumbent };
enum class Limit { kNone, kTime, kCancelled, kFinalists, kMemory };
Limit LimitOf(Interrupter::Cause cause);

struct Statistics {
  int64_t candidates = 0;
  int64_t candidates_opened = 0;
  std::map<std::string, int64_t> pruned;  // By the name of the rule.
  int64_t plans_simulated = 0;
  int64_t labels = 0;
};

struct Termination {
  Reason reason = Reason::kIncumbent;
  Limit limit = Limit::kNone;
  double lower_bound_seconds = 0;
  std::vector<std::string> restrictions;  // Of the space, in words.
  Statistics statistics;

  double gap_ratio(double iteration_seconds) const {
    return iteration_seconds > lower_bound_seconds
               ? (iteration_seconds - lower_bound_seconds) / iteration_seconds
               : 0;
  }
};

// A plan and what it is predicted to take.
struct Costed {
  plan::Plan plan;
  cost::Prediction prediction;
};

struct Outcome {
  std::optional<Costed> best;     // Absent: see infeasibility.
  std::optional<Costed> uniform;  // Best plan with equal layers and recomputation on every stage.
  // The best plans found that differ from the best one and from each other in degrees or numbers of
  // stages, best first. They fit; that none of their kind is better is not certified.
  std::vector<Costed> alternatives;
  Termination termination;
  std::optional<Infeasibility> infeasibility;
  std::vector<std::string> notes;  // What a reader should know of the plan, in sentences.
};

// How far a search is.
struct Progress {
  int64_t candidates = 0;
  int64_t candidates_done = 0;
  double lower_bound_seconds = 0;
  const Costed* improved = nullptr;  // A better plan than any before, or null.
  // What the search would come to if its time ended now, without an infeasibility. Copies plans;
  // callable while this is told. Null where the search cannot say.
  std::function<Outcome()> so_far;
};

// Finds the fastest plan. The result does not depend on the number of threads of `executor`. Stops
// soon after `interrupter` trips, with the best plan found by then, or with nothing when it was
// cancelled. `progress` is called from one
// thread at a time. `request` must hold validated structs.
// INVALID_ARGUMENT: an accelerator does not support the job's precision.
absl::StatusOr<Outcome> Search(const SearchRequest& request, Executor& executor,
                               const Interrupter& interrupter,
                               absl::FunctionRef<void(const Progress&)> progress);

}  // namespace hapmoe::search

#endif  // HAPMOE_CORE_SEARCH_SEARCH_H_
