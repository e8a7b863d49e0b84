#!/usr/bin/env bash
# Plans a job and hands it to Kubernetes, from a desk or as a step of a pipeline:
#
#   kubernetes-submit.sh --cluster CLUSTER --script SCRIPT --scheduler-file kubernetes.yaml [OPTION...]
#
# The options are those of `hapmoe plan`. SCHEDULER is jobset, which is meant when it is left out, or volcano. The plan
# is written to PLAN_DIR, a new folder below plans/ when left out. HAPMOE names another hapmoe, KUBECTL another kubectl.
#
# Prints what kubectl prints, and the plan on standard error. Where nothing fits the planner's own sentence says why and
# what would, nothing is applied, and the exit status is hapmoe's: 1 infeasible or refused, 2 usage, 3 no server.
set -euo pipefail

for word in "$@"; do
    case $word in
        --) break ;;
        --out | --out=* | --scheduler | --scheduler=*)
            echo "${0##*/}: ${word%%=*} is set by this script; see PLAN_DIR and SCHEDULER." >&2
            exit 2
            ;;
    esac
done

scheduler=${SCHEDULER:-jobset}
plan=${PLAN_DIR:-$PWD/plans/$(date +%Y%m%d-%H%M%S)-$$}
"${HAPMOE:-hapmoe}" plan --scheduler "$scheduler" --out "$plan" "$@" >&2
exec "${KUBECTL:-kubectl}" apply --server-side --filename "$plan/$scheduler.yaml"
