#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/wire/from_wire.h"

namespace hapmoe::server {
namespace {

// A text that is left out is the default's.
const std::string& Or(const std::string& text, const std::string& otherwise) {
  return text.empty() ? otherwise : text;
}

void CheckCount(int64_t count, int64_t most, const std::string& field, Violations& violations) {
  if (count <= most) return;
  violations.push_back({"launch_count_in_range", field,
                        absl::StrCat("At most ", most, " entries, not ", count, ".")});
}

}  // namespace

void MergePlacement(const v1::AcceleratorPlacement& from, v1::AcceleratorPlacement& to) {
  // Labels and tolerations belong together: of one side or of the other.
  if (!from.node_selector().empty()) to.clear_node_selector();
  if (!from.pod_labels().empty()) to.clear_pod_labels();
  if (!from.tolerations().empty()) to.clear_tolerations();
  to.MergeFrom(from);
}

engine::Placement PlacementFromWire(const v1::AcceleratorPlacement& wire) {
  engine::Placement placement;
  placement.gres = wire.gres();
  placement.constraint = wire.constraint();
  placement.partition = wire.partition();
  placement.resource = wire.resource();
  placement.node_selector.insert(wire.node_selector().begin(), wire.node_selector().end());
  for (const v1::Toleration& toleration : wire.tolerations()) {
    placement.tolerations.push_back(
        {toleration.key(), toleration.operator_(), toleration.value(), toleration.effect()});
  }
  placement.resources.insert(wire.resources().begin(), wire.resources().end());
  placement.image = wire.image();
  placement.pod_labels.insert(wire.pod_labels().begin(), wire.pod_labels().end());
  return placement;
}

engine::SchedulerOptions LaunchFromWire(const v1::LaunchOptions& wire, engine::Scheduler scheduler,
                                        const v1::SchedulerDefaults& defaults,
                                        Violations& violations) {
  CheckCount(wire.accelerators_size(), kMaxPlacements, "launch.accelerators", violations);
  CheckCount(wire.volumes_size(), kMaxPlacements, "launch.volumes", violations);
  for (int i = 0; i < std::min<int>(wire.accelerators_size(), kMaxPlacements); ++i) {
    const v1::AcceleratorPlacement& one = wire.accelerators(i);
    const std::string field = absl::StrCat("launch.accelerators[", i, "]");
    CheckCount(static_cast<int64_t>(one.node_selector().size()), kMaxPlacements,
               field + ".node_selector", violations);
    CheckCount(static_cast<int64_t>(one.resources().size()), kMaxPlacements, field + ".resources",
               violations);
    CheckCount(static_cast<int64_t>(one.pod_labels().size()), kMaxPlacements, field + ".pod_labels",
               violations);
    CheckCount(one.tolerations_size(), kMaxPlacements, field + ".tolerations", violations);
  }
  engine::SchedulerOptions options;
  const v1::LaunchOptions& otherwise = defaults.options();
  options.scheduler = scheduler;
  options.name = Or(wire.name(), otherwise.name());
  options.kube_namespace = Or(wire.namespace_(), otherwise.namespace_());
  options.queue = Or(wire.queue(), otherwise.queue());
  options.image = Or(wire.image(), otherwise.image());
  options.working_directory = Or(wire.working_directory(), otherwise.working_directory());
  options.service_name = Or(wire.service_name(), otherwise.service_name());
  options.master_port = wire.master_port() == 0 ? otherwise.master_port() : wire.master_port();
  options.shared_memory = Or(wire.shared_memory(), otherwise.shared_memory());
  for (const v1::DataVolume& volume : wire.volumes()) {
    options.volumes.push_back({volume.name(), volume.mount_path(), volume.host_path(),
                               volume.claim(), volume.read_only()});
  }
  if (wire.has_max_restarts()) options.max_restarts = wire.max_restarts();
  options.restarts_of_resuming_jobs = otherwise.max_restarts();
  options.environment.insert(wire.environment().begin(), wire.environment().end());
  options.host_network = wire.host_network();
  options.capabilities.assign(wire.capabilities().begin(), wire.capabilities().end());
  options.account = Or(wire.slurm().account(), otherwise.slurm().account());
  options.qos = Or(wire.slurm().qos(), otherwise.slurm().qos());
  options.time_limit = Or(wire.slurm().time_limit(), otherwise.slurm().time_limit());
  options.signal = wire.slurm().signal();
  options.signal_of_saving_jobs = otherwise.slurm().signal();
  return options;
}

}  // namespace hapmoe::server
