#include "core/engine/schedulers/kubernetes.h"

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace hapmoe::engine {
namespace {

constexpr char kMount[] = "/hapmoe";
constexpr char kLaunchScript[] = "launch.sh";
constexpr char kStart[] = "start.sh";
// k8s.io/api core/v1, MaxSecretSize, which holds for ConfigMaps too; some is left for the names.
constexpr size_t kMaxConfigMapBytes = (1 << 20) - 4096;

constexpr char kStartScript[] = R"BASH(#!/usr/bin/env bash
# Starts the node of the plan that this pod is: the first node rank of its group, and its index.
set -euo pipefail

index=${!HAPMOE_INDEX_VARIABLE:-}
if [[ ! $index =~ ^[0-9]{1,9}$ ]]; then
  printf '%s: %s is "%s", which is no index of a pod.\n' "${0##*/}" "$HAPMOE_INDEX_VARIABLE" \
    "$index" >&2
  exit 2
fi
exec bash "${BASH_SOURCE[0]%/*}/launch.sh" \
  --node-rank "$((HAPMOE_FIRST_NODE_RANK + 10#$index))" \
  --master-addr "$HAPMOE_MASTER_ADDR" --master-port "$HAPMOE_MASTER_PORT"
)BASH";

// Kubernetes replaces $(NAME) in values of variables, and reads $$ as $.
std::string Literal(absl::string_view text) { return absl::StrReplaceAll(text, {{"$", "$$"}}); }

Yaml Variable(absl::string_view name, absl::string_view value) {
  Yaml variable = Yaml::Map();
  variable.Set("name", name).Set("value", Literal(value));
  return variable;
}

Yaml Environment(const SchedulerOptions& options, const NodeGroup& group,
                 absl::string_view index_variable, const std::string& master) {
  Yaml list = Yaml::List();
  list.Add(Variable("HAPMOE_FIRST_NODE_RANK", absl::StrCat(group.first_node_rank)));
  list.Add(Variable("HAPMOE_INDEX_VARIABLE", index_variable));
  list.Add(Variable("HAPMOE_MASTER_ADDR", master));
  list.Add(Variable("HAPMOE_MASTER_PORT", absl::StrCat(options.master_port)));
  for (const auto& [name, value] : options.environment) list.Add(Variable(name, value));
  return list;
}

Yaml Resources(const Placement& placement, int64_t accelerators) {
  Yaml amounts = Yaml::Map();
  amounts.Set(placement.resource, Yaml::Number(accelerators));
  for (const auto& [name, amount] : placement.resources) amounts.Set(name, amount);
  // Accelerators need equal requests and limits; equal ones of everything else keep pods from being
  // evicted first.
  Yaml resources = Yaml::Map();
  resources.Set("limits", amounts).Set("requests", amounts);
  return resources;
}

Yaml Mount(absl::string_view name, absl::string_view path, bool read_only) {
  Yaml mount = Yaml::Map();
  mount.Set("name", name).Set("mountPath", path);
  if (read_only) mount.Set("readOnly", Yaml::Flag(true));
  return mount;
}

Yaml Mounts(const SchedulerOptions& options) {
  Yaml mounts = Yaml::List();
  mounts.Add(Mount("launch", kMount, true)).Add(Mount("shared-memory", "/dev/shm", false));
  for (const DataVolume& volume : options.volumes) {
    mounts.Add(Mount(volume.name, volume.mount_path, volume.read_only));
  }
  return mounts;
}

Yaml Volume(absl::string_view name, absl::string_view kind, Yaml source) {
  Yaml volume = Yaml::Map();
  volume.Set("name", name).Set(kind, std::move(source));
  return volume;
}

Yaml Volumes(const SchedulerOptions& options) {
  Yaml map = Yaml::Map();
  map.Set("name", absl::StrCat(options.name, "-launch"));
  Yaml memory = Yaml::Map();
  memory.Set("medium", "Memory");
  if (!options.shared_memory.empty()) memory.Set("sizeLimit", options.shared_memory);
  Yaml volumes = Yaml::List();
  volumes.Add(Volume("launch", "configMap", map));
  volumes.Add(Volume("shared-memory", "emptyDir", memory));
  for (const DataVolume& data : options.volumes) {
    Yaml source = Yaml::Map();
    if (data.claim.empty()) {
      source.Set("path", data.host_path);
    } else {
      source.Set("claimName", data.claim);
    }
    volumes.Add(Volume(data.name, data.claim.empty() ? "hostPath" : "persistentVolumeClaim",
                       std::move(source)));
  }
  return volumes;
}

// Only the hosts that the plan names.
Yaml HostAffinity(const NodeGroup& group) {
  Yaml expression = Yaml::Map();
  expression.Set("key", "kubernetes.io/hostname")
      .Set("operator", "In")
      .Set("values", Yaml::TextList(group.hosts));
  Yaml term = Yaml::Map();
  term.Set("matchExpressions", Yaml::List().Add(expression));
  Yaml required = Yaml::Map();
  required.Set("nodeSelectorTerms", Yaml::List().Add(term));
  Yaml node = Yaml::Map();
  node.Set("requiredDuringSchedulingIgnoredDuringExecution", required);
  return Yaml::Map().Set("nodeAffinity", node);
}

Yaml Tolerations(const Placement& placement) {
  Yaml list = Yaml::List();
  for (const Toleration& toleration : placement.tolerations) {
    Yaml one = Yaml::Map();
    for (const auto& [key, value] :
         {std::pair{"key", &toleration.key}, std::pair{"operator", &toleration.op},
          std::pair{"value", &toleration.value}, std::pair{"effect", &toleration.effect}}) {
      if (!value->empty()) one.Set(key, *value);
    }
    list.Add(std::move(one));
  }
  return list;
}

Yaml Container(const LauncherInput& input, const SchedulerOptions& options, const NodeGroup& group,
               absl::string_view index_variable, const std::string& master) {
  const cluster::Pool& pool = input.cluster.pools[static_cast<size_t>(group.pool)];
  Yaml container = Yaml::Map();
  container.Set("name", "trainer")
      .Set("image", ImageOf(options, group.pool))
      .Set("command", Yaml::TextList({"bash", absl::StrCat(kMount, "/", kStart)}));
  if (!options.working_directory.empty()) container.Set("workingDir", options.working_directory);
  container.Set("env", Environment(options, group, index_variable, master))
      .Set("resources",
           Resources(options.pools[static_cast<size_t>(group.pool)], pool.accelerators_per_node));
  if (!options.capabilities.empty()) {
    Yaml capabilities = Yaml::Map();
    capabilities.Set("add", Yaml::TextList(options.capabilities));
    container.Set("securityContext", Yaml::Map().Set("capabilities", capabilities));
  }
  container.Set("volumeMounts", Mounts(options));
  return container;
}

}  // namespace

std::string GroupName(size_t group) { return absl::StrCat("g", group); }

Yaml Metadata(const SchedulerOptions& options, absl::string_view suffix) {
  Yaml metadata = Yaml::Map();
  metadata.Set("name", absl::StrCat(options.name, suffix));
  if (!options.kube_namespace.empty()) metadata.Set("namespace", options.kube_namespace);
  return metadata;
}

absl::StatusOr<Yaml> LaunchConfigMap(const SchedulerOptions& options,
                                     const std::vector<Artifact>& launcher) {
  size_t bytes = sizeof(kStartScript);
  Yaml data = Yaml::Map();
  Yaml binary_data = Yaml::Map();
  for (const Artifact& file : launcher) {
    if (file.name != kLaunchScript && !file.read_at_start) continue;
    if (IsUtf8(file.content)) {
      bytes += file.content.size();
      data.Set(file.name, Yaml::Lines(file.content));
    } else {
      const std::string content = absl::Base64Escape(file.content);
      bytes += content.size();
      binary_data.Set(file.name, content);
    }
  }
  if (bytes > kMaxConfigMapBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "The launcher of this plan has ", bytes,
        " bytes, more than a ConfigMap of Kubernetes holds (1 MiB); put it on a volume that all "
        "nodes mount, and start it by hand."));
  }
  data.Set(kStart, Yaml::Lines(kStartScript));
  Yaml map = Yaml::Map();
  map.Set("apiVersion", "v1")
      .Set("kind", "ConfigMap")
      .Set("metadata", Metadata(options, "-launch"));
  map.Set("data", data);
  if (!binary_data.empty()) map.Set("binaryData", binary_data);
  return map;
}

Yaml PodTemplate(const LauncherInput& input, const SchedulerOptions& options,
                 const NodeGroup& group, absl::string_view index_variable,
                 const std::string& master) {
  const Placement& placement = options.pools[static_cast<size_t>(group.pool)];
  Yaml spec = Yaml::Map();
  spec.Set("restartPolicy", "Never");
  if (options.host_network) {
    spec.Set("hostNetwork", Yaml::Flag(true)).Set("dnsPolicy", "ClusterFirstWithHostNet");
  }
  if (!placement.node_selector.empty()) {
    spec.Set("nodeSelector", Yaml::TextMap(placement.node_selector));
  }
  if (!input.cluster.pools[static_cast<size_t>(group.pool)].hosts.empty()) {
    spec.Set("affinity", HostAffinity(group));
  }
  if (!placement.tolerations.empty()) spec.Set("tolerations", Tolerations(placement));
  spec.Set("containers",
           Yaml::List().Add(Container(input, options, group, index_variable, master)));
  spec.Set("volumes", Volumes(options));
  Yaml pod = Yaml::Map();
  if (!placement.pod_labels.empty()) {
    pod.Set("metadata", Yaml::Map().Set("labels", Yaml::TextMap(placement.pod_labels)));
  }
  return pod.Set("spec", spec);
}

}  // namespace hapmoe::engine
