// What CheckPlacement and CheckSchedulerOptions find.
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/engine/schedulers/scheduler_options.h"
#include "core/engine/schedulers/words.h"

namespace hapmoe::engine {
namespace {

// JobSet names pods NAME-gNN-0-NNNNN-xxxxx, which must be 63 characters at most.
constexpr size_t kLongestName = 40;
constexpr size_t kMaxVolumes = 64;
constexpr size_t kMaxVariables = 256;
constexpr size_t kMaxVariableBytes = 32768;
constexpr int64_t kMaxRestarts = 1000;
constexpr size_t kMaxCapabilities = 64;

// Collects faults of fields, which are paths behind a prefix.
class Checker {
 public:
  Checker(std::string prefix, Violations& violations)
      : prefix_(std::move(prefix)), violations_(violations) {}

  void Add(absl::string_view rule, absl::string_view field, std::string message) {
    violations_.push_back({std::string(rule), absl::StrCat(prefix_, field), std::move(message)});
  }

  // A text that is left out or holds.
  void Text(const std::string& text, bool (*holds)(absl::string_view), absl::string_view field,
            absl::string_view what) {
    if (text.empty() || holds(text)) return;
    Add("launch_word_valid", field,
        absl::StrCat("Must be ", what, "; this one has ", text.size(), " bytes."));
  }

 private:
  const std::string prefix_;
  Violations& violations_;
};

constexpr char kSlurmWord[] =
    "letters, digits and ._-+@:/=,&|*()[] that Slurm takes without quotes, not starting with a "
    "dash";
constexpr char kPath[] = "an absolute path without control characters";
constexpr char kImage[] = "printable characters without blanks, not starting with a dash";
constexpr char kQualified[] = "a name of Kubernetes, \"nvidia.com/gpu\" for example";
constexpr char kSubdomain[] = "lower case letters, digits, dashes and dots";

bool IsLabel(absl::string_view text) { return IsDnsLabel(text); }

// Fields that only one kind of scheduler knows must not be dropped silently.
void CheckKnown(const SchedulerOptions& options, Checker& check) {
  const bool slurm = options.scheduler == Scheduler::kSlurm;
  const auto unknown = [&](bool given, absl::string_view field, absl::string_view instead) {
    if (!given) return;
    check.Add("launch_field_of_scheduler", field,
              absl::StrCat("The scheduler ", SchedulerName(options.scheduler),
                           " has no such setting; ", instead));
  };
  if (slurm) {
    unknown(!options.kube_namespace.empty(), "namespace", "leave it out.");
    unknown(!options.queue.empty(), "queue", "give the partition of each accelerator type.");
    unknown(!options.shared_memory.empty(), "shared_memory",
            "processes share that of their host; leave it out.");
    unknown(options.host_network, "host_network", "jobs use that of their host; leave it out.");
    unknown(!options.capabilities.empty(), "capabilities", "leave them out.");
  } else {
    unknown(!options.account.empty(), "slurm.account", "leave it out.");
    unknown(!options.qos.empty(), "slurm.qos", "leave it out.");
    unknown(!options.time_limit.empty(), "slurm.time_limit", "leave it out.");
    unknown(!options.signal.empty(), "slurm.signal", "leave it out.");
  }
  if (options.scheduler != Scheduler::kJobSet) {
    unknown(!options.service_name.empty(), "service_name",
            slurm ? "hosts know each other; leave it out."
                  : "its service has the job's name; leave it out.");
  }
}

void CheckTexts(const SchedulerOptions& options, Checker& check) {
  if (!IsDnsLabel(options.name, kLongestName)) {
    check.Add(
        "launch_name_valid", "name",
        absl::StrCat("Must be lower case letters, digits and dashes, a letter first, at most ",
                     kLongestName, "."));
  }
  check.Text(options.kube_namespace, IsLabel, "namespace", kSubdomain);
  check.Text(options.queue, IsDnsSubdomain, "queue", kSubdomain);
  if (options.scheduler == Scheduler::kJobSet && options.queue.size() > 63) {
    check.Add("launch_word_valid", "queue", "Kueue's queues have names of at most 63 characters.");
  }
  check.Text(options.image, IsImage, "image", kImage);
  check.Text(options.working_directory, IsAbsolutePath, "working_directory", kPath);
  check.Text(options.service_name, IsLabel, "service_name",
             "lower case letters, digits and dashes, a letter first");
  check.Text(options.shared_memory, IsQuantity, "shared_memory",
             "an amount of Kubernetes, \"64Gi\" for example");
  check.Text(options.account, IsSlurmWord, "slurm.account", kSlurmWord);
  check.Text(options.qos, IsSlurmWord, "slurm.qos", kSlurmWord);
  check.Text(options.time_limit, IsSlurmTime, "slurm.time_limit",
             "a time of Slurm, \"90\" minutes or \"2-00:00:00\" for example");
  check.Text(options.signal, IsSlurmSignal, "slurm.signal",
             "a signal of Slurm and its seconds before the end, \"TERM@120\" for example");
  if (options.master_port < 1 || options.master_port > 65535) {
    check.Add("launch_port_in_range", "master_port",
              absl::StrCat("Must be from 1 to 65535, not ", options.master_port, "."));
  }
  if (options.max_restarts.value_or(0) > kMaxRestarts) {
    check.Add("launch_restarts_in_range", "max_restarts",
              absl::StrCat("Must be at most ", kMaxRestarts, ", not ", *options.max_restarts, "."));
  }
}

void CheckEnvironment(const SchedulerOptions& options, Checker& check) {
  if (options.environment.size() > kMaxVariables) {
    check.Add("launch_environment_in_range", "environment",
              absl::StrCat("At most ", kMaxVariables, " variables, not ",
                           options.environment.size(), "."));
    return;
  }
  for (const auto& [name, value] : options.environment) {
    if (!IsUserVariable(name)) {
      check.Add("launch_variable_valid", "environment",
                absl::StrCat("A variable has a name of letters, digits and underscores that the "
                             "launcher and bash do not set themselves; this is none: \"",
                             absl::StrContains(name, '\0') ? "" : name, "\"."));
    } else if (value.size() > kMaxVariableBytes || absl::StrContains(value, '\0')) {
      check.Add("launch_variable_valid", "environment",
                absl::StrCat("The value of ", name, " holds a NUL byte or more than ",
                             kMaxVariableBytes, " bytes."));
    }
  }
}

void CheckVolume(const SchedulerOptions& options, const DataVolume& volume,
                 const std::string& field, Checker& check) {
  const bool slurm = options.scheduler == Scheduler::kSlurm;
  if (!IsDnsLabel(volume.name) || volume.name == "launch" || volume.name == "shared-memory") {
    check.Add("launch_volume_valid", field + ".name",
              "Must be lower case letters, digits and dashes, a letter first, and neither launch "
              "nor shared-memory.");
  }
  for (const auto& [path, name] :
       {std::pair{&volume.mount_path, ".mount_path"}, std::pair{&volume.host_path, ".host_path"}}) {
    if (path == &volume.host_path && path->empty()) continue;
    // Kubernetes takes no ':' in a mount, pyxis neither ':' nor ','.
    if (!IsAbsolutePath(*path) || absl::StrContains(*path, ':') ||
        (slurm && absl::StrContains(*path, ','))) {
      check.Add("launch_volume_valid", field + name,
                slurm ? "Must be an absolute path without colons and commas."
                      : "Must be an absolute path without colons.");
    }
  }
  if (volume.mount_path == "/dev/shm" || volume.mount_path == "/hapmoe") {
    check.Add("launch_volume_valid", field + ".mount_path",
              absl::StrCat(volume.mount_path, " is mounted by the launcher."));
  }
  if (volume.host_path.empty() == volume.claim.empty()) {
    check.Add("launch_volume_valid", field, "Give either host_path or claim.");
  }
  check.Text(volume.claim, IsDnsSubdomain, field + ".claim", kSubdomain);
  if (slurm && !volume.claim.empty()) {
    check.Add("launch_field_of_scheduler", field + ".claim",
              "Slurm has no claims; give host_path.");
  }
}

void CheckVolumes(const SchedulerOptions& options, Checker& check) {
  if (options.volumes.size() > kMaxVolumes) {
    check.Add("launch_volumes_in_range", "volumes",
              absl::StrCat("At most ", kMaxVolumes, " volumes, not ", options.volumes.size(), "."));
    return;
  }
  std::set<std::string> names, paths;
  for (size_t i = 0; i < options.volumes.size(); ++i) {
    const std::string field = absl::StrCat("volumes[", i, "]");
    const DataVolume& volume = options.volumes[i];
    CheckVolume(options, volume, field, check);
    if (!names.insert(volume.name).second) {
      check.Add("launch_volume_unique", field + ".name", "Two volumes have this name.");
    }
    if (!paths.insert(volume.mount_path).second) {
      check.Add("launch_volume_unique", field + ".mount_path", "Two volumes are mounted here.");
    }
  }
}

void CheckCapabilities(const SchedulerOptions& options, Checker& check) {
  if (options.capabilities.size() > kMaxCapabilities) {
    check.Add("launch_capability_valid", "capabilities",
              absl::StrCat("At most ", kMaxCapabilities, "."));
    return;
  }
  for (size_t i = 0; i < options.capabilities.size(); ++i) {
    const std::string& name = options.capabilities[i];
    if (!name.empty() && name.size() <= 64 &&
        absl::c_all_of(name, [](unsigned char c) { return absl::ascii_isupper(c) || c == '_'; })) {
      continue;
    }
    check.Add("launch_capability_valid", absl::StrCat("capabilities[", i, "]"),
              "Must be upper case letters and underscores, IPC_LOCK for example.");
  }
}

// What tells the nodes of a type from others.
bool SameNodes(Scheduler scheduler, const Placement& a, const Placement& b) {
  if (scheduler != Scheduler::kSlurm) {
    return a.resource == b.resource && a.node_selector == b.node_selector;
  }
  return a.gres == b.gres && a.constraint == b.constraint && a.partition == b.partition;
}

void CheckPools(const SchedulerOptions& options, const cluster::Cluster& cluster, Checker& check) {
  const bool slurm = options.scheduler == Scheduler::kSlurm;
  std::set<std::string> told;  // Types whose gap was told.
  std::set<std::string> hosts;
  for (size_t i = 0; i < cluster.pools.size(); ++i) {
    const cluster::Pool& pool = cluster.pools[i];
    const Placement& placement = options.pools[i];
    if ((slurm ? placement.gres : placement.resource).empty() &&
        told.insert(pool.accelerator).second) {
      check.Add("launch_resource_given", "accelerators",
                absl::StrCat("Nothing is known of how ", SchedulerName(options.scheduler),
                             " counts accelerators of type \"", pool.accelerator, "\"; give its ",
                             slurm ? "gres." : "resource."));
    }
    if (!slurm && ImageOf(options, static_cast<int64_t>(i)).empty()) {
      check.Add("launch_image_given", "image",
                absl::StrCat("Pods need a container image; pool \"", pool.name,
                             "\" has none, neither for all nor for its accelerator type."));
    }
    for (const std::string& host : pool.hosts) {
      if (hosts.insert(host).second) continue;
      check.Add("launch_host_unshared", "scheduler",
                absl::StrCat("The host \"", host,
                             "\" is in two pools, and jobs ask for whole nodes; "
                             "plan without a scheduler and start launch.sh by hand."));
    }
    for (const std::string& host : pool.hosts) {
      if (slurm ? !absl::StrContains(host, ':') : IsLabelValue(host)) continue;
      check.Add(
          "launch_host_valid", "scheduler",
          absl::StrCat("The host \"", host, "\" of pool \"", pool.name, "\" has no name that ",
                       SchedulerName(options.scheduler), " could know a node by."));
      break;
    }
    for (size_t j = 0; j < i; ++j) {
      const cluster::Pool& other = cluster.pools[j];
      if (other.accelerator == pool.accelerator || (!pool.hosts.empty() && !other.hosts.empty()) ||
          !SameNodes(options.scheduler, placement, options.pools[j])) {
        continue;
      }
      check.Add("launch_pools_distinguished", "accelerators",
                absl::StrCat(
                    "Nothing tells nodes of pool \"", pool.name, "\" (", pool.accelerator,
                    ") from nodes of pool \"", other.name, "\" (", other.accelerator, ") to ",
                    SchedulerName(options.scheduler), "; give ",
                    slurm ? "a constraint, a partition or a gres with its type" : "a node_selector",
                    " for one of the types, or name the hosts of both pools."));
    }
  }
  const bool containers =
      !options.image.empty() || absl::c_any_of(options.pools, [](const Placement& placement) {
        return !placement.image.empty();
      });
  if (slurm && !containers && !options.volumes.empty()) {
    check.Add("launch_image_given", "volumes",
              "Volumes are mounted into containers; give an image, or leave them out.");
  }
}

}  // namespace

void CheckPlacement(const Placement& placement, const std::string& field, Violations& violations) {
  Checker check(field, violations);
  check.Text(placement.gres, IsSlurmWord, ".gres", kSlurmWord);
  check.Text(placement.constraint, IsSlurmWord, ".constraint", kSlurmWord);
  check.Text(placement.partition, IsSlurmWord, ".partition", kSlurmWord);
  check.Text(placement.resource, IsQualifiedName, ".resource", kQualified);
  check.Text(placement.image, IsImage, ".image", kImage);
  for (const auto& [labels, name] : {std::pair{&placement.node_selector, ".node_selector"},
                                     std::pair{&placement.pod_labels, ".pod_labels"}}) {
    for (const auto& [key, value] : *labels) {
      if (IsQualifiedName(key) && IsLabelValue(value)) continue;
      check.Add("launch_label_valid", name,
                "A label has a name of Kubernetes, and a value of at most 63 letters, digits and "
                "-_. with letters or digits at its ends.");
    }
  }
  for (const auto& [name, amount] : placement.resources) {
    if (IsQualifiedName(name) && IsQuantity(amount) && name != placement.resource) continue;
    check.Add(
        "launch_resource_valid", ".resources",
        "A resource has a name of Kubernetes and an amount, \"900Gi\" for example, and is not "
        "the accelerators'.");
  }
  for (size_t i = 0; i < placement.tolerations.size(); ++i) {
    const Toleration& toleration = placement.tolerations[i];
    const bool exists = toleration.op == "Exists";
    const bool holds =
        (exists || toleration.op.empty() || toleration.op == "Equal") &&
        (toleration.key.empty() ? exists : IsQualifiedName(toleration.key)) &&
        (exists ? toleration.value.empty() : IsLabelValue(toleration.value)) &&
        absl::c_linear_search(
            std::vector<std::string>{"", "NoSchedule", "PreferNoSchedule", "NoExecute"},
            toleration.effect);
    if (holds) continue;
    check.Add("launch_toleration_valid", absl::StrCat(".tolerations[", i, "]"),
              "A toleration is {key, operator: Exists} or {key, operator: Equal, value}, and an "
              "effect NoSchedule, PreferNoSchedule or NoExecute where it is not for all.");
  }
}

void CheckSchedulerOptions(const SchedulerOptions& options, const cluster::Cluster& cluster,
                           Violations& violations) {
  Checker check("launch.", violations);
  CheckKnown(options, check);
  CheckTexts(options, check);
  CheckEnvironment(options, check);
  CheckVolumes(options, check);
  CheckCapabilities(options, check);
  CheckPools(options, cluster, check);
}

}  // namespace hapmoe::engine
