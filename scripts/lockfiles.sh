#!/bin/sh
# Lock the reference specs again. Usage: scripts/lockfiles.sh [NAME…] [-- OPTION…], such as: scripts/lockfiles.sh -- --upgrade
#
# The indexes and mirrors are the machine's own, but folders of wheels and extra indexes that only this machine has are
# left out, so that the locks hold what anybody finds. Wheels with a local version (+cpu) are not on the default index:
# for those the machine's whole configuration counts.
set -eu
cd "$(dirname "$0")/.."
names=
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    names="$names $1"
    shift
done
[ $# -eq 0 ] || shift
for folder in ${names:-$(ls lockfiles)}; do
    spec="lockfiles/$folder/spec.yaml"
    [ -f "$spec" ] || continue
    echo "== $folder"
    if grep -q '^requirements:.*+cpu' "$spec"; then
        "${ENVBUILD:-envbuild}" lock "$@" "$spec"
    else
        env -u PIP_FIND_LINKS -u PIP_EXTRA_INDEX_URL -u UV_FIND_LINKS -u UV_EXTRA_INDEX_URL PIP_CONFIG_FILE=/dev/null \
            "${ENVBUILD:-envbuild}" lock "$@" "$spec"
    fi
done
