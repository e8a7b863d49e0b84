// The borders of a pipeline: what stages send to each other, and over which links.
#ifndef HAPMOE_CORE_COST_BORDER_H_
#define HAPMOE_CORE_COST_BORDER_H_

#include <cstdint>
#include <vector>

#include "core/cost/communication_time.h"
#include "core/cost/mesh_cost.h"
#include "core/cost/problem.h"
#include "core/plan/plan.h"

namespace hapmoe::cost {

// Seconds that a stage on one mesh needs to send one micro-batch to a stage on another, or to the
// next one on its own. `reach` counts where both are on one pool. `assumed`, unless null, is set
// where the cluster does not list the link.
double SendSeconds(const Problem& problem, int64_t from_pool, const MeshCost& from, int64_t to_pool,
                   const MeshCost& to, Reach reach, bool* assumed);

// How far each stage of a plan is from the next one, and the last from the first; kNetwork where
// they are on two pools. `stage_costs`: one for each stage.
std::vector<Reach> BorderReaches(const Problem& problem, const plan::Plan& plan,
                                 const std::vector<const MeshCost*>& stage_costs);

}  // namespace hapmoe::cost

#endif  // HAPMOE_CORE_COST_BORDER_H_
