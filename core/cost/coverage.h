// What the time of each operation of a plan rests on: where measuring more would tell most.
#ifndef HAPMOE_CORE_COST_COVERAGE_H_
#define HAPMOE_CORE_COST_COVERAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/cost/prediction.h"
#include "core/cost/problem.h"
#include "core/plan/plan.h"

namespace hapmoe::cost {

// All executions of one operation in an iteration, forward and backward, on all stages of one
// accelerator type; what recomputation repeats is not counted again. Shapes are those of
// model::Operation, 0 where an operation only moves memory.
struct OperationCoverage {
  std::string accelerator;
  std::string operation;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t groups = 0;
  Evidence evidence;
};

// Operations that compute, the most calculated time first. `plan` must be valid for the problem and
// its precision supported, as for Predict. Looks up each time once for each mesh, as MeshCost does.
std::vector<OperationCoverage> CoverageOf(const Problem& problem, const plan::Plan& plan);

}  // namespace hapmoe::cost

#endif  // HAPMOE_CORE_COST_COVERAGE_H_
