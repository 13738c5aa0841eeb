"""``ulimit -v``: where Python itself may fail for want of memory, a command ends with a sentence before that."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.subprocess
@pytest.mark.parametrize(("letter", "option"), [("v", "--as"), ("d", "--data")])
@pytest.mark.parametrize("command", [["run", "t.py"], ["verify", "t.py"], ["store", "verify"]])
def test_too_little_memory_is_named(command: list[str], letter: str, option: str) -> None:
    """With 50 MB there were tracebacks, aborts of libraries, and a loop in Python's import system without an end."""
    prefix = ["prlimit", f"{option}=50000000"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    words = [*prefix, sys.executable, "-m", "envbuild", *command]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (14, "")
    assert done.stderr == (
        "envbuild: the limit of memory is 50000000 bytes, and envbuild itself needs 134217728\n"
        f"  → raise it, then rerun: ulimit -{letter} unlimited\n"
    )


@pytest.mark.subprocess
@pytest.mark.parametrize(("letter", "option", "least"), [("v", "--as", 1 << 30), ("d", "--data", 256 << 20)])
def test_a_lock_does_not_begin_with_too_little(letter: str, option: str, least: int, tmp_path: Path) -> None:
    """With 250 MB of addresses it hung, deaf to Ctrl-C: a library in Rust waited for itself, out of memory."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    words = ["prlimit", f"{option}={200 << 20}", sys.executable, "-m", "envbuild", "lock"]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (14, "")
    assert done.stderr == (
        f"envbuild: the limit of memory is {200 << 20} bytes, and envbuild lock needs {least} at least\n"
        f"  → raise it, then rerun: ulimit -{letter} unlimited\n"
    )
