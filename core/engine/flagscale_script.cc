#include "core/engine/flagscale_script.h"

#include "absl/strings/str_cat.h"
#include "core/engine/launch_script_parts.h"
#include "core/engine/shell_quote.h"

namespace hapmoe::engine {
namespace {

constexpr char kHead[] = R"BASH(#!/usr/bin/env bash
# Starts the job with FlagScale, FlagOpen/FlagScale commit da4935ec. Run it once, on the host that
# is to start all others:
#
#   ./launch.sh --flagscale DIR            writes what would run below logs/scripts, starts nothing
#   ./launch.sh --flagscale DIR run        starts the job on the hosts of hostfile, over ssh
#   ./launch.sh --flagscale DIR query      says how it goes; "stop" ends it
#
#   --flagscale DIR  the built tree of FlagScale, at the same path on all hosts; else FLAGSCALE_HOME
#   --exp-dir DIR    where logs and checkpoints go; else the folder of this script
#   --ssh-port N     22 when left out
#   --master-port N  29511 when left out
#
# This folder must be on a file system that all hosts share. The order of hostfile is that of the
# pipeline: do not change it, nor runner.nnodes, which would leave hosts out.
set -euo pipefail
)BASH";

constexpr char kMainPart[] = R"BASH(
die() {
  printf 'launch.sh: %s\n' "$1" >&2
  exit 2
}
warn() { printf 'launch.sh: %s\n' "$1" >&2; }

here=$(CDPATH="" cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
flagscale=${FLAGSCALE_HOME:-}
exp_dir=$here
ssh_port=22
master_port=29511
action=dryrun
while (($# > 0)); do
  case $1 in
    --flagscale | --exp-dir | --ssh-port | --master-port)
      (($# > 1)) || die "$1 needs a value."
      case $1 in
        --flagscale) flagscale=$2 ;;
        --exp-dir) exp_dir=$2 ;;
        --ssh-port) ssh_port=$2 ;;
        --master-port) master_port=$2 ;;
      esac
      shift 2
      ;;
    dryrun | run | test | stop | query)
      action=$1
      shift
      ;;
    *) die "$1 is unknown; the head of this script says what there is." ;;
  esac
done

[[ -n $flagscale ]] || die "give FlagScale's folder by --flagscale or FLAGSCALE_HOME."
[[ -f $flagscale/run.py ]] || die "$flagscale holds no run.py; it is not FlagScale's folder."
[[ $exp_dir == /* ]] || exp_dir=$PWD/$exp_dir
# FlagScale writes paths into scripts as they are.
for path in "$here" "$exp_dir"; do
  [[ $path =~ ^[A-Za-z0-9/._+@-]+$ ]] ||
    die "FlagScale runs in paths of letters, digits and /._+@- only, not in \"$path\"."
done
for port in "$ssh_port" "$master_port"; do
  if [[ ! $port =~ ^[0-9]{1,5}$ ]] || ((10#$port < 1 || 10#$port > 65535)); then
    die "a port must be from 1 to 65535, and is \"$port\"."
  fi
done
)BASH";

constexpr char kStarts[] = R"BASH(
dry_run=1
case $action in run | test) dry_run=0 ;; esac)BASH";

constexpr char kRun[] = R"BASH(
cd -- "$flagscale"
exec "${PYTHON:-python}" run.py --config-path "$here" --config-name experiment "action=$action" \
  "experiment.exp_dir=$exp_dir" "experiment.runner.hostfile=$here/hostfile" \
  "experiment.runner.ssh_port=$ssh_port" "experiment.runner.master_port=$master_port"
)BASH";

}  // namespace

std::string RenderFlagScaleScript(const std::string& backend, const std::string& needs) {
  if (backend.empty()) return absl::StrCat(kHead, kMainPart, kRun);
  return absl::StrCat(kHead, "\nbackend=", ShellQuote(backend), "\nneeds=", ShellQuote(needs), "\n",
                      kMainPart, kStarts, kConfirm, kRun);
}

}  // namespace hapmoe::engine
