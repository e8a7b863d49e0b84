#!/usr/bin/env bash
# Plans a job and hands it to Slurm. Run it where the job is to run, in Megatron-LM's folder for example:
#
#   slurm-submit.sh --cluster CLUSTER --script SCRIPT [--scheduler-file slurm.yaml] [OPTION...]
#
# The options are those of `hapmoe plan`. The plan is written to PLAN_DIR, a new folder below plans/ when left out; all
# nodes must see it. SBATCH_* variables are sbatch's own. HAPMOE names another hapmoe.
#
# Prints what sbatch prints, and the plan on standard error. Where nothing fits the planner's own sentence says why and
# what would, nothing is submitted, and the exit status is hapmoe's: 1 infeasible or refused, 2 usage, 3 no server.
set -euo pipefail

for word in "$@"; do
    case $word in
        --) break ;;
        --out | --out=* | --scheduler | --scheduler=*)
            echo "${0##*/}: ${word%%=*} is set by this script; PLAN_DIR names the folder." >&2
            exit 2
            ;;
    esac
done

plan=${PLAN_DIR:-$PWD/plans/$(date +%Y%m%d-%H%M%S)-$$}
"${HAPMOE:-hapmoe}" plan --scheduler slurm --out "$plan" "$@" >&2
exec sbatch "$plan/job.sbatch" "$plan"
