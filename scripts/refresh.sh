#!/bin/sh
# Move the reference locks to the newest of everything, and propose that as a pull request. Two steps, for two sets of rights:
#   scripts/refresh.sh lock DIRECTORY [NAME…]  locks again; writes DIRECTORY/summary.md and DIRECTORY/locks.patch. Asks indexes.
#   scripts/refresh.sh propose DIRECTORY       commits the patch to a branch, pushes it, opens or updates the pull request
#                                              (gh; GH_TOKEN and GITHUB_REPOSITORY set), and starts its checks. Asks no index.
# In GitHub Actions, `lock` states moved=yes or moved=no as the step's output.
set -eu
folder=${2:?a folder}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
cd "$(dirname "$0")/.."
branch=refresh-locks
title="build(locks): newest packages"

say() { printf 'refresh   %s\n' "$*"; }

lock() {
    shift 2
    PATH="$(cd "${VENV:-.venv}/bin" && pwd):$PATH" scripts/lockfiles.sh "$@" -- --upgrade --summary markdown >"$folder/all.md"
    # The line that lockfiles.sh writes above each is for people at a terminal.
    grep -v '^== ' "$folder/all.md" >"$folder/summary.md" || true
    rm "$folder/all.md"
    git diff --binary -- lockfiles >"$folder/locks.patch"
    moved=no
    [ ! -s "$folder/locks.patch" ] || moved=yes
    say "moved: $moved; $folder/summary.md"
    [ -z "${GITHUB_OUTPUT:-}" ] || echo "moved=$moved" >>"$GITHUB_OUTPUT"
    [ -z "${GITHUB_STEP_SUMMARY:-}" ] || cat "$folder/summary.md" >>"$GITHUB_STEP_SUMMARY"
}

propose() {
    # A patch from a job that asked the internet: it may touch locks and nothing else.
    touched=$(git apply --numstat "$folder/locks.patch" | cut -f3)
    outside=$(printf '%s\n' "$touched" | grep -Ev '^lockfiles/[a-z0-9-]+/(pylock\.[a-z0-9-]+\.toml|Dockerfile)$' || true)
    [ -z "$outside" ] || {
        say "refused: the patch touches $outside" >&2
        exit 1
    }
    base=$(git rev-parse --abbrev-ref HEAD)
    git checkout --quiet -B "$branch"
    git apply "$folder/locks.patch"
    # The digests of the images before report nothing about these locks; new ones: make records.
    "${PYTHON:-python3}" scripts/image-records.py --table
    git add -- lockfiles
    git -c user.name="github-actions[bot]" -c user.email="41898282+github-actions[bot]@users.noreply.github.com" \
        commit --quiet -m "$title"
    # The helper hands the token to git; it is in no address, no file and no log.
    gh auth setup-git
    git push --quiet --force "${GITHUB_SERVER_URL:-https://github.com}/$GITHUB_REPOSITORY" "HEAD:refs/heads/$branch"
    if gh pr view "$branch" --json state --jq .state 2>/dev/null | grep -qx OPEN; then
        gh pr edit "$branch" --title "$title" --body-file "$folder/summary.md"
    else
        gh pr create --head "$branch" --base "$base" --title "$title" --body-file "$folder/summary.md"
    fi
    # What this token opens starts no workflow by itself.
    gh workflow run tests.yml --ref "$branch"
    gh workflow run images.yml --ref "$branch"
    say "proposed on branch $branch"
}

case ${1:-} in
lock) lock "$@" ;;
propose) propose ;;
*)
    sed -n '2,6s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
