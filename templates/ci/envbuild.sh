#!/bin/sh
# Written by `envbuild ci`, to be kept in version control: what the pipeline does, so that you can run each step at home.
#   ci/envbuild.sh prepare [cosign]   Debian packages and envbuild itself, on a bare Debian container (root)
#   ci/envbuild.sh build DIRECTORY    lock check, image, bills of materials; the digests go to DIRECTORY/digests.json
#   ci/envbuild.sh compare ONE OTHER  two such directories, made on machines that differ: equal, or exit code 16
#   ci/envbuild.sh publish REFERENCE DIRECTORY   push that very image by digest, sign it, attest it
# Variables:
#   ENVBUILD_SPEC        the spec, by default spec.yaml
#   ENVBUILD_LOCK        its lock, by default the only one; of a spec with variants, that of the variant to build
#   REGISTRY_USER, REGISTRY_PASSWORD   for publish, unless docker login has been done
#   ENVBUILD_BUNDLE      for publish: yes (if not set) keeps the packages that the image is built from next to it; or no
#   ENVBUILD_SIGN        for publish: keyless (GitHub Actions), a key as cosign names it (env://COSIGN_PRIVATE_KEY), or no
# Installed is what requirements.txt next to this script lists, by digest, from whatever index; envbuild is the wheel here.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
spec=${ENVBUILD_SPEC:-spec.yaml}
# The runner's own folder or the home folder: in /tmp anybody could have put programs there before.
tools=${RUNNER_TEMP:-${HOME:?}/.cache}/envbuild-ci
PATH=$tools/bin:$PATH
# No engine is needed to build: namespaces of the kernel do. Unset it to use one.
export ENVBUILD_ENGINE="${ENVBUILD_ENGINE-local}"

say() { printf '%-10s%s\n' "$1" "$2"; }
fail() {
    printf '%-10s%s\n' "ci" "$1" >&2
    exit "${2:-2}"
}

lock_of_spec() {
    folder=$(dirname "$spec")
    if [ -n "${ENVBUILD_LOCK:-}" ]; then set -- "$ENVBUILD_LOCK"; else set -- "$folder"/pylock.*.toml; fi
    if [ $# != 1 ]; then fail "$folder holds $# locks: set ENVBUILD_LOCK to one of them, such as ENVBUILD_LOCK=$1"; fi
    if [ ! -f "$1" ]; then fail "there is no lock $1: envbuild lock $spec"; fi
    lock=$1
    record=${lock%.toml}.image.json
}

prepare() {
    apt-get -qq update
    DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends ca-certificates git python3 python3-venv "$@" >/dev/null
    python3 -m venv "$tools"
    # No index is believed, so a second one could only do harm; nothing is built.
    env -u PIP_EXTRA_INDEX_URL "$tools/bin/pip" install --quiet --require-hashes --only-binary :all: \
        --find-links "$here" --requirement "$here/requirements.txt"
    say ready "$("$tools/bin/envbuild" --version), $(python3 --version)"
}

build() {
    lock_of_spec
    mkdir -p "$1"
    envbuild lock --check "$spec"
    # A digest that is recorded next to the lock is compared with here, too.
    envbuild build --output "oci:$1/image" "$lock"
    envbuild sbom -f cyclonedx -o "$1/sbom.cdx.json" "$lock"
    envbuild sbom -f spdx -o "$1/sbom.spdx.json" "$lock"
    cp "$record" "$1/digests.json"
}

compare() {
    for folder in "$1" "$2"; do say compare "$folder  sha256:$(digest "$folder/digests.json")"; done
    cmp -s "$1/digests.json" "$2/digests.json" || fail "the two machines built different images" 16
    say compare "equal: every layer and the configuration"
}

# The value of "config" in the record that a build leaves, one key a line.
digest() { sed -n 's/^ *"config": "\([0-9a-f]*\)",*$/\1/p' "$1"; }

login() {
    [ -n "${REGISTRY_PASSWORD:-}" ] || return 0
    DOCKER_CONFIG=$(mktemp -d)
    export DOCKER_CONFIG
    trap 'rm -rf "$DOCKER_CONFIG"' EXIT
    # printf is the shell's own: the password is in no list of processes.
    auth=$(printf '%s:%s' "$REGISTRY_USER" "$REGISTRY_PASSWORD" | base64 | tr -d '\n')
    (umask 077 && printf '{"auths": {"%s": {"auth": "%s"}}}\n' "${1%%/*}" "$auth" >"$DOCKER_CONFIG/config.json")
}

publish() {
    lock_of_spec
    reference=$(printf '%s' "$1" | tr '[:upper:]' '[:lower:]')
    login "$reference"
    # What was compared is what is pushed: another image than the recorded one is refused.
    cp "$2/digests.json" "$record"
    # The files that the image is built from are kept next to it: mirrors drop them in time.
    if [ "${ENVBUILD_BUNDLE:-yes}" = yes ]; then set -- --bundle; else set --; fi
    envbuild push "$reference" "$lock" --write "$@"
    case ${ENVBUILD_SIGN:-no} in
    no) ;;
    keyless) (cd "$folder" && envbuild sign --keyless) ;;
    *) (cd "$folder" && envbuild sign --key "$ENVBUILD_SIGN") ;;
    esac
}

step=${1:-}
[ $# = 0 ] || shift
case $step in
prepare) prepare "$@" ;;
build) build "${1:?a directory}" ;;
compare) compare "${1:?a directory}" "${2:?another directory}" ;;
publish) publish "${1:?a reference}" "${2:?the directory that build left}" ;;
*)
    sed -n '2,11s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
