# What several scripts share; to be sourced: . "${0%/*}/lib.sh". The caller defines say() and fail().
# shellcheck shell=sh

# Ask the engine behind a socket for its version: answers SOCKET
answers() {
    "${PYTHON:-python3}" - "$1" <<'PYTHON' 2>/dev/null
import http.client, json, socket, sys

connection = http.client.HTTPConnection("localhost")
connection.sock = socket.socket(socket.AF_UNIX)
connection.sock.settimeout(20)
connection.sock.connect(sys.argv[1])
connection.request("GET", "/version")
print(json.loads(connection.getresponse().read())["Version"])
PYTHON
}

# Wait for a process that was signalled to end: ended PID WHAT
ended() {
    waited=0
    while kill -0 "$1" 2>/dev/null; do
        [ "$waited" -lt 240 ] || fail "$2 (process $1) does not end"
        waited=$((waited + 1))
        sleep 0.5
    done
}

# Address of the first main archive of Debian that apt is configured with.
mirror() {
    # shellcheck disable=SC2016 # the $(...) are apt's own
    apt-get indextargets --format '$(REPO_URI) $(ORIGIN) $(COMPONENT)' 'Created-By: Packages' 2>/dev/null |
        awk '$2 == "Debian" && $3 == "main" && $1 !~ /security/ { print $1; exit }'
}

# Fetch packages of a Debian suite by apt itself (signatures checked), with lists of its own so that the machine's apt
# state stays as it is, and unpack them into a folder: unpack_beside ADDRESS SUITE FOLDER PACKAGE…
unpack_beside() {
    archive=$1 of=$2 into=$3
    shift 3
    wanted=$*
    rm -rf "$into/apt" "$into/debs"
    mkdir -p "$into/apt/lists/partial" "$into/apt/cache/archives/partial" "$into/debs"
    keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    option= && [ -r "$keyring" ] && option="[signed-by=$keyring]"
    printf 'deb %s %s %s main\n' "$option" "$archive" "$of" >"$into/apt/sources.list"
    # _apt, the user that apt downloads as, may not look into a home folder.
    set -- -qq -o APT::Sandbox::User=root -o Dir::State::Lists="$into/apt/lists" -o Dir::Cache="$into/apt/cache" \
        -o Dir::Etc::SourceList="$into/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null \
        -o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null
    apt-get "$@" update >&2 || fail "apt cannot read Debian $of from the configured mirror"
    # shellcheck disable=SC2086 # names of packages, separated by blanks
    (cd "$into/debs" && apt-get "$@" download $wanted >&2) || fail "apt cannot fetch of Debian $of: $wanted"
    for deb in "$into"/debs/*.deb; do dpkg-deb -x "$deb" "$into"; done
    rm -rf "$into/apt" "$into/debs"
}

# Install packages of the distribution as root; the lists are read again only if that fails: install_packages PACKAGE…
install_packages() {
    export DEBIAN_FRONTEND=noninteractive
    output=$(mktemp)
    # A machine that has just started may be busy with updates of its own: wait for apt's lock.
    if ! apt-get -o DPkg::Lock::Timeout=300 install -qq --no-install-recommends "$@" >"$output" 2>&1; then
        apt-get update -qq >>"$output" 2>&1 || true
        if ! apt-get -o DPkg::Lock::Timeout=300 install -qq --no-install-recommends "$@" >>"$output" 2>&1; then
            tail -n 8 "$output" >&2
            fail "apt-get could not install $1 (whole output: $output)" \
                "do it by hand, then try again: apt-get update && apt-get install $*"
        fi
    fi
    rm -f "$output"
}
