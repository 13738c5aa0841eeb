"""Marks of processes: no name and no number of a process does harm, and what cannot be known is not said."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from envbuild.core import process_mark

_NAMED = """
import ctypes
ctypes.CDLL(None).prctl(15, b"\\xff\\xfetrain) R", 0, 0, 0)
print(flush=True)
input()
"""


@pytest.mark.subprocess
def test_a_process_may_have_any_bytes_as_its_name() -> None:
    """A number that came again was that of a program whose name is no UTF-8: envbuild ended in an error."""
    world = process_mark.mark().rsplit(" ", 2)[0]
    with subprocess.Popen(
        [sys.executable, "-c", _NAMED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        assert process_mark.lives(f"{world} {other.pid} 12") is False
        other.communicate("\n")


@pytest.mark.parametrize("number", ["9" * 30, "9" * 5000, "0", "-1", "٣", ""])
def test_what_is_no_number_of_a_process_says_nothing(number: str) -> None:
    world = process_mark.mark().rsplit(" ", 2)[0]
    assert process_mark.lives(f"{world} {number} 12") is None


def test_numbers_of_another_namespace_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """``unshare --pid`` without ``--mount-proc`` leaves the /proc of the namespace outside."""
    own, real = process_mark.mark(), Path.readlink
    assert process_mark.lives(own) is True
    monkeypatch.setattr(Path, "readlink", lambda path: Path("1") if str(path) == "/proc/self" else real(path))
    assert process_mark.mark() == ""
    assert process_mark.lives(own) is None
