// Which accelerators the stages at the end of a pipeline take: the states of the dynamic program.
#ifndef HAPMOE_CORE_SEARCH_USED_UNITS_H_
#define HAPMOE_CORE_SEARCH_USED_UNITS_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/interrupter.h"
#include "core/base/memory_budget.h"

namespace hapmoe::search {

// Stages that may stand at one place: a pool, and the units of it that each takes.
struct Port {
  int64_t pool = 0;
  int64_t units = 1;
  std::vector<size_t> kinds;  // Of the candidate, ways to run a stage of this port.
};

// Every number of stages with the units of each pool that they take together, fewest stages first.
// Number 0 takes none. Where all ports take one unit, the number of stages follows from the units.
class UsedUnits {
 public:
  static constexpr int32_t kNone = -1;

  struct Limits {
    std::vector<int64_t> pool_units;
    int64_t max_stages = 0;
    int64_t max_states = 0;  // Enumeration stops there: see complete().
    // A pool is left only when it is used up, and never returned to.
    bool contiguous = false;
    MemoryMeter* memory = nullptr;  // Charged for the states; null: nobody counts.
  };

  // Stops early, incomplete, when `interrupter` trips or memory is refused.
  UsedUnits(const std::vector<Port>& ports, const Limits& limits, const Interrupter& interrupter);

  bool complete() const { return complete_; }
  size_t size() const { return stages_.size(); }
  int64_t Of(size_t state, size_t pool) const { return units_[state * pools_ + pool]; }
  int64_t stages(size_t state) const { return stages_[state]; }
  int64_t units(size_t state) const;
  // The state with one stage of a port less, or kNone.
  int32_t Without(size_t state, size_t port) const { return without_[state * ports_ + port]; }

 private:
  const size_t pools_;
  const size_t ports_;
  bool complete_ = true;
  MemoryCharge charge_;
  std::vector<int64_t> units_;
  std::vector<int64_t> stages_;
  std::vector<int32_t> without_;
};

}  // namespace hapmoe::search

#endif  // HAPMOE_CORE_SEARCH_USED_UNITS_H_
