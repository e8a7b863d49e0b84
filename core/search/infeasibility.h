// Why there is no plan, and what would make one.
#ifndef HAPMOE_CORE_SEARCH_INFEASIBILITY_H_
#define HAPMOE_CORE_SEARCH_INFEASIBILITY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hapmoe::search {

// A change to a request.
struct Suggestion {
  enum class Kind {
    kAllowIdle,         // Accelerators may idle.
    kChooseRecompute,   // The recomputation is the planner's choice.
    kMicroBatch,        // Allow micro-batches of `amount` samples.
    kDegree,            // Allow `amount` for the degree `subject`; any where that is 0.
    kShardOptimizer,    // Shard the optimizer states.
    kOffloadOptimizer,  // Keep `amount` hundredths of the optimizer states in host memory.
    kAddNodes,          // Add `amount` nodes to pool `subject`.
  };
  Kind kind = Kind::kAllowIdle;
  int64_t amount = 0;
  std::string subject;  // "tp", "cp", "ep", "etp", "dp", "pp" or "vp", or a pool's name.
  std::string sentence;

  friend bool operator==(const Suggestion&, const Suggestion&) = default;
};

struct Infeasibility {
  std::string summary;           // One sentence: what binds.
  std::string binding_rule;      // "memory", or the rule that ruled out most candidates.
  std::optional<int64_t> stage;  // Of the plan that comes closest, where memory binds.
  double bytes_short = 0;        // Of that stage.
  // The first of `suggestions`, or all of `together`, in words; empty where there is neither.
  std::string suggestion;
  // Each is enough alone, and would not be if it were a step smaller: the value next to the allowed
  // ones, the fewest nodes, the fewest hundredths. What costs least comes first.
  std::vector<Suggestion> suggestions = {};
  // Where none is enough alone: changes that are together, none of which can be left out.
  std::vector<Suggestion> together = {};
};

}  // namespace hapmoe::search

#endif  // HAPMOE_CORE_SEARCH_INFEASIBILITY_H_
