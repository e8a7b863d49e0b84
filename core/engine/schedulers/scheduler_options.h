// What a scheduler is told beside the plan: names, images, and what nodes of each pool are called.
#ifndef HAPMOE_CORE_ENGINE_SCHEDULERS_SCHEDULER_OPTIONS_H_
#define HAPMOE_CORE_ENGINE_SCHEDULERS_SCHEDULER_OPTIONS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/violation.h"
#include "core/cluster/cluster.h"
#include "core/engine/arguments.h"

namespace hapmoe::engine {

enum class Scheduler { kSlurm, kJobSet, kVolcano };

// "slurm", "jobset", "volcano".
absl::string_view SchedulerName(Scheduler scheduler);
std::optional<Scheduler> ParseScheduler(absl::string_view name);
// All names, in order.
std::vector<std::string> SchedulerNames();

struct Toleration {
  std::string key;
  std::string op;  // "Exists", "Equal" or empty.
  std::string value;
  std::string effect;
};

// A folder of the hosts, or a claim, inside containers.
struct DataVolume {
  std::string name;
  std::string mount_path;
  std::string host_path;
  std::string claim;
  bool read_only = false;
};

// What nodes of one accelerator type are called.
struct Placement {
  std::string gres;  // Without the count.
  std::string constraint;
  std::string partition;
  std::string resource;  // Kubernetes' name of the accelerators.
  std::map<std::string, std::string> node_selector;
  std::vector<Toleration> tolerations;
  std::map<std::string, std::string> resources;  // Further ones, of a node's pod.
  std::string image;
  std::map<std::string, std::string> pod_labels;
};

struct SchedulerOptions {
  Scheduler scheduler = Scheduler::kSlurm;
  std::string name;
  std::string kube_namespace;
  std::string queue;
  std::string image;  // Of pools whose placement has none.
  std::string working_directory;
  std::string service_name;
  int64_t master_port = 0;
  std::string shared_memory;
  std::vector<DataVolume> volumes;
  std::optional<int64_t> max_restarts;
  int64_t restarts_of_resuming_jobs = 0;  // Where max_restarts is not given.
  std::map<std::string, std::string> environment;
  bool host_network = false;
  std::vector<std::string> capabilities;

  std::string account;
  std::string qos;
  std::string time_limit;
  std::string signal;
  std::string signal_of_saving_jobs;  // Where signal is not given.

  std::vector<Placement> pools;  // By pool of the cluster.
};

// The image of a pool's nodes; empty for none.
const std::string& ImageOf(const SchedulerOptions& options, int64_t pool);

// How often a failed job is started anew. Jobs that do not load what they save would start from the
// beginning, and never are unless asked for.
int64_t RestartsOf(const SchedulerOptions& options, const Arguments& arguments);

// The signal before the end, "TERM@120"; empty for none.
std::string SignalOf(const SchedulerOptions& options, const Arguments& arguments);

// Every fault of one accelerator type's placement, whatever the scheduler. Fields are paths within
// the placement, behind `field`.
void CheckPlacement(const Placement& placement, const std::string& field, Violations& violations);

// Every fault of the options but those of placements themselves: what the scheduler does not know,
// what cannot be written for it, and pools that it could not tell apart. `options.pools` has one
// entry for each pool of `cluster`. Fields are paths of PlanRequest.
void CheckSchedulerOptions(const SchedulerOptions& options, const cluster::Cluster& cluster,
                           Violations& violations);

}  // namespace hapmoe::engine

#endif  // HAPMOE_CORE_ENGINE_SCHEDULERS_SCHEDULER_OPTIONS_H_
