#!/bin/sh
# Make sure that there is cosign, which images are signed with; run it as often as you like. Prints the program's path.
# Usage: scripts/ensure-cosign.sh
# A cosign on PATH, or the one that ENVBUILD_COSIGN names, is taken as it is. Otherwise Debian's is fetched by apt itself
# (signatures checked), with lists of its own, and unpacked into the cache: the machine's apt state stays as it is.
# ENVBUILD_COSIGN_SUITE names a suite (default: trixie, which has 2.5.0; Debian 12 has none), and asks for that one
# whatever is on PATH. Needs Debian or its kin, with a mirror in its apt configuration.
# Exit status: 0 there is one; 1 there is none, and the message states what to install.
set -eu
suite=${ENVBUILD_COSIGN_SUITE:-trixie}
base=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/envbuild-tools/cosign
root=$base/$suite

say() { printf 'cosign    %s\n' "$*" >&2; }
fail() {
    printf 'cosign    %s\n' "$@" >&2
    exit 1
}
by_hand="get it: docs.sigstore.dev/cosign/system_config/installation, or apt-get install cosign from Debian 13 on"

# Its version, if it runs at all.
version() { "$1" version 2>/dev/null | sed -n 's/^GitVersion: *v\{0,1\}//p'; }

# shellcheck source=scripts/lib.sh
. "${0%/*}/lib.sh"

unpack() {
    command -v apt-get >/dev/null || fail "no cosign, and this is no Debian-like system" "$by_hand"
    address=$(mirror)
    if [ -z "$address" ] && [ "$(id -u)" = 0 ]; then
        apt-get -qq update >&2 || true
        address=$(mirror)
    fi
    [ -n "$address" ] || fail "no cosign, and apt knows no Debian mirror" "$by_hand"
    say "fetching cosign of Debian $suite"
    rm -rf "$root"
    unpack_beside "$address" "$suite" "$root" cosign
    [ -n "$(version "$root/usr/bin/cosign")" ] || fail "cosign of Debian $suite does not run here" "$by_hand"
    : >"$root/.complete"
}

program=${ENVBUILD_COSIGN:-}
if [ -z "$program" ] && [ -z "${ENVBUILD_COSIGN_SUITE:-}" ]; then program=$(command -v cosign || true); fi
if [ -z "$program" ] || [ -z "$(version "$program")" ]; then
    mkdir -p "$base"
    exec 9>"$base/lock"
    flock 9
    [ -e "$root/.complete" ] || unpack
    program=$root/usr/bin/cosign
fi
say "$(version "$program")"
printf '%s\n' "$program"
