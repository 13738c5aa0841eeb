"""Texts from outside of half a megabyte on one line: what reads them takes no square of their length.

Each of these took minutes to hours, and takes some hundredths of a second. The alarm is for a test that would not end.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from envbuild.core.redact import holds_secret
from envbuild.record.model import RecordError, dumps, loads
from envbuild.registry.authorization import parse_challenge
from envbuild.spec.detect import detect_project
from envbuild.spec.requirement_files import included
from tests.support.records import record

LONG = 500_000


def _mounts(_folder: Path) -> None:
    options = record().options
    found = record(options=type(options)(network="", workspace="", mounts=("/" + ":/" * LONG,)))
    with pytest.raises(RecordError, match="mounts"):
        loads(dumps(found))


def _version(folder: Path) -> None:
    (folder / ".python-version").write_text("\n" * LONG + "3.11\n")
    detect_project(folder)


def _include(folder: Path) -> None:
    (folder / "b").write_text("")
    (folder / "r.txt").write_text("-r a" + " " * LONG + "b\n-r b" + " " * LONG + "\n")
    with pytest.raises(Exception, match=r"r\.txt"):
        included(folder, ["r.txt"])


READERS: dict[str, Callable[[Path], object]] = {
    "a configuration that is kept": lambda folder: holds_secret("a" * LONG, names=True),
    "a registry's challenge": lambda folder: parse_challenge(f"Bearer {'a' * LONG}"),
    "mounts of a record": _mounts,
    ".python-version": _version,
    "an included file": _include,
}


@pytest.fixture(name="_patience")
def _limited() -> Iterator[None]:
    before = signal.alarm(300)
    yield
    signal.alarm(before)


@pytest.mark.usefixtures("_patience")
@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_long_lines_are_read(read: Callable[[Path], object], tmp_path: Path) -> None:
    """Whatever comes of it, it comes."""
    read(tmp_path)


def test_names_of_secrets_are_found_within_lines() -> None:
    """Where a word begins, quoted or not, behind whatever is no word."""
    for text in ("api_key: x", '  "api_key": 3', "{'a': 1, 'my-token' = 2}", "x/password=1", "- secret :"):
        assert holds_secret(text, names=True), text
    for text in ("monkey: 1", "tokenizer: 3", "keys", "a: b"):
        assert not holds_secret(text, names=True), text
