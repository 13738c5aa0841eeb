#!/bin/sh
# Bring up podman behind its Docker-compatible socket, for tests: own images, own settings, own socket; podman itself has no
# daemon, so nothing else of the machine is touched.
# Usage: scripts/podman-service.sh start|stop
#   start  prints DOCKER_HOST=unix://... on standard output; what is running already is used
#   stop   ends it and removes its images and containers
# As root it is podman of the system. Any other user gets podman of that user, which needs newuidmap and ranges of the user's
# own in /etc/subuid and /etc/subgid.
# Exit status: 0 it answers; 15 it cannot run here, and the message states why.
set -eu
if [ "$(id -u)" = 0 ]; then
    run=/run/envbuild-podman data=/var/tmp/envbuild-podman
else
    # Short, since a socket's path may have 107 bytes at most; with the user's number, since several may test at once.
    run=/tmp/envbuild-podman-$(id -u) data=/var/tmp/envbuild-podman-$(id -u)
fi
socket=$run/podman.sock
pidfile=$run/podman.pid
log=$run/podman.log

say() { printf 'podman    %s\n' "$*" >&2; }
fail() {
    printf 'podman    %s\n' "$@" >&2
    exit 15
}

# shellcheck source=scripts/lib.sh
. "${0%/*}/lib.sh"

ours() {
    pid=$(cat "$pidfile" 2>/dev/null) || return 1
    tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -q "system service .*$socket"
}

# Podman gives each container a million files and processes, which a machine without CAP_SYS_RESOURCE cannot.
settings() {
    processes=$(cat /proc/sys/kernel/pid_max)
    files=$(sed -n 's/^Max open files *[^ ]* *\([^ ]*\).*/\1/p' /proc/self/limits)
    [ "$files" != unlimited ] || files=1048576
    limit=$(sed -n 's/^Max processes *[^ ]* *\([^ ]*\).*/\1/p' /proc/self/limits)
    [ "$limit" = unlimited ] || [ "$limit" -gt "$processes" ] || processes=$limit
    printf '[containers]\ndefault_ulimits = ["nofile=%s:%s", "nproc=%s:%s"]\n' "$files" "$files" "$processes" "$processes"
    printf '[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n'
}

start() {
    mkdir -p "$run" "$data"
    exec 9>"$run/lock"
    flock 9
    if ! { ours && version=$(answers "$socket"); }; then
        command -v podman >/dev/null || fail "no podman" "get it: scripts/ensure-image-tools.sh"
        settings >"$run/containers.conf"
        # The kernel's overlay needs a file system below that is none itself, as it is inside a container.
        driver=overlay
        [ "$(stat -f -c %T "$data")" != overlayfs ] || driver=vfs
        CONTAINERS_CONF=$run/containers.conf setsid podman --root "$data" --runroot "$run/run" --tmpdir "$run/tmp" \
            --storage-driver "$driver" system service --time 0 "unix://$socket" >"$log" 2>&1 </dev/null 9>&- &
        started=$!
        echo "$started" >"$pidfile"
        waited=0
        until version=$(answers "$socket"); do
            if ! kill -0 "$started" 2>/dev/null || [ "$waited" -ge 240 ]; then
                tail -n 8 "$log" | cut -c1-400 >&2
                fail "podman's service did not come up (log: $log)"
            fi
            waited=$((waited + 1))
            sleep 0.5
        done
    fi
    say "podman $version at $socket"
    printf 'DOCKER_HOST=unix://%s\n' "$socket"
}

stop() {
    if ours; then
        say "stopping podman's service"
        kill "$pid"
        ended "$pid" "podman's service"
    fi
    if [ -d "$data" ] && command -v podman >/dev/null; then
        CONTAINERS_CONF=$run/containers.conf podman --root "$data" --runroot "$run/run" --tmpdir "$run/tmp" \
            system reset --force >/dev/null 2>&1 || true
        # What is left belongs to users that only exist in podman's own user namespace.
        [ "$(id -u)" = 0 ] || podman unshare rm -rf "$data" || true
    fi
    rm -rf "$data" "$run"
}

case ${1:-} in
start) start ;;
stop) stop ;;
*)
    sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
