// What holds an iteration up beside arithmetic.
#ifndef HAPMOE_CORE_COST_BOTTLENECKS_H_
#define HAPMOE_CORE_COST_BOTTLENECKS_H_

#include <string>
#include <vector>

#include "core/cost/prediction.h"
#include "core/cost/problem.h"
#include "core/plan/plan.h"

namespace hapmoe::cost {

// One sentence for each of network, links between pools, fabric inside nodes and host that, were it
// twice as fast, would save a tenth of the iteration or more: the same plan is predicted again with
// it. `prediction` is the plan's. Costs up to four evaluations.
std::vector<std::string> Bottlenecks(const Problem& problem, const plan::Plan& plan,
                                     const Prediction& prediction);

}  // namespace hapmoe::cost

#endif  // HAPMOE_CORE_COST_BOTTLENECKS_H_
