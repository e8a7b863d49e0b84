// Lays a job's own stages over the pools of a cluster.
#ifndef HAPMOE_SERVER_PLANNING_LAYOUT_H_
#define HAPMOE_SERVER_PLANNING_LAYOUT_H_

#include "core/base/violation.h"
#include "core/cluster/cluster.h"
#include "core/plan/plan.h"

namespace hapmoe::server {

// Fills the pools in the order given: rank r runs on the r-th accelerator of the cluster. `plan`
// has one mesh; the result has one for each run of stages on one pool. A stage whose ranks lie on
// two pools is a fault, "stage_within_pool". Assumes that the cluster has accelerators enough.
plan::Plan SplitByPool(const plan::Plan& plan, const cluster::Cluster& cluster,
                       Violations& violations);

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_PLANNING_LAYOUT_H_
