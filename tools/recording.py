"""The recording of the main job on the documentation's first page: ``python -m tools.recording FOLDER``.

``FOLDER/recording.cast`` is what a terminal showed, in asciinema's format 2
(https://docs.asciinema.org/manual/asciicast/v2/); ``asciinema play`` shows it. ``FOLDER/recording.svg`` is the same as
a picture that shows each line at its time, drawn with rich, which envbuild needs anyway. It contains no font and no
script, so that it works in README, offline, and in print.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.text import Text

__all__ = ["draw", "main", "record"]

COLUMNS = 126
COMMANDS = (
    "cat spec.yaml",
    "envbuild lock spec.yaml",
    "envbuild build",
    "envbuild run train.py",
    "envbuild run train.py",
    "envbuild run train.py --epochs 4",
    "envbuild diff",
)
_IDLE = 1.5
"""Seconds: longer waits are shown as this, like ``asciinema rec --idle-time-limit``."""
_TYPING = 0.8
"""Seconds between a prompt's command and its first line."""
_FRAMEWORK = re.compile(r"[IWE]\d{4} 00:00:|WARNING: All log messages|To enable the following instructions")
"""Lines that TensorFlow's C++ libraries log about the CPU; left out."""
_EXAMPLE = Path(__file__).parents[1] / "examples" / "digits"
_SVG = """\
<svg class="terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; font-size: 20px; }}
.{unique_id}-title {{ font-size: 18px; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def record(commands: tuple[str, ...] = COMMANDS) -> str:
    """Run the commands in a copy of the example; returns the recording as text in asciinema's format.

    Raises:
        RuntimeError: a command failed.
    """
    header = {"version": 2, "width": COLUMNS, "height": 40, "title": "envbuild: lock, build, run, diff"}
    lines = [json.dumps(header)]
    with tempfile.TemporaryDirectory(prefix="envbuild-recording-") as folder:
        work = Path(shutil.copytree(_EXAMPLE, Path(folder) / "digits"))
        at = 0.0
        for command in commands:
            lines.append(json.dumps([round(at, 2), "o", f"\x1b[1;32m$\x1b[0m \x1b[1m{command}\x1b[0m\r\n"]))
            at += _TYPING
            for waited, text in _output(command, work):
                at += min(waited, _IDLE)
                lines.append(json.dumps([round(at, 2), "o", f"{text}\r\n"], ensure_ascii=False))
    return "\n".join(lines) + "\n"


def draw(cast: str) -> str:
    """Draw a recording as SVG: every line appears at its time, and all of them if nothing moves."""
    header, *events = (json.loads(line) for line in cast.splitlines())
    console = Console(record=True, width=header["width"], file=io.StringIO(), force_terminal=True, color_system="256")
    times: list[float] = []
    for at, _, text in events:
        before = len(console.export_text(clear=False).splitlines())
        console.print(Text.from_ansi(text.removesuffix("\r\n")))
        times += [at] * (len(console.export_text(clear=False).splitlines()) - before)
    svg = console.export_svg(title=header["title"], code_format=_SVG, unique_id="r")
    rules = ["@keyframes wait { from, to { opacity: 0; } }"]
    rules += [
        f'[clip-path="url(#r-line-{line})"] {{ animation: wait {at:.2f}s; }}' for line, at in enumerate(times) if at
    ]
    rules.append("@media (prefers-reduced-motion: reduce), print { * { animation: none !important; } }")
    svg = "\n".join(line.rstrip() for line in svg.splitlines() if line.strip()) + "\n"
    return svg.replace("</style>", "\n".join(rules) + "\n</style>", 1)


def _output(command: str, folder: Path) -> Iterator[tuple[float, str]]:
    """Run a command; yields each line that it prints, with the seconds since the one before."""
    environ = os.environ | {"COLUMNS": str(COLUMNS), "FORCE_COLOR": "1"}
    before = time.monotonic()
    with subprocess.Popen(
        command.split(), cwd=folder, env=environ, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        for line in process.stdout or ():
            if not _FRAMEWORK.match(line):
                yield time.monotonic() - before, line.rstrip("\r\n").replace(str(folder), "~/digits")
                before = time.monotonic()
    if process.returncode not in (0, 16):  # 16: the results of two runs differ, which `diff` reports
        raise RuntimeError(f"{command}: exit {process.returncode}")


def main() -> None:
    """Record, draw, and write both files."""
    folder = Path(sys.argv[1])
    cast = record()
    (folder / "recording.cast").write_text(cast, encoding="utf-8")
    (folder / "recording.svg").write_text(draw(cast), encoding="utf-8")


if __name__ == "__main__":
    main()
