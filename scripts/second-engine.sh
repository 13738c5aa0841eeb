#!/bin/sh
# Bring up a second, newer Docker engine next to the machine's own, for tests: Debian's packages of a later suite, unpacked
# into the cache; own data, own socket, no bridge and no firewall rules of its own.
# Usage: scripts/second-engine.sh start|stop|clean [containerd|classic]
#   start  prints DOCKER_HOST=unix://... on standard output; what is running already is used
#   stop   ends it and removes its images and containers; the unpacked packages stay for the next time
#   clean  stop both, and remove the packages too
# The word is the image store: containerd's (default) or the classic one (overlay2). Both may run side by side.
# ENVBUILD_SECOND_NAME=bench names one more engine of the kind, with its own data and socket.
# Needs root and Debian with a mirror in its apt configuration. ENVBUILD_SECOND_SUITE names the suite (default: unstable).
# With ENVBUILD_SECOND_MEMORY=1 images and containers are in memory (tmpfs), which lists files in another order than a disk.
set -eu
suite=${ENVBUILD_SECOND_SUITE:-unstable}
store=${2:-containerd}
base=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/envbuild-tools/second-engine
root=$base/packages-$suite
case $store in
containerd) suffix='' snapshotter=true ;;
classic) suffix=-classic snapshotter=false ;;
*) store='' suffix='' snapshotter='' ;;
esac
suffix=$suffix${ENVBUILD_SECOND_NAME:+-$ENVBUILD_SECOND_NAME}
data=$base/data$suffix
# Short and outside the cache: a socket's path may have 107 bytes at most.
run=/run/envbuild-second-engine$suffix
socket=$run/docker.sock
pidfile=$run/dockerd.pid
log=$base/dockerd$suffix.log

say() { printf 'engine    %s\n' "$*" >&2; }
fail() {
    printf 'engine    %s\n' "$@" >&2
    exit 15
}

# shellcheck source=scripts/lib.sh
. "${0%/*}/lib.sh"

# Unpack what is missing of the packages of the suite. docker-buildx, the client of BuildKit, is for the benchmarks.
unpack() {
    missing=''
    for package in docker.io docker-cli containerd docker-buildx; do
        [ -e "$root/.has-$package" ] || missing="$missing $package"
    done
    [ -n "$missing" ] || return 0
    address=$(mirror)
    [ -n "$address" ] || fail "apt knows no Debian mirror" "add one to /etc/apt/sources.list, then: apt-get update"
    say "fetching$missing of Debian $suite"
    # shellcheck disable=SC2086 # names of packages
    unpack_beside "$address" "$suite" "$root" $missing
    for package in $missing; do : >"$root/.has-$package"; done
}

# Whether our own dockerd runs: its pid, checked against the program that the process really is.
ours() {
    pid=$(cat "$pidfile" 2>/dev/null) || return 1
    [ "$(readlink "/proc/$pid/exe")" = "$(readlink -f "$root/usr/sbin/dockerd")" ]
}

start() {
    [ "$(id -u)" = 0 ] || fail "the second engine needs root"
    mkdir -p "$base" "$run"
    exec 9>"$base/lock"
    flock 9
    if ! { ours && version=$(answers "$socket"); }; then
        unpack
        command -v runc >/dev/null || fail "no runc: install the machine's own engine first: scripts/ensure-engine.sh"
        # Descriptions of devices (CDI) and NVIDIA's hook come from folders of its own, so that tests may put some there.
        printf '{"features": {"containerd-snapshotter": %s}, "cdi-spec-dirs": ["%s"]}\n' "$snapshotter" "$run/cdi" >"$run/daemon.json"
        mkdir -p "$run/cdi" "$data"
        if [ "${ENVBUILD_SECOND_MEMORY:-}" = 1 ] && ! mountpoint -q "$data"; then mount -t tmpfs -o mode=711 tmpfs "$data"; fi
        # In a network namespace of its own: an engine without a bridge removes docker0, which is the first engine's.
        PATH=$run/bin:$root/usr/sbin:$root/usr/bin:$PATH setsid unshare --net dockerd --config-file "$run/daemon.json" \
            --data-root "$data" --exec-root "$run/exec" --pidfile "$pidfile" --host "unix://$socket" \
            --bridge none --iptables=false --ip6tables=false >"$log" 2>&1 </dev/null 9>&- &
        started=$!
        waited=0
        until version=$(answers "$socket"); do
            if ! kill -0 "$started" 2>/dev/null || [ "$waited" -ge 240 ]; then
                tail -n 8 "$log" | cut -c1-400 >&2
                fail "the second engine did not come up (log: $log)"
            fi
            waited=$((waited + 1))
            sleep 1
        done
    fi
    say "second engine $version ($store store) at $socket"
    printf 'DOCKER_HOST=unix://%s\n' "$socket"
}

stop() {
    if ours; then
        say "stopping the second engine"
        kill "$pid"
        ended "$pid" "the second engine"
    fi
    # Lazily: another process may be reading the file systems of this machine just now.
    ! mountpoint -q "$data" || umount --lazy "$data"
    rm -rf "$data" "$run"
}

[ -n "$store" ] || set -- usage
case ${1:-} in
start) start ;;
stop) stop ;;
clean)
    "$0" stop containerd
    "$0" stop classic
    rm -rf "$base"
    ;;
*)
    sed -n '2,12s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
