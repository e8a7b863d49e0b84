#!/usr/bin/env bash
# From a fresh Debian 12 to a plan: installs, builds, starts the planner on loopback, and plans Mixtral 8x7B on two
# mixed clusters.
#
#   deploy/quickstart.sh [--out DIR] [--cluster FILE]... [--keep]
#
#   --out DIR       where launchers are written; build/quickstart when left out
#   --cluster FILE  plan for this cluster instead of the two examples; may be repeated
#   --keep          leave the server running
set -euo pipefail
# shellcheck source=deploy/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

out=$ROOT/build/quickstart
clusters=()
keep=false
while (($# > 0)); do
    case $1 in
        --out) out=$2; shift 2 ;;
        --cluster) clusters+=("$2"); shift 2 ;;
        --keep) keep=true; shift ;;
        *) sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
    esac
done
if ((${#clusters[@]} == 0)); then
    clusters=("$ROOT/deploy/examples/h800-a100.yaml" "$ROOT/deploy/examples/h800-910b.yaml")
fi

build() {
    cmake --preset gcc -S "$ROOT"
    cmake --build "$ROOT/build" --parallel "$JOBS" --target hapmoed hapmoe
}

plan() {
    local name
    name=$(basename "${1%.*}")
    plan_example "$1" "$out/$name"
    planned+=("$out/$name")
}

SERVER_PID=
state=$(mktemp -d)
cleanup() {
    if [[ -n $SERVER_PID ]]; then kill -TERM "$SERVER_PID" 2>/dev/null || true; fi
    if ! $keep; then rm -rf "$state"; fi
}
trap cleanup EXIT

cd "$ROOT"
step "Install packages" install "${BUILD_PACKAGES[@]}"
step "Build" build
step "Start the server" start_server "$state"
planned=()
for cluster in "${clusters[@]}"; do
    step "Plan Mixtral 8x7B on $(basename "$cluster")" plan "$cluster"
done
if $keep; then
    say "The server keeps running"
    echo "HAPMOE_SERVER=$SERVER $ROOT/build/bin/hapmoe info"
    echo "stop it with: kill $SERVER_PID   (state in $state)"
    disown "$SERVER_PID"
    SERVER_PID=
else
    step "Stop the server" stop_server
fi
print_timings
say "Launchers"
for folder in "${planned[@]}"; do
    find "$folder" -type f | sort
done
