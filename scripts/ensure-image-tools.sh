#!/bin/sh
# Make sure that there is what the tests need next to Docker: podman with its init program, uidmap, bubblewrap, skopeo, umoci
# and sqfstar for engines and exports, ssh-keygen for signed attestations, strace for power cuts, bindfs and mergerfs for a
# store on FUSE; run it as often as you like.
# Usage: scripts/ensure-image-tools.sh
# What is there is left as it is. What is missing is installed, as root on Debian and its kin.
# Exit status: 0 all are there; 1 some are not, and the message states what to install.
set -eu

say() { printf 'tools     %s\n' "$*"; }
fail() {
    printf 'tools     %s\n' "$@" >&2
    exit 1
}

# shellcheck source=scripts/lib.sh
. "${0%/*}/lib.sh"

missing() {
    for tool in podman skopeo umoci strace bindfs mergerfs; do
        command -v "$tool" >/dev/null || printf '%s ' "$tool"
    done
    command -v sqfstar >/dev/null || printf 'squashfs-tools '
    command -v ssh-keygen >/dev/null || printf 'openssh-client '
    command -v newuidmap >/dev/null || printf 'uidmap '
    command -v bwrap >/dev/null || printf 'bubblewrap '
    [ -x /usr/libexec/podman/catatonit ] || command -v catatonit >/dev/null || printf 'catatonit '
}

packages=$(missing)
if [ -z "$packages" ]; then
    say "$(podman --version), skopeo, umoci, strace, bindfs, mergerfs, ssh-keygen"
    exit 0
fi
packages=${packages% }
if [ "$(id -u)" != 0 ]; then
    fail "not installed: $packages" "get them: sudo apt-get install --no-install-recommends $packages"
fi
command -v apt-get >/dev/null ||
    fail "not installed: $packages, and this is no Debian-like system" "install them with your package manager, then try again"
say "installing $packages from the distribution"
# shellcheck disable=SC2086 # names of packages, separated by blanks
install_packages $packages
packages=$(missing)
[ -z "$packages" ] || fail "installed and yet not found: $packages"
say "$(podman --version), skopeo, umoci, strace, bindfs, mergerfs, ssh-keygen"
