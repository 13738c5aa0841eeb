#!/bin/sh
# The image pipeline: locks become published images that nobody has to trust blindly. Usage: scripts/pipeline.sh STEP [LOCK…]
# STEP: run (all of them), list, login, fresh, fetch, build, compare, guard, example, bills, push, sign, receive, forget; -h tells more.
# The workflows under .github/workflows call the same steps. Needs the virtual environment: make venv.
set -eu
cd "$(dirname "$0")/.."
exec "${VENV:-.venv}/bin/python" -m scripts.pipeline "$@"
