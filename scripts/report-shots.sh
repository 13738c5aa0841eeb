#!/bin/sh
# How a page of `envbuild report` looks: screenshots of it on a phone and on a screen, light and dark, and as a PDF.
# For the eyes of who changes templates/report.*; needs Chromium (Debian: apt-get install chromium), no network.
#
#   scripts/report-shots.sh report.html [FOLDER [HEIGHT]]
set -eu
[ $# -ge 1 ] || { echo "usage: $0 PAGE [FOLDER [HEIGHT in pixels]]" >&2; exit 2; }
page=$(realpath "$1")
folder=${2:-report-shots}
height=${3:-3000}
for browser in chromium chromium-browser google-chrome; do
    command -v "$browser" >/dev/null && break
done
command -v "$browser" >/dev/null || { echo "$0: no Chromium on PATH; Debian: apt-get install chromium" >&2; exit 1; }
mkdir -p "$folder"
profile=$(mktemp -d "${TMPDIR:-/tmp}/report-shots.XXXXXX")
trap 'rm -rf "$profile"' EXIT
trap 'exit 130' INT TERM

shoot() { # shoot OPTION...: what the page reports to the console (a refused style, say) is shown
    "$browser" --headless=new --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$profile" \
        --enable-logging=stderr "$@" "file://$page" 2>&1 | grep CONSOLE || true
}

for width in 320 360 1280; do
    for theme in light dark; do
        scheme=1
        [ "$theme" = light ] || scheme=0
        shoot --window-size="$width,$height" --blink-settings=preferredColorScheme=$scheme \
            --screenshot="$folder/$width-$theme.png"
    done
done
shoot --no-pdf-header-footer --print-to-pdf="$folder/page.pdf"
ls "$folder"
