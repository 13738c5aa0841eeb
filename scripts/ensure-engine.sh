#!/bin/sh
# Make sure that a container engine answers; run it as often as you like.
# Usage: scripts/ensure-engine.sh
# An engine that answers (DOCKER_HOST, docker context, the usual sockets) is left as it is. Otherwise, as root on Debian
# and its kin, installs docker.io from the distribution and starts it: by systemd where that runs, else by hand.
# Exit status: 0 an engine answers; 15 none does (envbuild's own code for that), and the message states what to do.
set -eu
socket=/var/run/docker.sock
log_dir=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/envbuild-tools
log=$log_dir/dockerd.log
patience=${ENVBUILD_ENGINE_PATIENCE:-180} # seconds

say() { printf 'engine    %s\n' "$*"; }
fail() {
    printf 'engine    %s\n' "$@" >&2
    exit 15
}

# Ask each candidate for its version, in the order in which envbuild itself looks (envbuild/engine/docker/endpoint.py); print the
# first answer. Needs no docker command: Debian 13 packages it apart from the engine.
probe() {
    "${PYTHON:-python3}" - <<'PYTHON'
import http.client, json, os, socket, sys

def ask(family, address):
    connection = http.client.HTTPConnection("localhost", timeout=20)
    connection.sock = socket.socket(family, socket.SOCK_STREAM)
    connection.sock.settimeout(20)
    connection.sock.connect(address)
    connection.request("GET", "/version")
    answer = json.loads(connection.getresponse().read())
    name = (answer.get("Platform") or {}).get("Name") or (answer.get("Components") or [{}])[0].get("Name", "engine")
    return f"{name} {answer['Version']}"

host = os.environ.get("DOCKER_HOST", "")
if host.startswith("tcp://") and not os.environ.get("DOCKER_TLS_VERIFY"):
    name, _, port = host[6:].rstrip("/").rpartition(":")
    choices = [(host, socket.AF_INET6 if name.startswith("[") else socket.AF_INET, (name.strip("[]"), int(port)))]
elif host and not host.startswith("unix://"):
    sys.exit(2)  # ssh or TLS: only the docker command can tell
else:
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    paths = [host[7:]] if host else ["/var/run/docker.sock"]
    if not host:
        paths += [f"{runtime}/docker.sock", f"{runtime}/podman/podman.sock"] if runtime else []
        paths += ["/run/podman/podman.sock"]
    choices = [(f"unix://{path}", socket.AF_UNIX, path) for path in paths]
for url, family, address in choices:
    try:
        print(ask(family, address).strip(), "at", url)
        sys.exit(0)
    except (OSError, ValueError, KeyError, http.client.HTTPException):
        pass
sys.exit(1)
PYTHON
}

# As `probe`, and ask the docker command about what only it understands (contexts, ssh, TLS).
answers() {
    if found=$(probe 2>/dev/null); then
        return 0
    fi
    if command -v docker >/dev/null; then
        found=$(timeout 30 docker version --format '{{.Server.Version}}' 2>/dev/null) || return 1
        found="engine $found (docker command)"
        return 0
    fi
    return 1
}

tail_of_log() { [ -s "$log" ] && tail -n 8 "$log" | cut -c1-400 | sed 's/^/          /' >&2; }

install_engine() {
    say "installing docker.io and iptables from the distribution"
    export DEBIAN_FRONTEND=noninteractive
    install_log=$log_dir/engine-install.log
    apt-get -o DPkg::Lock::Timeout=300 install -qq --no-install-recommends docker.io iptables >"$install_log" 2>&1 && return
    apt-get update -qq >>"$install_log" 2>&1 || true
    apt-get -o DPkg::Lock::Timeout=300 install -qq --no-install-recommends docker.io iptables >>"$install_log" 2>&1 && return
    tail -n 8 "$install_log" >&2
    fail "apt-get could not install docker.io (whole output: $install_log)" "do it by hand, then try again: apt-get update && apt-get install docker.io iptables"
}

start_engine() {
    if [ -d /run/systemd/system ]; then
        say "starting docker by systemd"
        systemctl start docker || fail "systemd could not start docker" "see why: systemctl status docker"
        return
    fi
    say "starting dockerd by hand (log: $log)"
    # Its own session: it outlives this terminal and gets no Ctrl-C meant for make. The lock (descriptor 9) is not its.
    setsid dockerd >"$log" 2>&1 </dev/null 9>&- &
    started=$!
}

await_engine() {
    waited=0
    while ! answers; do
        if [ -n "${started:-}" ] && ! kill -0 "$started" 2>/dev/null; then
            tail_of_log
            fail "dockerd ended at once (log: $log)" "in a container it needs --privileged; or use another engine: export DOCKER_HOST=..."
        fi
        if [ "$waited" -ge "$patience" ]; then
            tail_of_log
            fail "no answer from $socket after $patience seconds" "see the log: $log; or use another engine: export DOCKER_HOST=..."
        fi
        waited=$((waited + 1))
        sleep 1
    done
}

command -v "${PYTHON:-python3}" >/dev/null || fail "no ${PYTHON:-python3}: install Python 3.10 or newer"
if answers; then
    say "$found"
    exit 0
fi
if [ -n "${DOCKER_HOST:-}" ]; then
    fail "nothing answers at DOCKER_HOST=$DOCKER_HOST" "start that engine, or use the system's: unset DOCKER_HOST"
fi
if [ "$(id -u)" != 0 ]; then
    fail "no container engine answers at $socket" \
        "if one is running but not yours to use: sudo usermod -aG docker $(id -un), then log in again" \
        "else get one: sudo apt-get install docker.io iptables (or your distribution's docker or podman)" \
        "or use another one: export DOCKER_HOST=ssh://user@host"
fi
mkdir -p "$log_dir"
# One at a time: two makes at once must not both install or start.
exec 9>"$log_dir/engine.lock"
flock 9
if ! answers; then
    if ! command -v dockerd >/dev/null; then
        command -v apt-get >/dev/null ||
            fail "no container engine, and this is no Debian-like system" "install docker or podman with your package manager, start it, try again"
        install_engine
    fi
    answers || start_engine # installing may have started it
    await_engine
fi
say "$found"
