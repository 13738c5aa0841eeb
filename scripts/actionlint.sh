#!/bin/sh
# Check the workflows with actionlint: the one on PATH or, with Go, its pinned release, which Go's checksum database vouches
# for. Where there is neither, report it; on GitHub's runners, which have Go, it must run.
set -eu
cd "$(dirname "$0")/.."
release=github.com/rhysd/actionlint/cmd/actionlint@v1.7.12

if command -v actionlint >/dev/null; then
    exec actionlint "$@"
elif command -v go >/dev/null; then
    exec go run "$release" "$@"
fi
echo "actionlint: not run, neither actionlint nor go is here" >&2
[ -z "${GITHUB_ACTIONS:-}" ]
