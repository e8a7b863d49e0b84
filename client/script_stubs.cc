#include "client/script_stubs.h"

namespace hapmoe::client {
namespace {

constexpr absl::string_view kTools[] = {
    "awk",    "basename", "bc",      "cat",      "chmod",  "cmp",    "comm",     "cp",
    "cut",    "date",     "diff",    "dirname",  "egrep",  "env",    "envsubst", "expand",
    "expr",   "false",    "fgrep",   "find",     "fold",   "gawk",   "getconf",  "getopt",
    "grep",   "head",     "id",      "install",  "join",   "jq",     "ln",       "ls",
    "mawk",   "md5sum",   "mktemp",  "mv",       "nice",   "nl",     "nohup",    "nproc",
    "numfmt", "od",       "paste",   "printenv", "printf", "pwd",    "readlink", "realpath",
    "rev",    "rm",       "rmdir",   "sed",      "seq",    "setsid", "sh",       "sha256sum",
    "shuf",   "sort",     "split",   "stat",     "stdbuf", "sum",    "tac",      "tail",
    "tee",    "test",     "timeout", "touch",    "tr",     "true",   "truncate", "tty",
    "uname",  "uniq",     "wc",      "which",    "whoami", "xargs",
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

record() {
  local word
  emit p "$hm_name"
  for word in "$@"; do emit a "$word"; done
  for word in "${hm_environment[@]}"; do emit e "$word"; done
  printf '%s !\n' $$ >&198
  exit 0
}

# Goes on with the first word that is a command here; a last word that holds a whole command is one.
go_on() {
  local last=
  while (($#)); do
    case ${1##*/} in
      torchrun|ft_launcher|accelerate|deepspeed|debugpy-run|python|python[23]*|bash|sh|env|timeout|\
      srun|sbatch|mpirun|mpiexec|docker|apptainer|singularity|uv|nsys|ncu|numactl|taskset|sudo)
        exec "${1##*/}" "${@:2}" ;;
      *.sh) [[ -f $1 ]] && exec bash "$@" ;;
    esac
    last=$1
    shift
  done
  case $last in *torchrun*|*python*|*.sh*) exec bash -c "$last" ;; esac
  exit 0
}

case $hm_name in
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
    # What Slurm sets for the batch script.
    export SLURM_JOB_ID=1 SLURM_NODEID=0 SLURM_PROCID=0 SLURM_LOCALID=0
    while (($#)); do
      case $1 in
        --wrap=*) exec bash -c "${1#--wrap=}" ;;
        --wrap) exec bash -c "$2" ;;
        *) [[ $1 != -* && -f $1 ]] && exec bash "$@" ;;
      esac
      shift
    done
    exec bash -s ;;
  nvidia-smi|rocm-smi|amd-smi|npu-smi)
    # Nodes of eight are what scripts count on most.
    case "$*" in *-L*|*--list-gpus*|*--query-gpu*) printf 'GPU %s\n' 0 1 2 3 4 5 6 7 ;; esac ;;
  scontrol) [[ $* == *hostnames* ]] && echo localhost ;;
  hostname) echo localhost ;;
  mkdir) /run/hapmoe/real/mkdir "$@" 2> /dev/null ;;
  sleep|pip|pip3|git|curl|wget|ray|wandb) ;;
  *) go_on "$@" ;;
esac
exit 0
)BASH";

constexpr absl::string_view kShellStart = R"BASH(command_not_found_handle() {
  printf '%s ? %s\n' $$ "${1:0:200}" >&198
  return 0
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
