// Turns request messages into core structs. Nowhere else does a wire message meet core.
//
// Every function checks counts and lengths before it does any work, appends the faults it finds to
// `violations`, and returns what could be read all the same. Fields are paths within the message
// given, as "cluster.pools[1].nodes".
#ifndef HAPMOE_SERVER_WIRE_FROM_WIRE_H_
#define HAPMOE_SERVER_WIRE_FROM_WIRE_H_

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/violation.h"
#include "core/cluster/cluster.h"
#include "core/engine/schedulers/scheduler_options.h"
#include "core/model/router_statistics.h"
#include "core/model/transformer_spec.h"
#include "core/plan/plan.h"
#include "core/profile/accelerator_profile.h"
#include "core/search/allocation.h"
#include "core/search/objectives.h"
#include "core/search/search.h"
#include "hapmoe/v1/cluster.pb.h"
#include "hapmoe/v1/job.pb.h"
#include "hapmoe/v1/launch.pb.h"
#include "hapmoe/v1/plan.pb.h"
#include "hapmoe/v1/planner.pb.h"
#include "hapmoe/v1/profile.pb.h"

namespace hapmoe::server {

// Limits on what a caller may send, beside those of cluster::Validate and profile::Validate.
inline constexpr int kMaxRequestIdBytes = 128;
inline constexpr int kMaxArguments = 4096;
inline constexpr size_t kMaxArgumentBytes = 32768;
inline constexpr size_t kMaxArgumentsBytes = 262144;  // All together.
inline constexpr size_t kMaxEntryBytes = 1024;
inline constexpr int kMaxLinks = 2016;  // One for each pair of 64 pools.
inline constexpr int kMaxDegreeChoices = 64;
inline constexpr int32_t kMaxDegree = 1 << 20;
inline constexpr double kMaxLoadBalanceRatio = 10;
inline constexpr size_t kMaxNotesBytes = 65536;
inline constexpr uint32_t kMaxMemorySteps = 8;
inline constexpr int kMaxPlacements = 64;  // Types, and entries of what each of them lists.

inline constexpr char kDefaultEngine[] = "megatron-lm";
inline constexpr char kDefaultEntry[] = "pretrain_gpt.py";
inline constexpr double kDefaultMemoryHeadroomRatio = 0.05;
inline constexpr int64_t kDefaultAcceleratorsPerNode = 8;

// At most kMaxRequestIdBytes printable characters.
// What callers may name a request by; nothing is allowed.
bool IsRequestId(absl::string_view request_id);
void CheckRequestId(absl::string_view request_id, Violations& violations);

// Checked by cluster::Validate too.
cluster::Cluster ClusterFromWire(const v1::Cluster& wire, Violations& violations);

// A job as the engine's parser takes it. A structured job becomes the equivalent arguments: there
// is one interpretation of a job, the parser's.
struct JobArguments {
  std::vector<std::string> megatron_args;
  std::string entry;
  // The caller leaves the micro-batch size to the planner; the arguments then say 1.
  bool any_micro_batch = false;
};
JobArguments JobFromWire(const v1::Job& wire, Violations& violations);

// The quantile of expert load that memory must hold, or the default.
double ImbalanceQuantileFromWire(const v1::Job& wire, Violations& violations);

// The router's statistics of a job whose model was read; null where there are none, or faults.
std::shared_ptr<const model::RouterStatistics> RouterStatisticsFromWire(
    const v1::Job& wire, const model::TransformerSpec& model, Violations& violations);

// What a caller may ask of a search.
struct PlanLimits {
  std::string engine;
  search::Constraints constraints;
  double memory_headroom_ratio = kDefaultMemoryHeadroomRatio;
  std::optional<std::chrono::nanoseconds> time_budget;
};
PlanLimits ConstraintsFromWire(const v1::Constraints& wire, Violations& violations);

// What the best plan is. `field` of faults is within "objective".
search::Objective ObjectiveFromWire(const v1::Objective& wire, Violations& violations);

// What a scheduler is to be told, completed by its defaults but for pools, which are left empty.
// Checks counts alone; `field` of faults is within PlanRequest.
engine::SchedulerOptions LaunchFromWire(const v1::LaunchOptions& wire, engine::Scheduler scheduler,
                                        const v1::SchedulerDefaults& defaults,
                                        Violations& violations);

// Fields that `from` gives take the place of those in `to`.
void MergePlacement(const v1::AcceleratorPlacement& from, v1::AcceleratorPlacement& to);
engine::Placement PlacementFromWire(const v1::AcceleratorPlacement& wire);

// Numbers of nodes of each pool; doubled ones for pools that are not listed. Assumes a cluster
// without faults.
search::AllocationSizes SizesFromWire(const google::protobuf::RepeatedPtrField<v1::PoolSizes>& wire,
                                      const cluster::Cluster& cluster, Violations& violations);

// A plan's meshes, stages and batches; what is predicted of it, its nodes and its digest are not
// read. Figures are each within bounds that search::CheckValid can take. Assumes a cluster without
// faults.
plan::Plan PlanFromWire(const v1::ExecutionPlan& wire, const cluster::Cluster& cluster,
                        Violations& violations);

// kDefaultMemoryHeadroomRatio when absent; at least 0 and below 1. `field` is named in faults.
double HeadroomFromWire(std::optional<double> ratio, absl::string_view field,
                        Violations& violations);

// Checked by profile::Validate too. A figure that is left out reads as 0, which the rules refuse
// where it is needed.
profile::AcceleratorProfile ProfileFromWire(const v1::AcceleratorProfile& wire,
                                            Violations& violations);

}  // namespace hapmoe::server

#endif  // HAPMOE_SERVER_WIRE_FROM_WIRE_H_
