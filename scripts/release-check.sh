#!/bin/sh
# Compare what two systems built of a release, and take it if it is equal and what the tag reports.
# Usage: scripts/release-check.sh ONE OTHER TARGET   (ONE and OTHER as scripts/wheel.sh left them; the tag is in GITHUB_REF_NAME)
# Exit status: 0 the files, without SHA256SUMS, are in TARGET; 16 the two differ; 1 they are damaged or of another version.
set -eu
one=$1 other=$2 target=$3

say() { printf 'release   %s\n' "$*"; }

for folder in "$one" "$other"; do
    (cd "$folder" && sha256sum --check --strict --quiet SHA256SUMS) || exit 1
    sed "s:^:release   $folder  :" "$folder/SHA256SUMS"
done
cmp -s "$one/SHA256SUMS" "$other/SHA256SUMS" || {
    say "the two systems built different files" >&2
    exit 16
}
version=${GITHUB_REF_NAME#v}
for file in "envbuild-$version-py3-none-any.whl" "envbuild-$version.tar.gz"; do
    [ -f "$one/$file" ] || {
        say "the tag is $version, but there is no $file: raise the version in pyproject.toml first" >&2
        exit 1
    }
done
mkdir -p "$target"
cp "$one/envbuild-$version-py3-none-any.whl" "$one/envbuild-$version.tar.gz" "$target/"
say "equal: $version"
