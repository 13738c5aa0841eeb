#!/bin/sh
# Make (or refresh) the virtual environment that `make demo` and `make test` use.
# Usage: scripts/venv.sh DIRECTORY [REQUIREMENTS]
# Installs the pinned requirements and envbuild itself, editable; does nothing when neither has changed.
set -eu
directory=$1
requirements=${2:-requirements-dev.txt}
python=${PYTHON:-python3}

say() { printf 'setup     %s\n' "$*"; }
fail() { printf 'setup     %s\n' "$*" >&2; exit 1; }

command -v "$python" >/dev/null || fail "no $python: install Python 3.10 or newer"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
    fail "$python is older than 3.10: set PYTHON to a newer interpreter, e.g. make demo PYTHON=python3.12"

stamp="$directory/.stamp"
wanted=$(cat "$requirements" pyproject.toml | cksum)
[ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ] && exit 0

if [ ! -x "$directory/bin/python" ]; then
    say "virtual environment in $directory"
    # Debian ships ensurepip in a separate package: without it, venv fails half-way.
    if ! "$python" -c 'import ensurepip' 2>/dev/null; then
        if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
            fail "Python's venv module is missing: sudo apt-get install python3-venv"
        fi
        say "installing python3-venv from the distribution"
        DEBIAN_FRONTEND=noninteractive apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -qq --no-install-recommends python3-venv >/dev/null
    fi
    "$python" -m venv "$directory"
fi
say "pinned tools from $requirements"
# Nothing comes in without its digest: uv's line is taken from the requirements, the builder (hatchling) is one of them.
sed -n '/^uv==/,/[^\\]$/p' "$requirements" >"$directory/uv.txt"
"$directory/bin/python" -m pip install --quiet --require-hashes --only-binary :all: -r "$directory/uv.txt"
VIRTUAL_ENV=$(cd "$directory" && pwd) "$directory/bin/uv" pip sync --quiet --compile-bytecode --require-hashes "$requirements"
VIRTUAL_ENV=$(cd "$directory" && pwd) "$directory/bin/uv" pip install --quiet --no-deps --no-build-isolation --editable .
# Where writing bytecode is switched off, every command would compile envbuild's modules again.
"$directory/bin/python" -m compileall -q envbuild
printf '%s' "$wanted" >"$stamp"
