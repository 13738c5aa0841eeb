"""Paths and names longer than the system takes: a sentence, which shows their beginning."""

from __future__ import annotations

import errno
import os

import pytest

from envbuild.cli.faults import refused


@pytest.mark.parametrize(
    ("path", "reported"),
    [
        (f"/tmp/{'x' * 300}/a", f"a file's name of 300 bytes is too long: {'x' * 60}…\n  → use a shorter one\n"),
        (f"/a{'/ü' * 2000}", f"a path of 6002 bytes is too long: /a{'/ü' * 29}…\n  → use folders of shorter names\n"),
    ],
)
def test_what_is_too_long_is_shown_cut(path: str, reported: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It was an "unexpected fault" with all of the name in it, four times."""
    assert refused(OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), path)) == 2
    assert capsys.readouterr().err == f"envbuild: {reported}"
