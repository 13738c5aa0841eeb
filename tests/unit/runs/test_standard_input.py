"""What a program read from its standard input."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from envbuild.core.digest import sha256_bytes
from envbuild.record.model import StandardInput
from envbuild.runs.standard_input import InputWatch


def test_a_file_counts_from_where_the_program_began_if_it_read(tmp_path: Path) -> None:
    """A loop over lines leaves the rest of its list to each program; one that reads nothing depends on none of it."""
    path = tmp_path / "input"
    path.write_bytes(b"first\nsecond\nthird\n")
    with path.open("rb", buffering=0) as stream:
        stream.read(6)
        watch = InputWatch(stream.fileno())
        whole = sha256_bytes(b"first\nsecond\nthird\n")
        assert watch.result() == StandardInput(kind="file", size=19, sha256=whole, unread=True)  # /dev/stdin has all
        os.read(os.dup(stream.fileno()), 3)
        assert watch.result() == StandardInput(kind="file", size=13, sha256=sha256_bytes(b"second\nthird\n"))
        assert stream.tell() == 9


def test_what_is_written_meanwhile_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that others write to may grow as fast as it is read."""
    read = os.pread

    def growing(descriptor: int, size: int, place: int) -> bytes:
        with (tmp_path / "input").open("ab") as more:
            more.write(b"more")
        return read(descriptor, size, place)

    (tmp_path / "input").write_bytes(b"12345")
    with (tmp_path / "input").open("rb", buffering=0) as stream:
        watch = InputWatch(stream.fileno())
        stream.read(1)
        monkeypatch.setattr(os, "pread", growing)
        assert watch.result() == StandardInput(kind="file", size=5, sha256=sha256_bytes(b"12345"))


def test_a_large_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its size is all that is known."""
    monkeypatch.setattr("envbuild.runs.standard_input._MOST", 4)
    (tmp_path / "input").write_bytes(b"12345")
    with (tmp_path / "input").open("rb", buffering=0) as stream:
        watch = InputWatch(stream.fileno())
        stream.read(1)
        assert watch.result() == StandardInput(kind="file", size=5)


def test_pipes_devices_and_nothing() -> None:
    """Only the kind is known; a closed descriptor is none."""
    reader, writer = os.pipe()
    assert InputWatch(reader).result() == StandardInput(kind="pipe")
    os.close(reader)
    os.close(writer)
    assert InputWatch(reader).result() == StandardInput(kind="none")
    null = os.open(os.devnull, os.O_RDONLY)
    assert InputWatch(null).result() == StandardInput(kind="none")
    os.close(null)
    mine, theirs = os.openpty()
    assert InputWatch(theirs).result() == StandardInput(kind="terminal")
    os.close(mine)
    os.close(theirs)
