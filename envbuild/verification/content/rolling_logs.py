"""Logs that begin a new file when one is full: ``app.log``, with ``app.log.1`` before it and ``app.log.2`` before that.

Lines with times have other lengths in each run, so that files begin at other lines. All files of such a log are read as
one, if sizes show that it is one: by ``RotatingFileHandler`` a file is full when the next record would make it as large
as a limit, so that one limit fits the sizes of all files and of the first line in the next one. In several runs one
limit has to fit all of them: files that a program ends elsewhere by itself differ by whole lines.

Source: Lib/logging/handlers.py of CPython, ``RotatingFileHandler.shouldRollover``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

from envbuild.core.fs import read_foreign
from envbuild.core.patterns import lazy
from envbuild.record.model import Output
from envbuild.verification.content.canonical import FILE, Content

PLACE = "where its files begin"
_NUMBERED = lazy(r"\.\d{1,4}\Z")
_MOST = 1000
"""Files of one log."""


def may_roll(path: Path) -> bool:
    """Whether a file is the newest one of such a log, by its name and the one before it."""
    return _NUMBERED.search(path.name) is None and path.with_name(f"{path.name}.1").is_file()


def older_files(path: Path) -> list[bytes]:
    """Return what is in the older files of a log, the oldest first; nothing if one of them is no plain file."""
    found: list[bytes] = []
    for number in range(1, _MOST):
        file = path.with_name(f"{path.name}.{number}")
        if not file.is_file() or file.is_symlink():
            break
        data = read_foreign(file, FILE)
        if data is None or sum(map(len, found)) + len(data) > FILE:
            return []
        found.append(data)
    return found[::-1]


def in_order(outputs: Iterable[Output]) -> list[Output]:
    """Return the older files of a log, the oldest first."""
    return sorted(outputs, key=lambda each: -int(each.path.rpartition(".")[2]))


def limits(files: list[bytes]) -> tuple[int, int]:
    """Return the least and the most that the limit of a log's files may be; nothing fits if the least is more.

    Args:
        files: the oldest first; the last one is not full.
    """
    least = max(map(len, files)) + 1
    most = min(len(one) + len(_first_line(other)) for one, other in pairwise(files))
    return least, most


def _first_line(data: bytes) -> str:
    """Return the first line of a file; a record has at least this, and is counted in characters."""
    return re.split(r"(?<=\n)", data.decode("utf-8", "replace"), maxsplit=1)[0]


def fit_one_limit(contents: list[tuple[Content | None, int]]) -> bool:
    """Whether one limit fits the files of several runs, and so all of a log begin where it made them begin.

    Args:
        contents: what is in a log in each run, and how large its newest file is: the only one if there is no limit.
    """
    known = [each.rolls if each is not None and each.rolls is not None else None for each, _ in contents]
    least = max(size + 1 if rolls is None else rolls[0] for rolls, (_, size) in zip(known, contents, strict=True))
    return all(rolls is None or least <= rolls[1] for rolls in known)
