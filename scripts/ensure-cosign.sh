#!/bin/sh
# Make sure that there is cosign, which images are signed with; run it as often as you like. Prints the program's path.
# Usage: scripts/ensure-cosign.sh
# A cosign on PATH, or the one that ENVBUILD_COSIGN names, is taken as it is. Otherwise Debian's is fetched by apt itself
# (signatures checked), with lists of its own, and unpacked into the cache: the machine's apt state stays as it is.
# ENVBUILD_COSIGN_SUITE names a suite (default: trixie, which has 2.5.0; Debian 12 has none), and asks for that one
# whatever is on PATH. Needs Debian or its kin, with a mirror in its apt configuration.
# Exit status: 0 there is one; 1 there is none, and the message says what to install.
set -eu
suite=${ENVBUILD_COSIGN_SUITE:-trixie}
base=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/envbuild/cosign
root=$base/$suite

say() { printf 'cosign    %s\n' "$*" >&2; }
fail() {
    printf 'cosign    %s\n' "$@" >&2
    exit 1
}
by_hand="get it: docs.sigstore.dev/cosign/system_config/installation, or apt-get install cosign from Debian 13 on"

# Its version, if it runs at all.
version() { "$1" version 2>/dev/null | sed -n 's/^GitVersion: *v\{0,1\}//p'; }

# Address of the first main archive that apt is configured with.
mirror() {
    # shellcheck disable=SC2016 # the $(...) are apt's own
    apt-get indextargets --format '$(REPO_URI) $(ORIGIN) $(COMPONENT)' 'Created-By: Packages' 2>/dev/null |
        awk '$2 == "Debian" && $3 == "main" && $1 !~ /security/ { print $1; exit }'
}

unpack() {
    command -v apt-get >/dev/null || fail "no cosign, and this is no Debian-like system" "$by_hand"
    address=$(mirror) keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    if [ -z "$address" ] && [ "$(id -u)" = 0 ]; then
        apt-get -qq update >&2 || true
        address=$(mirror)
    fi
    [ -n "$address" ] || fail "no cosign, and apt knows no Debian mirror" "$by_hand"
    say "fetching cosign of Debian $suite"
    rm -rf "$root"
    mkdir -p "$root/apt/lists/partial" "$root/apt/cache/archives/partial" "$root/debs"
    option= && [ -r "$keyring" ] && option="[signed-by=$keyring]"
    printf 'deb %s %s %s main\n' "$option" "$address" "$suite" >"$root/apt/sources.list"
    # _apt, the user that apt downloads as, may not look into a home folder.
    set -- -qq -o APT::Sandbox::User=root -o Dir::State::Lists="$root/apt/lists" -o Dir::Cache="$root/apt/cache" \
        -o Dir::Etc::SourceList="$root/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null \
        -o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null
    apt-get "$@" update >&2 || fail "apt cannot read Debian $suite from the configured mirror"
    (cd "$root/debs" && apt-get "$@" download cosign >&2) || fail "apt cannot fetch cosign of Debian $suite"
    for deb in "$root"/debs/*.deb; do dpkg-deb -x "$deb" "$root"; done
    rm -rf "$root/apt" "$root/debs"
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
