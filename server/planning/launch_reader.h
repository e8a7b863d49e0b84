// Reads what a scheduler is to be told, for the pools of a problem.
#ifndef HAPMOE_SERVER_PLANNING_LAUNCH_READER_H_
#define HAPMOE_SERVER_PLANNING_LAUNCH_READER_H_

#include <optional>
#include <string>

#include "core/base/violation.h"
#include "core/cluster/cluster.h"
#include "core/engine/schedulers/scheduler_options.h"
#include "hapmoe/v1/launch.pb.h"
#include "server/planning/engine_catalog.h"
#include "server/planning/scheduler_catalog.h"
#include "server/profile_store/profile_catalog.h"

namespace hapmoe::server {

// What a request says of schedulers. Null: nothing, or no scheduler is known.
struct LaunchRequest {
  const v1::LaunchOptions* options = nullptr;
  const SchedulerCatalog* schedulers = nullptr;

  bool names_scheduler() const { return options != nullptr && options->ByteSizeLong() > 0; }
};

// Nothing where the request names no scheduler. Otherwise the options, completed by the defaults of
// the scheduler and of each pool's accelerator type; all faults are appended, with paths of
// PlanRequest. `profiles` are those of the pools, null where there is none; pools are only looked
// at where all are there and the cluster has no fault.
std::optional<engine::SchedulerOptions> ReadLaunch(const LaunchRequest& request,
                                                   const cluster::Cluster& cluster,
                                                   const Profiles& profiles,
                                                   const ProfileCatalog& catalog,
                                                   Violations& violations);

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_PLANNING_LAUNCH_READER_H_
