#!/bin/sh
# What the action does: envbuild of this very commit, then the steps of templates/ci/envbuild.sh. Its inputs are variables.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
export RUNNER_TEMP="${RUNNER_TEMP:?a folder}"
steps=$root/templates/ci/envbuild.sh
tools=$RUNNER_TEMP/envbuild-ci # where those steps look for it
made=$RUNNER_TEMP/envbuild-image

if [ ! -x "$tools/bin/envbuild" ]; then
    python3 -m venv "$tools"
    # By digest, from whatever index: envbuild's dependencies and its builder; envbuild itself is this commit.
    env -u PIP_EXTRA_INDEX_URL "$tools/bin/pip" install --quiet --require-hashes --only-binary :all: \
        --requirement "$root/templates/ci/requirements.txt" --requirement "$here/requirements.txt"
    "$tools/bin/pip" install --quiet --no-deps --no-build-isolation --no-index "$root"
fi
if [ -S /var/run/docker.sock ]; then ENVBUILD_ENGINE=docker; else ENVBUILD_ENGINE=local; fi
export ENVBUILD_ENGINE

sh "$steps" build "$made"
if [ "${VERIFY:-true}" = true ]; then
    (cd "$(dirname "$ENVBUILD_SPEC")" && "$tools/bin/envbuild" build --verify --output "oci:$made/again")
    rm -rf "$made/again"
fi
# Usage: value FILE KEY
value() { sed -n "s/^ *\"$2\": \"\([^\"]*\)\",*\$/\1/p" "$1"; }
reference=
if [ -n "${REFERENCE:-}" ]; then
    sh "$steps" publish "$REFERENCE" "$made"
    reference=$(printf '%s' "${REFERENCE}" | tr '[:upper:]' '[:lower:]' | sed 's/:[^/:]*$//')@sha256:$(value "$made/digests.json" manifest)
fi
{
    echo "digest=sha256:$(value "$made/digests.json" manifest)"
    echo "config=sha256:$(value "$made/digests.json" config)"
    echo "reference=$reference"
    echo "sbom=$made/sbom.cdx.json"
} >>"${GITHUB_OUTPUT:-/dev/stdout}"
