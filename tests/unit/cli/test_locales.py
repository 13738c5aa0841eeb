"""Locales whose encoding is not UTF-8: names and arguments stay the bytes that they are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, sys
from envbuild import cli
def run(arguments, ended, last):
    print(os.fsencode(sys.argv[1]).hex(), os.getcwd().isascii(), sys.flags.utf8_mode)
    print(chr(0x2026), os.environb[b"NAME"].hex())
    return 3
cli._run = run
cli.entry()
"""
ASCII = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}


@pytest.mark.subprocess
@pytest.mark.parametrize(
    ("environ", "mode", "shown"),
    [
        (ASCII, 1, b"\\u2026"),
        ({**ASCII, "PYTHONIOENCODING": "utf-8"}, 1, "\u2026".encode()),
        ({"LC_ALL": "C"}, 1, "\u2026".encode()),
        ({"LC_ALL": "C.UTF-8", "PYTHONIOENCODING": "latin-1"}, 0, b"\\u2026"),
        ({"LC_ALL": "C.UTF-8"}, 0, "\u2026".encode()),
    ],
)
@pytest.mark.parametrize("name", ["\u00fc".encode(), b"\xfc"])
def test_bytes_stay_as_they_are(environ: dict[str, str], mode: int, shown: bytes, name: bytes, tmp_path: Path) -> None:
    """Whatever the locale, and what it cannot print ends no command; before, ``verify`` was an unexpected fault."""
    folder = os.fsencode(tmp_path) + b"/" + name
    os.mkdir(folder)  # noqa: PTH102 - bytes
    variables = {**environ, "NAME": name, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, name], cwd=folder, env=variables, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (3, b"")
    assert done.stdout.split() == [name.hex().encode(), b"False", str(mode).encode(), shown, name.hex().encode()]
