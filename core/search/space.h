// The space: sets of degrees and micro-batch sizes that the engine and the request allow.
#ifndef HAPMOE_CORE_SEARCH_SPACE_H_
#define HAPMOE_CORE_SEARCH_SPACE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/interrupter.h"
#include "core/plan/plan.h"
#include "core/search/search.h"

namespace hapmoe::search {

// One set of degrees for all stages; layers, placement and recomputation are still open.
struct Candidate {
  plan::Degrees degrees;
  int64_t micro_batch = 1;
  int64_t micro_batches = 1;
  // Most stages that each pool can hold.
  std::vector<int64_t> pool_stages;

  int64_t max_stages() const {
    int64_t sum = 0;
    for (const int64_t stages : pool_stages) sum += stages;
    return sum;
  }
};

struct Space {
  std::vector<Candidate> candidates;
  std::map<std::string, int64_t> pruned;  // Sets of degrees that were ruled out, by rule.
  std::vector<std::string> restrictions;  // In words.
};

// A plan of a candidate without stages yet.
plan::Plan EmptyPlan(const Candidate& candidate);

// Adds a stage behind the others, to the last mesh or to a new one.
void AddStage(plan::Plan& plan, const Candidate& candidate, int64_t pool, plan::Stage stage);

// Whether the first pool of a pipeline alone leaves a node half used, when every pool of `order`
// holds all the stages that it can: only there may the rest of a node idle.
bool FillsNodes(const SearchRequest& request, const Candidate& candidate,
                const std::vector<int64_t>& order);

// Enumerates the space in a fixed order. Every stage has the same number of ranks, tp x cp x dp.
// Stops early, with what it has, when `interrupter` trips.
Space EnumerateSpace(const SearchRequest& request, const Interrupter& interrupter);

// Whether a plan with this many stages may be returned, by the request's list of pp.
bool StagesAllowed(const Constraints& constraints, int64_t stages);

}  // namespace hapmoe::search

#endif  // HAPMOE_CORE_SEARCH_SPACE_H_
