#!/usr/bin/env bash
# Builds the image of Dockerfile without a daemon, and tries what it holds: the server starts as the image says, as a
# user without rights on a read-only root file system, is healthy, and plans a job. As root.
#
#   deploy/image.sh [--base IMAGE] [--tag NAME] [--out FILE] [--keep]
#
#   --base IMAGE  any image of Debian 12 that buildah finds or may fetch; made here from Debian's packages when left out
#   --tag NAME    hapmoe:latest when left out
#   --out FILE    also writes the image as an archive, which docker load and podman load read
#   --keep        leaves buildah's storage in build/image: the next run starts from the base image made by this one
set -euo pipefail
# shellcheck source=deploy/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

base=
tag=hapmoe:latest
out=
keep=false
while (($# > 0)); do
    case $1 in
        --base) base=$2; shift 2 ;;
        --tag) tag=$2; shift 2 ;;
        --out) out=$2; shift 2 ;;
        --keep) keep=true; shift ;;
        *) sed -n '2,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
    esac
done

WORK=$ROOT/build/image
state=$(mktemp -d)
cleanup() {
    rm -rf "$state"
    if ! $keep; then
        buildah_here rm --all >/dev/null 2>&1 || true
        rm -rf "$WORK"
    fi
}
trap cleanup EXIT

# Needs neither a daemon, nor an overlay file system, nor rights beyond those of a container's root.
buildah_here() {
    BUILDAH_ISOLATION=chroot nice buildah --storage-driver vfs --root "$WORK/storage" --runroot "$WORK/run" "$@"
}

# As Debian's own slim image: the smallest set of packages, without documents and translations.
make_base() {
    local archive=$WORK/base.tar container excluded
    base=localhost/hapmoe-base:bookworm
    if buildah_here inspect --type image "$base" >/dev/null 2>&1; then
        echo "$base is there"
        return
    fi
    local options=()
    for excluded in doc groff info linda lintian locale man; do
        options+=("--dpkgopt=path-exclude=/usr/share/$excluded/*")
    done
    options+=("--dpkgopt=path-include=/usr/share/doc/*/copyright")
    nice mmdebstrap --quiet --variant=minbase "${options[@]}" bookworm "$archive"
    container=$(buildah_here from scratch)
    buildah_here add "$container" "$archive" / >/dev/null
    buildah_here commit --quiet --rm "$container" "$base"
    rm -f "$archive"
}

build() {
    local pull=()
    if [[ $base == localhost/* ]]; then pull=(--pull-never); fi
    buildah_here bud "${pull[@]}" --format docker --tag "$tag" --build-arg BASE="$base" --build-arg JOBS="$JOBS" \
        --build-arg COMMIT="$(git -C "$ROOT" rev-parse --short=12 HEAD 2>/dev/null)" "$ROOT" >"$WORK/build.log" 2>&1 || {
        tail -40 "$WORK/build.log" >&2
        return 1
    }
}

# config FIELD: of the image, as words.
config() {
    buildah_here inspect --type image --format "{{range .Docker.Config.$1}}{{println .}}{{end}}" "$tag"
}

# What runs inside: the command line of the image, its health check, and a plan.
mkdir "$state/given"
cat >"$state/given/try.sh" <<'TRY'
set -eu
health=$1
shift
echo "user $(id -u):$(id -g), capabilities $(awk '$1 == "CapEff:" { print $2 }' /proc/self/status)"
if touch /usr/local/written 2>/dev/null; then echo "the root file system can be written" >&2; exit 1; fi
"$@" 2>/tmp/server.log &
server=$!
tries=0
until $health >/tmp/info 2>&1; do
    tries=$((tries + 1))
    if [ $tries -gt 20 ] || ! kill -0 $server; then cat /tmp/info /tmp/server.log >&2; exit 1; fi
    sleep 0.2
done
hapmoed --version
cat /tmp/info
hapmoe plan --script /tmp/given/mixtral-8x7b.sh --script-reading static --cluster /tmp/given/h800-a100.yaml \
    --out /tmp/plan >/tmp/answer
head -n 2 /tmp/answer
bash -n /tmp/plan/launch.sh
hapmoe profiles put /tmp/given/profile.json
kill -TERM $server
status=0
wait $server || status=$?
tail -n 1 /tmp/server.log
exit $status
TRY

# As container engines start it with a read-only root: the user of the image, no capability, a network of its own, and
# only the volume and /tmp to write to.
try() {
    local container root volume=$state/volume user command=() health=()
    user=$(buildah_here inspect --type image --format '{{.Docker.Config.User}}' "$tag")
    mapfile -t command < <(config Entrypoint; config Cmd)
    mapfile -t health < <(config Healthcheck.Test | tail -n +2)
    command install -d -o "${user%%:*}" -g "${user##*:}" -m 0700 "$volume"
    cp deploy/examples/mixtral-8x7b.sh deploy/examples/h800-a100.yaml "$state/given"
    sed 's/"H800-SXM"/"H800-TRIED"/; /"aliases"/d' deploy/profiles/h800-sxm.json >"$state/given/profile.json"
    chmod -R a+rX "$state"
    container=$(buildah_here from --pull-never "$tag")
    root=$(buildah_here mount "$container")
    bwrap --ro-bind "$root" / --proc /proc --dev /dev --perms 1777 --tmpfs /tmp \
        --ro-bind "$state/given" /tmp/given --bind "$volume" /var/lib/hapmoe \
        --unshare-pid --unshare-ipc --unshare-uts --unshare-net --die-with-parent --clearenv \
        --setenv PATH /usr/local/bin:/usr/bin:/bin \
        --cap-drop ALL --cap-add CAP_SETUID --cap-add CAP_SETGID \
        setpriv --reuid="${user%%:*}" --regid="${user##*:}" --clear-groups --no-new-privs \
        sh /tmp/given/try.sh "${health[*]}" "${command[@]}"
    echo "kept in the volume: $(cd "$volume" && find . -type f | sort | tr '\n' ' ')"
    buildah_here umount "$container" >/dev/null
    buildah_here rm "$container" >/dev/null
}

print_size() {
    local container root
    container=$(buildah_here from --pull-never "$tag")
    root=$(buildah_here mount "$container")
    say "Image $tag"
    echo "$(du --summarize --block-size=1M --one-file-system "$root" | cut -f1) MiB, of them programs:" \
        "$(du --block-size=1M --total "$root"/usr/local/bin/hapmoe* | tail -n 1 | cut -f1) MiB"
    buildah_here umount "$container" >/dev/null
    buildah_here rm "$container" >/dev/null
    if [[ -n $out ]]; then buildah_here push "$tag" "docker-archive:$out:$tag"; fi
}

cd "$ROOT"
mkdir -p "$WORK"
step "Install packages" install buildah mmdebstrap bubblewrap git
if [[ -z $base ]]; then step "Make the base image" make_base; fi
step "Build the image" build
step "Start it, and plan" try
print_size
print_timings
