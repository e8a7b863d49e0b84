// The space: sets of degrees and micro-batch sizes that the engine and the request allow.
#ifndef HAPMOE_CORE_SEARCH_SPACE_H_
#define HAPMOE_CORE_SEARCH_SPACE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "core/base/block_vector.h"
#include "core/base/interrupter.h"
#include "core/base/memory_budget.h"
#include "core/plan/megatron_rules.h"
#include "core/plan/plan.h"
#include "core/search/search.h"

namespace hapmoe::search {

// One way to run a stage: a pool, the degrees, and the micro-batch that follows from them.
struct StageKind {
  int64_t pool = 0;
  plan::Degrees degrees;
  int64_t micro_batch = 1;
  int64_t units = 1;  // Of Candidate::unit_ranks accelerators that a stage takes.
  // Where in the pipeline the engine allows it.
  bool first = true;
  bool inner = true;
  bool last = true;

  friend bool operator==(const StageKind&, const StageKind&) = default;
};

// Candidates are many: on so many pools they allocate nothing, and are dropped at once.
inline constexpr size_t kFewPools = 4;

using PoolUnits = absl::InlinedVector<int64_t, kFewPools>;  // Units of each pool.

// What plans that the search compares have in common: the samples of a step, the virtual stages,
// and the ways to run a stage. Layers, placement and recomputation are still open.
struct Candidate {
  // One for each pool, in their order, where all stages have one set of degrees; else several.
  absl::InlinedVector<StageKind, kFewPools> kinds;
  bool degrees_per_mesh = false;
  PoolUnits pool_units;  // What each pool holds.
  int64_t unit_ranks = 1;
  int64_t micro_batches = 1;
  std::optional<model::Dispatcher> dispatcher = {};  // The job's own when left out.
  int64_t virtual_stages = 1;
  int64_t stages = 0;  // Of every plan; 0: any number. Known with virtual stages.

  int64_t samples_per_step() const { return kinds.front().micro_batch * kinds.front().degrees.dp; }
  int64_t units() const {
    int64_t sum = 0;
    for (const int64_t units : pool_units) sum += units;
    return sum;
  }
  // Most stages that all pools hold together.
  int64_t max_stages() const {
    int64_t least = units();
    for (const StageKind& kind : kinds) least = std::min(least, kind.units);
    return least == 0 ? 0 : units() / least;
  }
};

struct Space {
  BlockVector<Candidate> candidates;
  std::map<std::string, int64_t> pruned;  // Sets of degrees that were ruled out, by rule.
  std::vector<std::string> restrictions;  // In words.
  MemoryCharge charge;                    // Of the candidates.

  // Drops the candidate where there is no memory for it, which ends the search.
  void Add(Candidate candidate);
};

// A plan of a candidate, for the engine of the constraints, without stages yet.
plan::Plan EmptyPlan(const Constraints& constraints, const Candidate& candidate);

// Adds a stage behind the others, to the last mesh or to a new one.
void AddStage(plan::Plan& plan, const StageKind& kind, plan::Stage stage);

// More virtual stages on a rank are not tried.
inline constexpr int64_t kMaxVirtualStages = 8;

// Dense layers in front of MoE layers, 0 where all layers are alike; nothing for other patterns,
// for which virtual stages are not searched.
std::optional<int64_t> LeadingDenseLayers(const model::TransformerSpec& model);

// Whether the first pool of a pipeline alone leaves a node half used, when every pool of `order`
// holds all the stages that it can: only there may the rest of a node idle.
bool FillsNodes(const SearchRequest& request, const Candidate& candidate,
                const std::vector<int64_t>& order);

// Enumerates the space of the request's engine in a fixed order. Stops early, with what it has,
// when `interrupter` trips.
Space EnumerateSpace(const SearchRequest& request, const Interrupter& interrupter);

// For engines with one set of degrees: every stage has the same number of ranks, tp x cp x dp.
Space EnumerateUniformDegrees(const SearchRequest& request, const Interrupter& interrupter);

// For engines with degrees per stage: one candidate for each number of samples in a step, and those
// with one set of degrees apart, which are quick to search.
Space EnumerateStageDegrees(const SearchRequest& request, const Interrupter& interrupter);

// What the engine's rules say of one set of degrees on `stages` stages, and the micro-batches of an
// iteration with them.
struct DegreesVerdict {
  const plan::Rule* broken = nullptr;  // The first rule; null for none.
  int64_t micro_batches = 0;
};
DegreesVerdict JudgeDegrees(const SearchRequest& request, const plan::Degrees& degrees,
                            int64_t micro_batch, int64_t stages, int64_t virtual_stages,
                            std::optional<model::Dispatcher> dispatcher);

// The dispatchers that plans may use, none of which the engine refuses for the job; flex, which
// needs ranks to send to, is the last. Nothing stands for the job's own.
std::vector<std::optional<model::Dispatcher>> AllowedDispatchers(const SearchRequest& request);

// Says which, for the restrictions of a space; nothing without experts.
std::vector<std::string> DispatcherRestriction(const SearchRequest& request);

// Whether ranks with these degrees send tokens to each other's experts: all dispatchers are one
// where they do not.
bool Dispatches(const model::TransformerSpec& model, const plan::Degrees& degrees);

// Micro-batch sizes that a plan's first stage may have.
std::vector<int64_t> AllowedMicroBatches(const SearchRequest& request);

std::vector<int64_t> Divisors(int64_t number);  // Ascending.

// Empty lists allow everything.
template <typename T>
bool Allows(const std::vector<T>& list, std::type_identity_t<T> value) {
  return list.empty() || std::find(list.begin(), list.end(), value) != list.end();
}

// Whether a plan with this many stages may be returned, by the request's list of pp.
bool StagesAllowed(const Constraints& constraints, int64_t stages);

}  // namespace hapmoe::search

#endif  // HAPMOE_CORE_SEARCH_SPACE_H_
