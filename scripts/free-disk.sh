#!/bin/sh
# Make room on a runner of GitHub Actions: empty folders that it brings and that nobody needs here.
# Usage: scripts/free-disk.sh FOLDER   (what is in the folders below FOLDER is removed, the folders themselves stay)
# Refuses to run anywhere else: it deletes.
set -eu
[ "${GITHUB_ACTIONS:-}" = true ] || {
    echo "free-disk: not on a runner of GitHub Actions; nothing was removed" >&2
    exit 2
}
[ "${1:-}" = /spare ] || {
    echo "free-disk: expected /spare, found ${1:-nothing}" >&2
    exit 2
}
find "$1" -mindepth 2 -delete
df -h / | awk 'NR == 2 { print "disk      " $4 " free" }'
