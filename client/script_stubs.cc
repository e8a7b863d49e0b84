#include "client/script_stubs.h"

namespace hapmoe::client {
namespace {

constexpr absl::string_view kTools[] = {
    "awk",    "basename", "bc",     "cat",      "chmod",  "cmp",      "comm",      "cp",
    "cut",    "date",     "diff",   "dirname",  "egrep",  "env",      "envsubst",  "expand",
    "expr",   "false",    "fgrep",  "find",     "fold",   "gawk",     "getconf",   "getopt",
    "grep",   "head",     "id",     "install",  "join",   "jq",       "ln",        "ls",
    "mawk",   "md5sum",   "mktemp", "mv",       "nice",   "nl",       "nohup",     "nproc",
    "numfmt", "od",       "paste",  "printenv", "printf", "pwd",      "readlink",  "realpath",
    "rev",    "rm",       "rmdir",  "sed",      "seq",    "setsid",   "sha256sum", "shuf",
    "sort",   "split",    "stat",   "stdbuf",   "sum",    "tac",      "tail",      "tee",
    "test",   "timeout",  "touch",  "tr",       "true",   "truncate", "tty",       "uname",
    "uniq",   "wc",       "which",  "whoami",   "xargs",
};

constexpr absl::string_view kStubs[] = {
    // Launchers.
    "torchrun",
    "ft_launcher",
    "accelerate",
    "deepspeed",
    "debugpy-run",
    "python",
    "python2",
    "python3",
    "python3.8",
    "python3.9",
    "python3.10",
    "python3.11",
    "python3.12",
    "python3.13",
    // Wrappers.
    "srun",
    "sbatch",
    "salloc",
    "mpirun",
    "mpiexec",
    "mpiexec.hydra",
    "prun",
    "aprun",
    "jsrun",
    "flux",
    "pdsh",
    "ssh",
    "docker",
    "podman",
    "nerdctl",
    "apptainer",
    "singularity",
    "enroot",
    "shifter",
    "uv",
    "poetry",
    "nsys",
    "ncu",
    "rocprof",
    "rocprofv3",
    "numactl",
    "taskset",
    "sudo",
    "conda",
    "mamba",
    "micromamba",
    // The rest.
    "sh",
    "nvidia-smi",
    "rocm-smi",
    "amd-smi",
    "npu-smi",
    "scontrol",
    "hostname",
    "mkdir",
    "sleep",
    "pip",
    "pip3",
    "git",
    "curl",
    "wget",
    "ray",
    "wandb",
};

constexpr absl::string_view kStub = R"BASH(#!/bin/bash
mapfile -d '' -t hm_environment < /proc/self/environ
hm_name=${0##*/}
shopt -s extglob

emit() {  # KIND TEXT
  local LC_ALL=C text=${2//\\/\\\\} kind=$1
  text=${text//$'\n'/\\n}
  printf '%s %s %s\n' $$ "$kind" "${text:0:400}" >&198
  text=${text:400}
  while [[ -n $text ]]; do
    printf '%s + %s\n' $$ "${text:0:400}" >&198
    text=${text:400}
  done
}

# Sets what Slurm does for its options; client/slurm_options.cc says the same.
slurm_variables() {  # OPTION...
  export SLURM_JOB_ID=1 SLURM_JOBID=1 SLURM_NODEID=0 SLURM_PROCID=0 SLURM_LOCALID=0
  export SLURM_JOB_NODELIST=localhost SLURM_NODELIST=localhost
  local word value short long names name
  while (($#)); do
    word=$1
    while read -r short long names; do
      case $word in
        "$long" | "$short") value=${2-} ;;
        "$long"=*) value=${word#*=} ;;
        "$short"*) value=${word#"$short"} ;;
        *) continue ;;
      esac
      # "2-4" nodes are at least 2; "gpu:8" are 8.
      [[ $long == --nodes ]] && value=${value%%-*}
      [[ $long == --gpus-per-node ]] && value=${value##*:}
      [[ -n $value ]] && for name in $names; do export "$name=$value"; done
    done <<< "$hm_slurm"
    shift
  done
}
hm_slurm='-N --nodes SLURM_NNODES SLURM_JOB_NUM_NODES
-n --ntasks SLURM_NTASKS SLURM_NPROCS
-/ --ntasks-per-node SLURM_NTASKS_PER_NODE
-/ --gpus-per-node SLURM_GPUS_PER_NODE
-c --cpus-per-task SLURM_CPUS_PER_TASK
-J --job-name SLURM_JOB_NAME'

# The words of the #SBATCH lines before the first command of the text.
batch_directives() {
  local line
  hm_directives=()
  while IFS= read -r line; do
    case $line in
      '#SBATCH'*) line=${line#\#SBATCH}; read -ra line <<< "${line%% \#*}"
        hm_directives+=("${line[@]}") ;;
      *([[:blank:]]) | *([[:blank:]])'#'*) ;;
      *) break ;;
    esac
  done
}

# What srun sets besides: the tasks of the step.
step_tasks() {  # OPTION...
  local before=${SLURM_NTASKS-} each=${SLURM_NTASKS_PER_NODE-} tasks
  unset SLURM_NTASKS SLURM_NTASKS_PER_NODE
  slurm_variables "$@"
  if [[ -z ${SLURM_NTASKS-} && -z ${SLURM_NTASKS_PER_NODE-} && -n $before ]]; then
    export SLURM_NTASKS=$before
  fi
  tasks=${SLURM_NTASKS-}
  [[ -n ${SLURM_NTASKS_PER_NODE-} || -z $each ]] || export SLURM_NTASKS_PER_NODE=$each
  [[ -n ${SLURM_NTASKS-} || -z $before ]] || export SLURM_NTASKS=$before
  if [[ -z $tasks && ${SLURM_NNODES-} =~ ^[0-9]+$ ]]; then
    tasks=$((SLURM_NNODES * ${SLURM_NTASKS_PER_NODE:-1}))
  fi
  [[ -z $tasks ]] || export SLURM_STEP_NUM_TASKS=$tasks
}

# Exports NAME=VALUE of a container's and of mpirun's options.
wrapper_variables() {  # NAME OPTION...
  local kind=$1 word
  shift
  while (($#)); do
    word=
    case $kind:$1 in
      docker:-e | docker:--env | podman:-e | podman:--env | nerdctl:-e | nerdctl:--env | \
        mpi*:-x) word=${2-} ;;
      docker:--env=* | podman:--env=* | nerdctl:--env=*) word=${1#--env=} ;;
      mpi*:-n | mpi*:-np) export OMPI_COMM_WORLD_SIZE="${2-}" ;;
      srun:--export=*)
        local IFS=,
        for word in ${1#--export=}; do [[ $word == ?*=* ]] && export "${word?}"; done
        word= ;;
    esac
    [[ $word == ?*=* ]] && export "${word?}"
    shift
  done
}

record() {
  local word
  emit p "$hm_name"
  for word in "$@"; do emit a "$word"; done
  for word in "${hm_environment[@]}"; do emit e "$word"; done
  printf '%s !\n' $$ >&198
  exit 0
}

# Goes on with the first word that is a command here; a last word that holds a whole command is one.
# What is before it are options of the wrapper.
go_on() {
  local last='' options=() wrapper=$hm_name
  while (($#)); do
    case ${1##*/} in
      torchrun|ft_launcher|accelerate|deepspeed|debugpy-run|python|python[23]*|bash|sh|env|timeout|\
      srun|sbatch|mpirun|mpiexec|docker|apptainer|singularity|uv|nsys|ncu|numactl|taskset|sudo|\
      nohup)
        set_up "${options[@]}"
        exec "${1##*/}" "${@:2}" ;;
      *.sh)
        if [[ -f $1 ]]; then
          set_up "${options[@]}"
          exec bash "$@"
        fi ;;
      *.py)
        case $wrapper in uv|poetry) exec python "$@" ;; esac ;;
    esac
    last=$1
    options+=("$1")
    shift
  done
  set_up "${options[@]}"
  case $last in *torchrun*|*python*|*.sh*) exec bash -c "$last" ;; esac
  exit 0
}

set_up() {  # OPTION...
  [[ $hm_name == srun ]] && step_tasks "$@"
  wrapper_variables "$hm_name" "$@"
}

case $hm_name in
  # What helps a script along is bash's.
  sh) exec bash "$@" ;;
  torchrun|ft_launcher|accelerate|deepspeed|debugpy-run) record "$@" ;;
  python*)
    for ((i = 1; i <= $#; ++i)); do
      case ${!i} in
        -c|-|-V|--version|-h|--help) exit 0 ;;
        -W|-X) ((++i)) ;;
        -m)
          ((++i))
          case ${!i} in pip|venv|virtualenv|ensurepip|json.tool|site|sysconfig) exit 0 ;; esac
          record "$@" ;;
        -*) ;;
        *) record "$@" ;;
      esac
    done ;;
  sbatch)
    # Options count before what the batch script says.
    options=()
    while (($#)); do
      case $1 in
        --wrap=*) slurm_variables "${options[@]}"; exec bash -c "${1#--wrap=}" ;;
        --wrap) slurm_variables "${options[@]}"; exec bash -c "${2-}" ;;
        *)
          if [[ $1 != -* && -f $1 ]]; then
            batch_directives < "$1"
            slurm_variables "${hm_directives[@]}" "${options[@]}"
            exec bash "$@"
          fi ;;
      esac
      options+=("$1")
      shift
    done
    text=$(cat; printf x)
    batch_directives <<< "${text%x}"
    slurm_variables "${hm_directives[@]}" "${options[@]}"
    exec bash -s <<< "${text%x}" ;;
  nvidia-smi|rocm-smi|amd-smi|npu-smi)
    # Nodes of eight are what scripts count on most.
    case "$*" in *-L*|*--list-gpus*|*--query-gpu*) printf 'GPU %s\n' 0 1 2 3 4 5 6 7 ;; esac ;;
  scontrol) [[ $* == *hostname* ]] && echo localhost ;;
  hostname) echo localhost ;;
  mkdir) /run/hapmoe/real/mkdir "$@" 2> /dev/null ;;
  sleep|pip|pip3|git|curl|wget|ray|wandb) ;;
  *) go_on "$@" ;;
esac
exit 0
)BASH";

constexpr absl::string_view kShellStart = R"BASH(command_not_found_handle() {
  local i
  # A wrapper that is not known goes on with a launcher among its words.
  for ((i = 2; i <= $#; ++i)); do
    case ${!i##*/} in
      torchrun|ft_launcher|accelerate|deepspeed|debugpy-run|python|python[23]*)
        "${!i##*/}" "${@:i + 1}"
        return ;;
    esac
  done
  printf '%s ? %s\n' $$ "${1:0:200}" >&198
  return 0
}
# Limits of a cluster's nodes are none of the sandbox.
ulimit() {
  builtin ulimit "$@" 2> /dev/null || return 0
}
)BASH";

constexpr absl::string_view kRunner = R"BASH(ulimit -u "$1" || exit
shift
bash "$@"
status=$?
for ((try = 0; try < 40; ++try)); do
  processes=(/proc/[0-9]*)
  ((${#processes[@]} <= 2)) && break
  /run/hapmoe/real/sleep 0.025
done
exit $status
)BASH";

}  // namespace

absl::Span<const absl::string_view> SandboxTools() { return kTools; }
absl::Span<const absl::string_view> SandboxStubs() { return kStubs; }
absl::string_view StubText() { return kStub; }
absl::string_view ShellStartText() { return kShellStart; }
absl::string_view RunnerText() { return kRunner; }

}  // namespace hapmoe::client
