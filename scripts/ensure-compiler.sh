#!/bin/sh
# Make sure that there is a C compiler (cc), which the tests' GPU stand-in is built with; run it as often as you like.
# Usage: scripts/ensure-compiler.sh
# A compiler that works is left as it is. Otherwise, as root on Debian and its kin, installs gcc and libc6-dev.
# Exit status: 0 there is one; 1 there is none, and the message states what to install.
set -eu

say() { printf 'compiler  %s\n' "$*"; }
fail() {
    printf 'compiler  %s\n' "$@" >&2
    exit 1
}

# shellcheck source=scripts/lib.sh
. "${0%/*}/lib.sh"

# It must compile and link a shared library: the command alone, without the C library's headers, is of no use.
works() {
    command -v cc >/dev/null || return 1
    folder=$(mktemp -d)
    printf '#include <stdio.h>\nint f(void) { return puts(""); }\n' >"$folder/f.c"
    status=0
    cc -shared -fPIC -o "$folder/f.so" "$folder/f.c" >/dev/null 2>&1 || status=1
    rm -rf "$folder"
    return "$status"
}

if works; then
    say "$(cc --version | head -n 1)"
    exit 0
fi
if [ "$(id -u)" != 0 ]; then
    fail "no C compiler that works (cc)" "get one: sudo apt-get install gcc libc6-dev (or your distribution's gcc)"
fi
command -v apt-get >/dev/null ||
    fail "no C compiler that works (cc), and this is no Debian-like system" "install gcc with your package manager, then try again"
say "installing gcc and libc6-dev from the distribution"
install_packages gcc libc6-dev
works || fail "gcc is installed and yet cannot build a shared library" "see why: echo 'int f;' | cc -x c -shared -fPIC -o /dev/null -"
say "$(cc --version | head -n 1)"
