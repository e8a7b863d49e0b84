// A rule that something breaks, with the values that break it.
#ifndef HAPMOE_CORE_BASE_VIOLATION_H_
#define HAPMOE_CORE_BASE_VIOLATION_H_

#include <string>
#include <vector>

namespace hapmoe {

// One fault. Faults are collected, never thrown one at a time: a caller sees all of them at once.
struct Violation {
  std::string rule;     // Name of the rule, "world_divisible_by_tp_pp_cp".
  std::string field;    // Option or field at fault, "--tensor-model-parallel-size".
  std::string message;  // One sentence that holds the offending values.

  friend bool operator==(const Violation&, const Violation&) = default;
};

using Violations = std::vector<Violation>;

}  // namespace hapmoe

#endif  // HAPMOE_CORE_BASE_VIOLATION_H_
