// What manifests of Kubernetes share: the pod of a node, and the ConfigMap with its scripts.
#ifndef HAPMOE_CORE_ENGINE_SCHEDULERS_KUBERNETES_H_
#define HAPMOE_CORE_ENGINE_SCHEDULERS_KUBERNETES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/engine/launcher_input.h"
#include "core/engine/schedulers/node_groups.h"
#include "core/engine/schedulers/scheduler_options.h"
#include "core/engine/schedulers/yaml.h"

namespace hapmoe::engine {

// "g0" for the first group.
std::string GroupName(size_t group);

// metadata with the job's name behind which `suffix` stands.
Yaml Metadata(const SchedulerOptions& options, absl::string_view suffix);

// A ConfigMap named NAME-launch with launch.sh, what it reads, and what pods start. Fails with
// InvalidArgument if it is larger than Kubernetes takes.
absl::StatusOr<Yaml> LaunchConfigMap(const SchedulerOptions& options,
                                     const std::vector<Artifact>& launcher);

// The pod of one node of a group. `index_variable` holds the pod's index in its group
// where it runs, and the first pod of the first group answers at `master`.
Yaml PodTemplate(const LauncherInput& input, const SchedulerOptions& options,
                 const NodeGroup& group, absl::string_view index_variable,
                 const std::string& master);

}  // namespace hapmoe::engine

#endif  // HAPMOE_CORE_ENGINE_SCHEDULERS_KUBERNETES_H_
