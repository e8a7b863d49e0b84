# Shared by quickstart.sh and test.sh; sourced, not run. Sets ROOT and defines step, install and the server's life.
# shellcheck shell=bash
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
JOBS=${JOBS:-$(nproc)}
TIMINGS=()

# What building and running need; nothing comes from anywhere but Debian 12. The client runs scripts in bubblewrap.
# shellcheck disable=SC2034
BUILD_PACKAGES=(
    bubblewrap ca-certificates g++ cmake ninja-build ccache
    libgrpc-dev libgrpc++-dev libprotobuf-dev libssl-dev protobuf-compiler protobuf-compiler-grpc
    libabsl-dev libpq-dev libsqlite3-dev prometheus-cpp-dev libyaml-cpp-dev libgtest-dev libgmock-dev libbenchmark-dev
)

say() { printf '\n== %s\n' "$*"; }

# step NAME COMMAND...: runs a command and notes how long it took; stops the script when it fails.
# The command is a simple one on purpose: "set -e" does not reach into a function called in a condition.
step() {
    local name=$1 begin=$SECONDS
    shift
    say "$name"
    "$@"
    TIMINGS+=("$(printf '%6d s  %s' "$((SECONDS - begin))" "$name")")
}

print_timings() {
    say "Time by step"
    printf '%s\n' "${TIMINGS[@]}"
}

as_root() {
    if [[ $(id -u) -eq 0 ]]; then "$@"; else sudo "$@"; fi
}

# install PACKAGE...: installs what is missing, and asks the archive only when something is.
install() {
    local missing=() package
    for package in "$@"; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
    done
    if ((${#missing[@]} == 0)); then
        echo "all packages are installed"
        return
    fi
    echo "installing ${missing[*]}"
    as_root apt-get update -q
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
}

# free_port: a loopback port that nobody listens on. Kept out of the range that clients are given.
free_port() {
    local port
    for ((port = 20000 + RANDOM % 10000; ; port++)); do
        (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
    done
    echo "$port"
}

# start_server STATE_DIR: starts build/bin/hapmoed on loopback with its embedded profiles. Sets SERVER, METRICS and
# SERVER_PID, and returns once it answers.
start_server() {
    local state=$1 tries
    SERVER=127.0.0.1:$(free_port)
    METRICS=127.0.0.1:$(free_port)
    while [[ $METRICS == "$SERVER" ]]; do METRICS=127.0.0.1:$(free_port); done
    "$ROOT/build/bin/hapmoed" --listen="$SERVER" --metrics_listen="$METRICS" --state_dir="$state" \
        >"$state/server.log" 2>&1 &
    SERVER_PID=$!
    for ((tries = 0; tries < 100; tries++)); do
        if "$ROOT/build/bin/hapmoe" info --server "$SERVER" --deadline 2 >/dev/null 2>&1; then
            echo "server on $SERVER, metrics on http://$METRICS/metrics, log in $state/server.log"
            return
        fi
        kill -0 "$SERVER_PID" 2>/dev/null || break
        sleep 0.1
    done
    echo "the server did not start:" >&2
    cat "$state/server.log" >&2
    return 1
}

# stop_server: asks it to drain, and fails unless it exits with 0.
stop_server() {
    local pid=$SERVER_PID
    SERVER_PID=
    kill -TERM "$pid"
    wait "$pid"
}

# plan_example CLUSTER OUT: plans the example job. Its script is run in the client's sandbox; where the machine allows
# none (many containers), it is expanded here instead, since it is known to be harmless, and its arguments are given.
plan_example() {
    local cluster=$1 out=$2 script=$ROOT/deploy/examples/mixtral-8x7b.sh stub status=0
    mkdir -p "$out"
    "$ROOT/build/bin/hapmoe" plan --server "$SERVER" --script "$script" --cluster "$cluster" --out "$out" \
        2>"$out/errors" || status=$?
    cat "$out/errors" >&2
    if ((status != 0)) && grep -q sandbox "$out/errors"; then
        echo "no sandbox here: expanding $script without one" >&2
        stub=$(mktemp -d)
        # Drops torchrun's own arguments and the entry; the example holds no word that needs quoting beyond %q.
        cat >"$stub/torchrun" <<'STUB'
#!/bin/bash
while (($# > 0)) && [[ $1 != *.py ]]; do shift; done
shift
printf '%q ' "$@"
STUB
        chmod +x "$stub/torchrun"
        PATH=$stub:$PATH "$script" >"$stub/arguments"
        status=0
        "$ROOT/build/bin/hapmoe" plan --server "$SERVER" --args-file "$stub/arguments" --cluster "$cluster" \
            --out "$out" || status=$?
        rm -rf "$stub"
    fi
    rm -f "$out/errors"
    return "$status"
}
