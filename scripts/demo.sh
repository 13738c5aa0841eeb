#!/bin/sh
# The main job on real data: lock, build, run the same unedited script twice, compare the bits; then the same script in
# the same image with envbuild's controls off. Needs `envbuild` on PATH and a container engine (`make demo` sees to both).
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/envbuild-demo.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
cp "$here/examples/digits/train.py" "$here/examples/digits/spec.yaml" "$work"
cd "$work"
timings=""

step() { # step NAME COMMAND...: show the command, run it, remember how long it took
    name=$1
    shift
    printf '\n$ %s\n' "$*"
    began=$(date +%s%N)
    "$@"
    took=$((($(date +%s%N) - began) / 10000000))
    timings="$timings$(printf '  %-28s %3d.%02d s' "$name" $((took / 100)) $((took % 100)))
"
}
bits() { sha256sum digits.weights.h5 | cut -c1-16; }

printf 'envbuild demo: a Keras CNN with dropout and shuffling on scikit-learn'\''s digits; the script sets no seed\n'
step "lock" envbuild lock spec.yaml
step "build" envbuild build
step "build again (nothing to do)" envbuild build
step "run 1" envbuild run train.py
first=$(bits)
step "run 2" envbuild run train.py
second=$(bits)
step "run 3, controls off" envbuild run --no-controls train.py
third=$(bits)
step "run 4, controls off" envbuild run --no-controls train.py
fourth=$(bits)

printf '\nmodel weights (sha256 of digits.weights.h5)\n'
printf '  with envbuild      run 1  %s\n                     run 2  %s\n' "$first" "$second"
printf '  controls off       run 3  %s\n                     run 4  %s\n' "$third" "$fourth"
printf '\nhow long each step took\n%s\n' "$timings"
if [ "$first" = "$second" ] && [ "$third" != "$fourth" ]; then
    printf 'result    the same model, bit for bit, with envbuild; two different models without its controls\n'
else
    printf 'result    FAILED: expected runs 1 and 2 equal, runs 3 and 4 different\n' >&2
    exit 1
fi
