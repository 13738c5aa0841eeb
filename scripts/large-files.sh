#!/bin/sh
# Fail if git tracks a file above 1 MiB: downloads that `git add` took along. Nothing to do outside a checkout.
# Usage: scripts/large-files.sh
set -eu
git rev-parse --is-inside-work-tree >/dev/null 2>&1 || exit 0
large=$(git ls-files -z | xargs -0 -r stat -c '%s bytes: %n' 2>/dev/null | awk '$1 > 1048576') || true
[ -z "$large" ] || {
    printf 'tracked   %s\n' "$large" >&2
    echo 'tracked   above 1 MiB: git rm --cached FILE' >&2
    exit 1
}
