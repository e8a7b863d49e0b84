// job.sbatch: a batch script, heterogeneous where the nodes are of several pools.
#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/engine/schedulers/node_groups.h"
#include "core/engine/schedulers/schedulers.h"
#include "core/engine/shell_quote.h"

namespace hapmoe::engine {
namespace {

// SchedMD/slurm, MAX_HET_JOB_COMPS.
constexpr size_t kMaxComponents = 128;

constexpr char kHead[] = R"BASH(#!/usr/bin/env bash
#
# Starts a plan under Slurm. Written by HAPMoE. The folder is that of this file and launch.sh, on a
# file system that all nodes share; the job runs in the folder that it is submitted from:
#
#   sbatch FOLDER/job.sbatch FOLDER
#
# Each component of the job is a run of nodes of one pool, in the order of the plan.
)BASH";

constexpr char kFunctions[] = R"BASH(
die() {
  printf 'job.sbatch: %s\n' "$*" >&2
  exit 2
}

folder=${1:-${SLURM_SUBMIT_DIR:-$PWD}}
[[ $folder == /* ]] || folder=${SLURM_SUBMIT_DIR:-$PWD}/$folder
[[ -f $folder/launch.sh ]] ||
  die "$folder holds no launch.sh; submit with the plan's folder: sbatch FOLDER/job.sbatch FOLDER"
[[ ${SLURM_HET_SIZE:-1} == "${#component_nodes[@]}" ]] ||
  die "the job has ${SLURM_HET_SIZE:-1} components, and the plan ${#component_nodes[@]}."

# Sets `hosts` to those of a component, as many as the plan has there.
find_hosts() {
  local list=SLURM_JOB_NODELIST
  if ((${#component_nodes[@]} > 1)); then list=SLURM_JOB_NODELIST_HET_GROUP_$1; fi
  [[ -n ${!list:-} ]] || die "$list is not set; this script is for sbatch."
  mapfile -t hosts < <(scontrol show hostnames "${!list}")
  ((${#hosts[@]} == component_nodes[$1])) ||
    die "component $1 has ${#hosts[@]} nodes, and the plan ${component_nodes[$1]}."
}
)BASH";

// Slurm sorts lists of hosts, whatever the order in which they are asked for.
constexpr char kOrderHosts[] = R"BASH(
# Puts `hosts` into the order of the plan, which is that of its arguments.
order_hosts() {
  local planned host found matches ordered=()
  for planned; do
    matches=0
    for host in "${hosts[@]}"; do
      if [[ $host == "$planned" ]]; then
        found=$host matches=1
        break
      fi
      # Slurm may leave domains out.
      if [[ ${host%%.*} == "${planned%%.*}" ]]; then
        found=$host matches=$((matches + 1))
      fi
    done
    if ((matches == 1)); then ordered+=("$found"); fi
  done
  ((${#ordered[@]} == ${#hosts[@]})) || die "the hosts are ${hosts[*]}, and those of the plan $*."
  hosts=("${ordered[@]}")
}
)BASH";

// SLURM_NODEID counts the nodes of a step over all its components (slurmstepd adds the component's
// offset), but not in the order of the plan where hosts are named: a node looks for its name.
constexpr char kTask[] = R"BASH(
# What every node runs: its rank in the plan is its place among the hosts of its component, behind
# those of the components before.
# shellcheck disable=SC2016  # Expanded on the node.
readonly task='
launcher=$1 node_rank=$2 master_addr=$3 master_port=$4
shift 4
for host; do
  if [[ $host == "$SLURMD_NODENAME" ]]; then
    exec bash "$launcher" --node-rank "$node_rank" --master-addr "$master_addr" \
      --master-port "$master_port"
  fi
  node_rank=$((node_rank + 1))
done
printf "job.sbatch: %s is none of the hosts of its component.\n" "$SLURMD_NODENAME" >&2
exit 2
'
)BASH";

constexpr char kContainerCheck[] = R"BASH(
[[ $folder != *[:,]* ]] || die "containers cannot mount $folder: its path has a colon or a comma."
)BASH";

bool HasContainers(const LauncherInput& input, const SchedulerOptions& options) {
  return absl::c_any_of(input.nodes.nodes, [&options](const plan::AssignedNode& node) {
    return !ImageOf(options, node.pool).empty();
  });
}

std::string Gres(const LauncherInput& input, const SchedulerOptions& options, int64_t pool) {
  return absl::StrCat(options.pools[static_cast<size_t>(pool)].gres, ":",
                      input.cluster.pools[static_cast<size_t>(pool)].accelerators_per_node);
}

bool HostsNamed(const LauncherInput& input, const NodeGroup& group) {
  return !input.cluster.pools[static_cast<size_t>(group.pool)].hosts.empty();
}

// A word that CheckSchedulerOptions has let through needs no quotes.
std::string Directive(absl::string_view option, absl::string_view value) {
  return absl::StrCat("#SBATCH --", option, value.empty() ? "" : "=", value, "\n");
}

std::string Optional(absl::string_view option, absl::string_view value) {
  return value.empty() ? "" : Directive(option, value);
}

std::string JobDirectives(const LauncherInput& input, const SchedulerOptions& options) {
  std::string text = Directive("job-name", options.name);
  // A job that would start from the beginning is not put back into the queue when a node fails.
  absl::StrAppend(
      &text, Directive(RestartsOf(options, input.arguments) > 0 ? "requeue" : "no-requeue", ""),
      Optional("signal", SignalOf(options, input.arguments)));
  return text;
}

// Whole nodes with all their memory, one task on each: torchrun starts the others.
std::string ComponentDirectives(const LauncherInput& input, const SchedulerOptions& options,
                                const NodeGroup& group) {
  const Placement& placement = options.pools[static_cast<size_t>(group.pool)];
  std::string text = absl::StrCat(
      Optional("account", options.account), Optional("qos", options.qos),
      Optional("time", options.time_limit), Optional("partition", placement.partition),
      Directive("nodes", absl::StrCat(group.nodes())), Directive("ntasks-per-node", "1"),
      Directive("gres", Gres(input, options, group.pool)), Directive("exclusive", ""),
      Directive("mem", "0"));
  if (HostsNamed(input, group)) {
    absl::StrAppend(&text, Directive("nodelist", absl::StrJoin(group.hosts, ",")));
  } else {
    absl::StrAppend(&text, Optional("constraint", placement.constraint));
  }
  return text;
}

std::string ContainerOptions(const SchedulerOptions& options, int64_t pool) {
  const std::string& image = ImageOf(options, pool);
  if (image.empty()) {
    return options.working_directory.empty()
               ? ""
               : absl::StrCat(" ", ShellQuote("--chdir=" + options.working_directory));
  }
  std::string mounts;
  for (const DataVolume& volume : options.volumes) {
    absl::StrAppend(&mounts, ",", volume.host_path, ":", volume.mount_path,
                    volume.read_only ? ":ro" : "");
  }
  std::string text = absl::StrCat("\n  ", ShellQuote("--container-image=" + image),
                                  "\n  \"--container-mounts=$folder:$folder:ro\"",
                                  mounts.empty() ? "" : ShellQuote(mounts));
  if (!options.working_directory.empty()) {
    absl::StrAppend(&text, "\n  ", ShellQuote("--container-workdir=" + options.working_directory));
  }
  return text;
}

// One component of the step. Every option is given: those that srun takes from its environment are
// the first component's.
std::string Component(const LauncherInput& input, const SchedulerOptions& options,
                      const NodeGroup& group, size_t index, size_t components) {
  std::string text = absl::StrCat("\nfind_hosts ", index, "\n");
  if (HostsNamed(input, group)) {
    absl::StrAppend(&text, "order_hosts ", ShellQuote(absl::MakeConstSpan(group.hosts)), "\n");
  }
  if (index == 0) {
    absl::StrAppend(&text, "master_addr=${hosts[0]}\n");
  } else {
    absl::StrAppend(&text, "step+=(:)\n");
  }
  absl::StrAppend(&text, "step+=(", components > 1 ? absl::StrCat("--het-group=", index, " ") : "",
                  "--nodes=", group.nodes(), " --ntasks=", group.nodes(), " --ntasks-per-node=1 ",
                  ShellQuote("--gres=" + Gres(input, options, group.pool)),
                  "\n  --mem=0 --cpu-bind=none --kill-on-bad-exit=1",
                  ContainerOptions(options, group.pool),
                  "\n  bash -c \"$task\" task \"$folder/launch.sh\" ", group.first_node_rank,
                  " \"$master_addr\" \"$master_port\" \"${hosts[@]}\")\n");
  return text;
}

}  // namespace

absl::StatusOr<Artifact> RenderSlurm(const LauncherInput& input, const SchedulerOptions& options) {
  const std::vector<NodeGroup> groups = NodeGroups(input.nodes);
  if (groups.size() > kMaxComponents) {
    return absl::InvalidArgumentError(absl::StrCat("A job of Slurm has at most ", kMaxComponents,
                                                   " components, and the plan ", groups.size(),
                                                   " runs of nodes of one pool."));
  }
  const bool named =
      absl::c_any_of(groups, [&input](const NodeGroup& group) { return HostsNamed(input, group); });
  const std::string component_nodes = absl::StrJoin(
      groups, " ",
      [](std::string* out, const NodeGroup& group) { absl::StrAppend(out, group.nodes()); });

  std::string text = absl::StrCat(kHead, JobDirectives(input, options));
  for (size_t i = 0; i < groups.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : "#SBATCH hetjob\n",
                    ComponentDirectives(input, options, groups[i]));
  }
  absl::StrAppend(&text, "set -euo pipefail\n\nreadonly -a component_nodes=(", component_nodes,
                  ")\n", kFunctions, named ? kOrderHosts : "",
                  HasContainers(input, options) ? kContainerCheck : "", kTask, "\n");
  absl::StrAppend(&text, "master_port=", options.master_port, "\nstep=(");
  // Not exported here: the script has variables of its own.
  if (!options.environment.empty()) absl::StrAppend(&text, "env");
  for (const auto& [name, value] : options.environment) {
    absl::StrAppend(&text, " ", ShellQuote(absl::StrCat(name, "=", value)));
  }
  absl::StrAppend(&text, options.environment.empty() ? "" : "\n  ", "srun)\n");
  for (size_t i = 0; i < groups.size(); ++i) {
    absl::StrAppend(&text, Component(input, options, groups[i], i, groups.size()));
  }
  absl::StrAppend(&text, "\nexec \"${step[@]}\"\n");
  return Artifact{"job.sbatch",
                  "Starts the job under Slurm, one component for each run of nodes of one pool.",
                  std::move(text), true};
}

}  // namespace hapmoe::engine
