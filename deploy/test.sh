#!/usr/bin/env bash
# Everything that must hold before a change goes in: builds with two compilers and with sanitizers, all tests,
# formatting, static checks, and a live server. From a fresh Debian 12, as root or with sudo.
#
#   deploy/test.sh [--only STEP]...   STEP: lint, gcc, bench, fidelity, profiler, kills, trials, live, ops, tsan, clang
#                                     (with AddressSanitizer and UndefinedBehaviorSanitizer), fuzz (after clang), tidy;
#                                     and only when they are asked for: image and soak
set -euo pipefail
# shellcheck source=deploy/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

BUF_VERSION=1.75.0  # The only tool that is no Debian package; from npm.
BUF=$ROOT/build/tools/node_modules/.bin/buf
# torch and packaging: what the profiler of training jobs runs on. postgresql: tests start
# servers of their own. systemd, yaml and strace: for what is in deploy/.
TEST_PACKAGES=(
    clang clang-format clang-tidy curl git postgresql prometheus python3-packaging python3-torch python3-yaml
    shellcheck strace systemd
)

only=()
while (($# > 0)); do
    case $1 in
        --only) only+=("$2"); shift 2 ;;
        *) sed -n '2,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
    esac
done
wanted() {
    ((${#only[@]} == 0)) || [[ " ${only[*]} " == *" $1 "* ]]
}

# skipped WHAT: notes a check that could not run; the closing lines repeat it.
SKIPPED=()
skipped() {
    SKIPPED+=("not run: $1")
    echo "not run: $1" >&2
}

# Files under version control, or all of them where this is no working copy.
sources() {
    local patterns=("$@")
    if git -C "$ROOT" rev-parse --is-inside-work-tree >/dev/null 2>&1; then
        git -C "$ROOT" ls-files -- "${patterns[@]}"
    else
        local pattern
        for pattern in "${patterns[@]}"; do
            (cd "$ROOT" && find "${pattern%%/*}" -name "${pattern##*/}" -type f)
        done
    fi
}

install_tools() {
    local packages=("${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}")
    command -v npm >/dev/null || packages+=(npm)
    command -v kubectl >/dev/null || packages+=(kubernetes-client)
    install "${packages[@]}"
    if [[ ! -x $BUF || $("$BUF" --version) != "$BUF_VERSION" ]]; then
        npm install --loglevel=error --no-fund --no-audit --fetch-retries=1 --prefix "$ROOT/build/tools" \
            "@bufbuild/buf@$BUF_VERSION" || skipped "buf lint: npm could not install @bufbuild/buf"
    fi
}

lint() {
    sources 'core/*.cc' 'core/*.h' 'server/*.cc' 'server/*.h' 'client/*.cc' 'client/*.h' 'tests/*.cc' 'tests/*.h' |
        xargs -r -d '\n' clang-format --dry-run --Werror
    echo "clang-format: clean"
    sources 'deploy/*.sh' '.ci/run' | xargs -r -d '\n' shellcheck -x
    echo "shellcheck: clean"
    sources 'client/*.py' 'tests/*.py' 'deploy/*.py' |
        xargs -r -d '\n' /usr/bin/python3 -c 'import sys; [compile(open(f).read(), f, "exec") for f in sys.argv[1:]]'
    echo "python: compiles"
    if [[ -x $BUF ]]; then
        (cd proto && "$BUF" lint)
        echo "buf lint: clean"
    fi
}

export HAPMOE_REQUIRE_POSTGRESQL=1  # Otherwise tests that need one pass over it where it is missing.

SUMMARIES=()
# build_and_test PRESET [WRAPPER...]: builds everything, runs every test, keeps the closing lines.
build_and_test() {
    local preset=$1 log status=0
    shift
    log=$ROOT/build/test-$preset.log
    cmake --preset "$preset" >/dev/null
    cmake --build --preset "$preset" --parallel "$JOBS" | grep -v -E '^\[[0-9/]+\] (Building|Generating|Linking)' || true
    cmake --build --preset "$preset" --parallel "$JOBS" >/dev/null
    "$@" ctest --preset "$preset" --parallel "$JOBS" --timeout 900 >"$log" 2>&1 || status=$?
    grep -E '^[0-9]+% tests passed|^Total Test time' "$log" || tail -50 "$log"
    if ((status != 0)); then
        cat "$log"
        return "$status"
    fi
    SUMMARIES+=("$preset: $(grep -E '^[0-9]+% tests passed' "$log")")
}

# ThreadSanitizer of GCC 12 wants a smaller address-space randomisation than new kernels use.
tsan() {
    if setarch "$(uname -m)" -R true 2>/dev/null; then
        build_and_test tsan setarch "$(uname -m)" -R
    else
        build_and_test tsan
    fi
}

tidy() {
    local files
    files=$(sources 'core/*.cc' 'server/*.cc' 'client/*.cc')
    if [[ ! -e build-clang/compile_commands.json ]]; then cmake --preset clang >/dev/null; fi
    # Generated headers must exist.
    cmake --build build-clang --parallel "$JOBS" --target hapmoe_messages hapmoe_services >/dev/null
    xargs -d '\n' -P "$JOBS" -n 1 clang-tidy -p build-clang --quiet <<<"$files" 2>"$ROOT/build/tidy.err" || {
        cat "$ROOT/build/tidy.err" >&2
        return 1
    }
    echo "clang-tidy: $(wc -l <<<"$files") files clean"
}

SERVER_PID=
state=$(mktemp -d)
cleanup() {
    if [[ -n $SERVER_PID ]]; then kill -TERM "$SERVER_PID" 2>/dev/null || true; fi
    rm -rf "$state"
}
trap cleanup EXIT

# A server as it is shipped: plans the main job on both example clusters, publishes metrics that promtool accepts, and
# leaves with 0 when asked to.
live() {
    local cluster launcher
    start_server "$state"
    for cluster in h800-a100 h800-910b; do
        plan_example "deploy/examples/$cluster.yaml" "$state/$cluster" >"$state/$cluster.txt"
        for launcher in "$state/$cluster"/*.sh; do bash -n "$launcher"; done
        echo "plan for $cluster: $(find "$state/$cluster" -type f | wc -l) files"
    done
    curl -sf "http://$METRICS/metrics" >"$state/metrics"
    promtool check metrics <"$state/metrics"
    echo "promtool: $(grep -c '^# TYPE' "$state/metrics") metrics clean"
    stop_server
    echo "the server left with 0 after SIGTERM"
}

# Writers killed at many moments lose nothing that was acknowledged.
kills() {
    HAPMOE_KILLS=200 build/bin/storage_kill_test
}

# The whole server under more than it can take; limits of time are lenient, and the figures are printed.
trials() {
    build/bin/trial
    build/bin/trial soak --soak=15s
}

# A mixed load for $SOAK_SECONDS during which nothing may fail or grow: an hour of it is the acceptance.
soak() {
    build/bin/trial soak --soak="${SOAK_SECONDS:-3600}s"
}

# What runs the planner for good: image, unit, manifests, rules and dashboard, the last two beside a live Prometheus.
ops() {
    local test log=$ROOT/build/ops.log
    for test in tests/deploy/operations/*_test.py; do
        /usr/bin/python3 "$test" --binaries build/bin >"$log" 2>&1 || {
            cat "$log"
            return 1
        }
        echo "$(basename "$test" .py): $(sed -n 's/^Ran //p' "$log")"
    done
}

# Answers within their limits of processor time, and plans no slower than another planner's by its own formulas.
bench() {
    build/bin/plan_benchmark
    build/bin/sailor --data="$ROOT/tests/bench/sailor"
    build/bin/paper
}

# Predicts every published run that the repository holds and compares: the tables are a report, the floors a test.
fidelity() {
    local data=$ROOT/tests/bench/fidelity runs
    start_server "$state"
    for runs in training_runs training_runs_vtrain_single training_runs_ci_small; do
        build/bin/hapmoe evaluate --batch "$data/$runs.jsonl" --server "$SERVER" >"$state/$runs.predictions"
        say "Predictions of $runs"
        build/bin/fidelity --cases="$data/$runs.jsonl" --predictions="$state/$runs.predictions" \
            --groups="$data/$runs.groups.json" --floors="$data/floors.json" --section="$runs"
    done
    say "Predictions of families that had no part in the fit"
    build/bin/cross_validate --cases="$data/training_runs.jsonl,$data/training_runs_vtrain_single.jsonl" --most_mean=0.16
    say "Predictions after the smallest run of each job was reported"
    build/bin/feedback --cases="$data/training_runs.jsonl,$data/training_runs_vtrain_single.jsonl" \
        --settings=alone,outlier --most_mean=0.031 --most_outlier=0.002
    stop_server
}

# Predicts training runs of this machine from what the profiler wrote of them. Alone on a quiet machine they are within
# 15 %; the limit here is one that busy ones keep.
profiler() {
    /usr/bin/python3 tests/client/megatron/prediction_check.py --binaries build/bin --limit 0.5
}

# Every parser under libFuzzer, $FUZZ_SECONDS each, from its corpus; what it finds lies in build-clang/found.
fuzz() {
    local found=$ROOT/build-clang/found
    cmake --preset clang >/dev/null
    cmake --build --preset clang --parallel "$JOBS" --target fuzz >/dev/null
    mkdir -p "$found"
    # shellcheck disable=SC2016  # Expanded by the inner shell.
    find tests/fuzz/corpus -mindepth 1 -maxdepth 1 -printf '%f\n' | sort |
        xargs -P "$JOBS" -I '{}' bash -c '
            mkdir -p build-clang/corpus/"$1"
            HAPMOE_FUZZ_TARGET=$1 build-clang/bin/fuzz -max_total_time="$2" -timeout=10 -rss_limit_mb=2048 -max_len=8192 \
                -artifact_prefix="$3/$1-" -print_final_stats=1 build-clang/corpus/"$1" tests/fuzz/corpus/"$1" deploy/examples \
                >"$3/$1.log" 2>&1 || { tail -40 "$3/$1.log"; exit 1; }
            printf "%s: %s executions\n" "$1" "$(sed -n "s/^stat::number_of_executed_units: //p" "$3/$1.log")"
        ' fuzz '{}' "${FUZZ_SECONDS:-20}" "$found"
}

cd "$ROOT"
mkdir -p build
step "Install packages and tools" install_tools
if wanted lint; then step "Formatting, scripts and protos" lint; fi
if wanted gcc; then step "GCC, release" build_and_test gcc; fi
if wanted bench; then step "Processor time of answers, and plans beside other planners" bench; fi
if wanted fidelity; then step "Predictions against published runs" fidelity; fi
if wanted profiler; then step "Predictions of profiled runs" profiler; fi
if wanted kills; then step "Writers killed 200 times" kills; fi
if wanted trials; then step "Trials of the whole server" trials; fi
if wanted live; then step "Live server" live; fi
if wanted ops; then step "Image, unit, manifests, rules and dashboard" ops; fi
if [[ " ${only[*]} " == *" image "* ]]; then step "Image" deploy/image.sh; fi
if [[ " ${only[*]} " == *" soak "* ]]; then step "Soak" soak; fi
if wanted tsan; then step "ThreadSanitizer, all that needs no gRPC" tsan; fi
if wanted clang; then step "Clang, with AddressSanitizer and UndefinedBehaviorSanitizer" build_and_test clang; fi
if wanted fuzz; then step "Fuzzing" fuzz; fi
if wanted tidy; then step "clang-tidy" tidy; fi
print_timings
say "Tests"
if ((${#SKIPPED[@]} > 0)); then printf '%s\n' "${SKIPPED[@]}"; fi
if ((${#SUMMARIES[@]} > 0)); then printf '%s\n' "${SUMMARIES[@]}"; fi
