#!/bin/sh
# Build envbuild's own wheel and source archive from the last commit, twice, and compare them byte for byte.
# Usage: scripts/wheel.sh [DIRECTORY]   (default: dist)
# What is built is the commit, not the working tree. The two builds differ in folder, umask, time zone and locale; their
# dates are the commit's. The builder (hatchling) is the pinned one of requirements-dev.txt; nothing is downloaded.
# Exit status: 0 equal, and the files with SHA256SUMS are in DIRECTORY; 16 they differ; 1 anything else.
set -eu
target=${1:-dist}
mkdir -p "$target"
target=$(cd "$target" && pwd)
cd "$(dirname "$0")/.."
python=$(cd "${VENV:-.venv}/bin" && pwd)/python

say() { printf 'wheel     %s\n' "$*"; }
fail() {
    printf 'wheel     %s\n' "$@" >&2
    exit "${code:-1}"
}

git rev-parse --verify --quiet HEAD >/dev/null || fail "no commit to build"
"$python" -c 'import hatchling' 2>/dev/null || fail "no hatchling: make venv"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Usage: build FOLDER UMASK ZONE LOCALE
build() {
    mkdir -p "$work/$1"
    git archive --format=tar HEAD | (umask "$2" && tar -xf - -C "$work/$1")
    (umask "$2" && cd "$work/$1" && TZ=$3 LC_ALL=$4 PYTHONHASHSEED=$2 "$python" -m hatchling build -t sdist -t wheel -d "$work/$1.out" >"$work/$1.log" 2>&1) ||
        fail "the build failed:" "$(tail -n 8 "$work/$1.log")"
    (cd "$work/$1.out" && sha256sum ./*.whl ./*.tar.gz | sed 's:\./::') >"$work/$1.sums"
}
build one 022 UTC C
build "the other one" 077 Pacific/Kiritimati C.UTF-8

say "first     $(tr '\n' ' ' <"$work/one.sums")"
say "second    $(tr '\n' ' ' <"$work/the other one.sums")"
code=16
cmp -s "$work/one.sums" "$work/the other one.sums" || fail "the two builds differ"
rm -f "$target"/envbuild-*.whl "$target"/envbuild-*.tar.gz
cp "$work/one.out"/*.whl "$work/one.out"/*.tar.gz "$target/"
cp "$work/one.sums" "$target/SHA256SUMS"
say "equal, in $target"
