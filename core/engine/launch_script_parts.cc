#include "core/engine/launch_script_parts.h"

namespace hapmoe::engine {

const char kUsage[] = R"BASH( job. Written by HAPMoE; the same file runs on every node:
#
#   NODE_RANK=1 MASTER_ADDR=address-of-node-0 ./launch.sh
#   ./launch.sh --node-rank 1 --master-addr address-of-node-0 [--master-port 29500] [--dry-run]
#
# A node rank that is not given is looked up by host name where the cluster names its hosts, and
# is SLURM_NODEID otherwise. --dry-run prints what would be started. TORCHRUN names another
# torchrun. Exit status: 2 where the script refuses to start, otherwise torchrun's.
)BASH";

const char kCommon[] = R"BASH(
die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 2
}

warn() {
  printf '%s: warning: %s\n' "${0##*/}" "$*" >&2
}

# The interpreter that torchrun starts workers with, as far as can be told from outside.
worker_python() {
  local beside
  beside=$(command -v -- "${TORCHRUN:-torchrun}" || true)
  beside=${beside%/*}/python3
  if [[ -n ${PYTHON_EXEC:-} ]]; then
    printf '%s' "$PYTHON_EXEC"
  elif [[ -x $beside ]]; then
    printf '%s' "$beside"
  else
    printf 'python3'
  fi
}
)BASH";

const char kWorker[] = R"BASH(
# torchrun starts this file again for each process, which then knows its stage.
if [[ -n ${HAPMOE_WORKER:-} ]]; then
  unset HAPMOE_WORKER
  [[ ${RANK:-} =~ ^[0-9]{1,9}$ ]] || die "RANK is \"${RANK:-}\", which is no rank."
  [[ ${WORLD_SIZE:-} == "$world_size" ]] ||
    die "the job has ${WORLD_SIZE:-no} processes, and the plan $world_size."
  ((10#$RANK < world_size)) || die "rank $RANK is outside the plan."
  choose_recompute "${stage_recompute[$(stage_of_rank "$((10#$RANK))")]}"
  exec "$(worker_python)" -u "$entry" "$@" ${recompute[@]+"${recompute[@]}"}
fi
)BASH";

const char kEnvironment[] = R"BASH(
# Sets a variable, whatever it was.
force() {
  if [[ -v $1 && ${!1} != "$2" ]]; then warn "$1 was ${!1}; this job needs $2."; fi
  export "$1=$2"
  environment+=("$1=$2")
}

# Sets a variable unless it is set.
prefer() {
  if [[ ! -v $1 ]]; then export "$1=$2"; fi
  environment+=("$1=${!1}")
}

# Unsets a variable where it has a value that this job cannot run with.
refuse() {
  if [[ -v $1 && ${!1} == "$2" ]]; then
    warn "$1 was $2, which this job cannot run with; it is unset."
    unset "$1"
  fi
}
)BASH";

const char kMain[] = R"BASH(
# The rank of the node with this machine's name, in full or up to the first dot; or nothing.
rank_of_this_host() {
  local name i found=
  name=$(hostname 2>/dev/null || printf '%s' "${HOSTNAME:-}")
  if [[ -z $name ]]; then return; fi
  for i in "${!node_host[@]}"; do
    if [[ ${node_host[i]} == "$name" ]]; then
      printf '%s' "$i"
      return
    fi
  done
  for i in "${!node_host[@]}"; do
    if [[ ${node_host[i]%%.*} == "${name%%.*}" ]]; then
      if [[ -n $found ]]; then return; fi
      found=$i
    fi
  done
  printf '%s' "$found"
}

node_rank=${NODE_RANK:-}
master_addr=${MASTER_ADDR:-}
master_port=${MASTER_PORT:-29500}
dry_run=0
while (($# > 0)); do
  option=${1%%=*}
  case $1 in
    --node-rank | --master-addr | --master-port)
      (($# > 1)) || die "$1 needs a value."
      value=$2
      shift 2
      ;;
    --node-rank=* | --master-addr=* | --master-port=*)
      value=${1#*=}
      shift
      ;;
    --dry-run)
      dry_run=1
      shift
      continue
      ;;
    -h | --help)
      printf 'usage: %s --node-rank RANK --master-addr ADDRESS [--master-port PORT] [--dry-run]\n' \
        "${0##*/}"
      exit 0
      ;;
    *) die "unknown option $1; --help lists the options." ;;
  esac
  case $option in
    --node-rank) node_rank=$value ;;
    --master-addr) master_addr=$value ;;
    --master-port) master_port=$value ;;
  esac
done
)BASH";

const char kSharedHosts[] = R"BASH(
# A machine that holds several nodes of the plan, on devices of their own, starts them all.
if [[ -z $node_rank ]]; then
  name=$(hostname 2>/dev/null || printf '%s' "${HOSTNAME:-}")
  ranks=()
  for i in "${!node_host[@]}"; do
    if [[ ${node_host[i]} == "$name" ]]; then ranks+=("$i"); fi
  done
  if ((${#ranks[@]} == 0)); then
    for i in "${!node_host[@]}"; do
      if [[ ${node_host[i]%%.*} != "${name%%.*}" ]]; then continue; fi
      ranks+=("$i")
      # Machines that differ behind the dot are told apart by their ranks alone.
      if [[ ${node_host[i]} != "${node_host[ranks[0]]}" ]]; then
        ranks=()
        break
      fi
    done
  fi
  if ((${#ranks[@]} > 1)); then
    export MASTER_ADDR=$master_addr MASTER_PORT=$master_port
    if ((dry_run)); then
      for i in "${ranks[@]}"; do NODE_RANK=$i bash "${BASH_SOURCE[0]}" --dry-run || exit; done
      exit 0
    fi
    pids=()
    for i in "${ranks[@]}"; do
      NODE_RANK=$i bash "${BASH_SOURCE[0]}" &
      pids+=("$!")
    done
    trap 'kill "${pids[@]}" 2>/dev/null || true' INT TERM
    status=0
    for pid in "${pids[@]}"; do wait "$pid" || status=$?; done
    exit "$status"
  fi
fi
)BASH";

const char kNodeRank[] = R"BASH(
if [[ -z $node_rank && $hosts_named == 1 ]]; then node_rank=$(rank_of_this_host); fi
if [[ -z $node_rank ]]; then node_rank=${SLURM_NODEID:-}; fi
if [[ -z $node_rank ]]; then
  if ((nodes > 1 && hosts_named)); then
    die "this machine is none of the plan's hosts; give its node rank with --node-rank."
  elif ((nodes > 1)); then
    warn "no node rank is given, by --node-rank, NODE_RANK or SLURM_NODEID; this is node 0."
  fi
  node_rank=0
fi
if [[ ! $node_rank =~ ^[0-9]{1,9}$ ]] || ((10#$node_rank >= nodes)); then
  die "the node rank must be from 0 to $((nodes - 1)), and is \"$node_rank\"."
fi
node_rank=$((10#$node_rank))
if [[ -z $master_addr ]]; then
  if ((nodes == 1)); then
    master_addr=127.0.0.1
  else
    master_addr=${node_host[0]}
    if ((!hosts_named)); then
      warn "no address of node 0 is given, by --master-addr or MASTER_ADDR; using $master_addr."
    fi
  fi
fi
[[ $master_addr != -* ]] || die "the master address must not start with \"-\"."
if [[ ! $master_port =~ ^[0-9]{1,5}$ ]] || ((10#$master_port < 1 || 10#$master_port > 65535)); then
  die "the master port must be from 1 to 65535, and is \"$master_port\"."
fi
master_port=$((10#$master_port))
processes=${node_processes[node_rank]}
first_rank=${node_first_rank[node_rank]}
)BASH";

const char kConfirm[] = R"BASH(
if [[ ${HAPMOE_CONFIRM_BACKEND:-} != "$backend" ]]; then
  ((dry_run)) || die "$needs"
  warn "$needs"
fi
)BASH";

const char kCommand[] = R"BASH(
command=("${TORCHRUN:-torchrun}"
  --nnodes "$nodes" --node_rank "$node_rank" --nproc_per_node "$processes"
  --rdzv_backend static --master_addr "$master_addr" --master_port "$master_port")
)BASH";

const char kCommandByProcess[] = R"BASH(
self=$(CDPATH="" cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)/${BASH_SOURCE[0]##*/}
[[ -f $self ]] || die "stages differ in recomputation, so this script must be run from a file."
if [[ -x $self ]]; then
  command+=(--no_python "$self")
else
  command+=(--no_python bash "$self")
fi
command+=("${job_arguments[@]}" "${plan_arguments[@]}")
environment+=("HAPMOE_WORKER=1")
)BASH";

const char kCommandByNode[] = R"BASH(
choose_recompute "${node_recompute[node_rank]}"
)BASH";

const char kCommandPlain[] =
    R"BASH(command+=("$entry" "${job_arguments[@]}" "${plan_arguments[@]}"
  ${recompute[@]+"${recompute[@]}"})
)BASH";

const char kDryRunStart[] = R"BASH(
if ((dry_run)); then
  printf 'node %d of %d: %d of %d processes, host %q\n' \
    "$node_rank" "$nodes" "$processes" "$world_size" "${node_host[node_rank]}"
  printf 'environment:'
  printf ' %q' ${environment[@]+"${environment[@]}"}
  printf '\ncommand:'
  printf ' %q' "${command[@]}"
  printf '\n'
  for ((i = 0; i < processes; ++i)); do
    stage=$(stage_of_rank "$((first_rank + i))")
)BASH";

const char kDryRunEnd[] =
    R"BASH(    printf 'rank %d, local %d, stage %d:' "$((first_rank + i))" "$i" "$stage"
    printf ' %q' "$(worker_python)" -u "$entry" "${job_arguments[@]}" "${plan_arguments[@]}" \
      ${recompute[@]+"${recompute[@]}"}
    printf '\n'
  done
  exit 0
fi
command -v -- "${command[0]}" >/dev/null ||
  die "${command[0]} is not found; activate the environment of the job or set TORCHRUN."
)BASH";

}  // namespace hapmoe::engine
