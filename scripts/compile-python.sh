#!/bin/sh
# Compile CPython from Debian's source package and pack it in the form of a standalone build, for tests: archives of the real
# project are not at hand everywhere. About three minutes on two cores.
# Usage: scripts/compile-python.sh FEATURE FOLDER    such as 3.13 /tmp/pythons
# Then: ENVBUILD_TEST_PYTHONS=FOLDER pytest tests/integration/test_standalone_python.py
# Needs a C compiler (make compiler), zlib1g-dev and a Debian mirror in apt's configuration. ENVBUILD_SOURCE_SUITE names the
# suite (default: trixie, which has 3.13).
set -eu
feature=$1
mkdir -p "$2"
folder=$(cd "$2" && pwd)
suite=${ENVBUILD_SOURCE_SUITE:-trixie}
root=$(cd "${0%/*}/.." && pwd)
work=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/envbuild-tests/cpython-$feature
mkdir -p "$work"

fail() {
    printf 'python    %s\n' "$@" >&2
    exit 1
}

# shellcheck source=scripts/lib.sh
. "${0%/*}/lib.sh"

mirror=$(mirror) && mirror=${mirror%/}
[ -n "$mirror" ] || fail "apt's configuration names no Debian mirror"

if [ ! -x "$work/install/bin/python$feature" ]; then
    curl -fsSL "$mirror/dists/$suite/main/source/Sources.xz" | xz -dc |
        sed -n "/^Package: python$feature\$/,/^\$/p" >"$work/stanza"
    directory=$(sed -n 's/^Directory: //p' "$work/stanza" | head -n 1)
    # In the stanza's list of SHA-256: digest, size, name.
    line=$(sed -n '/^Checksums-Sha256:/,/^[^ ]/p' "$work/stanza" | grep '\.orig\.tar\.xz$' | tail -n 1)
    [ -n "$line" ] || fail "$suite has no source of python$feature"
    # shellcheck disable=SC2086 # three words
    set -- $line
    echo "python    $3"
    curl -fsSL -o "$work/source.tar.xz" "$mirror/$directory/$3"
    echo "$1  $work/source.tar.xz" | sha256sum --quiet --check
    rm -rf "$work/source"
    mkdir "$work/source"
    tar -xf "$work/source.tar.xz" -C "$work/source" --strip-components 1
    (
        cd "$work/source"
        # As small as a test needs: the library is linked in, as in the real builds since 2025.
        ./configure --quiet --prefix=/install --disable-test-modules --without-ensurepip CFLAGS=-O1
        make --silent -j "$(nproc)"
        make --silent DESTDIR="$work/destination" install
    ) >"$work/log" 2>&1 || { tail -n 30 "$work/log" >&2; exit 1; }
    mv "$work/destination/install" "$work/install"
fi
cd "$root"
exec "${PYTHON:-.venv/bin/python}" -m tests.support.pythons "$work/install" "$folder"
