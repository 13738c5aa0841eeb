"""Programs that are no Python and take files in the order in which the file system lists them: no run varies that."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

from envbuild.core.patterns import lazy
from envbuild.verification.causes.foreign import started

_PIPELINES = lazy(r"\n|;|&&|\|\||\$\(|`")
"""Between pipelines of a text for a shell; what is in ``$(…)`` is one of its own."""
_SETTLES = lazy(r"\|\s*(?:\w+=\S*\s+)*(?:sort|wc|(?:xargs\s+(?:-\S+\s+)*)?rm)\b")
"""What makes an order of what comes before, or does not depend on it."""
_LISTS = lazy(
    r"(?:^\s*|[|(&{]\s*|\b(?:do|then|else|exec|time|nice)\s+|\w=\S*\s+)(?:"
    r"tar\s+(?=(?:-?[a-zA-Z]*c[a-zA-Z]*|[^|]*\s-[a-zA-Z]*c[a-zA-Z]*|[^|]*--create)(?:\s|$))"
    r"(?!.*(?:--sort=n|--files-from|\s-\w*T\s))[^|]*"
    r"|find\s(?!.*(?:\s-delete\b|-exec\s+rm\b))[^|]*"
    r"|grep\s+(?:-\S+\s+)*-\w*[rR](?!\S*[qc])[^|]*"
    r"|ls\s+(?:-\S+\s+)*-\w*[fU][^|]*"
    r"|zip\s+(?:-\S+\s+)*-\w*r[^|]*)"
)
"""Commands that go through a folder, at the beginning of a pipeline or of a part of one."""
_ORDERS = ("sorted(", ".sort(", "set(")
"""In sources that put in order what a program gave back."""
_PACKS = ("tar", "zip")
"""Programs whose output nobody puts in order."""
_FILES = lazy(r"(?:\S*\.\w+)(?:\s+\S*\.\w+)*\Z")
"""Operands that have endings of files, all of them."""
_LEADING = lazy(r"\A(?:(?:do|then|else|if|exec|time|nice) |\w+=\S* )+")
_BY_TIMES = lazy(
    r"(?:^\s*|[|(&{`]\s*|\b(?:do|then|else|if|exec|time|nice)\s+|\w=\S*\s+)(?:"
    r"find\s[^|]*\s-(?:newer\w*|[amc]time|[amc]min)\b[^|]*"
    r"|ls\s+(?:-\S+\s+)*-\w*[tuc][^|]*"
    r"|(?:test|\[\[?)\s[^|]*\s-[no]t\s[^|\]]*)"
)
"""Commands that go by times of files."""
_SHOWN = 60
"""Characters of a command that are quoted."""


def listed_by_programs(
    sources: Mapping[str, str], scripts: Mapping[str, str], command: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Yield the words of programs that take files in the order of the file system, and where they are started.

    Args:
        sources: modules of the project, by path.
        scripts: texts of its files that are no Python, by path: those that are started.
        command: the words of the run's own.
    """
    for path, source in sources.items():
        ordered = any(each in source for each in _ORDERS)
        lines: dict[int, list[str]] = {}
        for each in started(source):  # of a text for a shell there are several
            lines.setdefault(each.line, []).append(_as_text(each.words))
        for number, parts in lines.items():
            for words in _listing(" | ".join(parts)):
                if not ordered or words.split()[0] in _PACKS:
                    yield words, f"{path}:{number}"
    for words in _listing(_as_text(command)):
        yield words, ""
    for path, text in scripts.items():
        for number, line in enumerate(text.splitlines(), 1):
            if not line.lstrip().startswith("#"):
                yield from ((words, f"{path}:{number}") for words in _listing(line))


def _as_text(words: Sequence[str]) -> str:
    """Return a command as a text for a shell; of a shell's own command that which it is given."""
    if words and posixpath.basename(words[0]) in ("sh", "bash", "dash") and "-c" in words[:-1]:
        return words[words.index("-c") + 1]
    name = [posixpath.basename(each) for each in words[:1]]
    return shlex.join([*name, *words[1:]]) if len(words) > 1 else " ".join(words)


def _listing(text: str) -> Iterator[str]:
    for pipeline in _PIPELINES.split(text):
        found = _LISTS.search(pipeline)
        if found is None or _SETTLES.search(pipeline, found.start()) is not None:
            continue
        words = re.sub(r"\s+", " ", found[0].strip(" |(&{)"))
        if words.split()[0] in _PACKS and _of_files(words.split()[1:]):
            continue
        yield quoted(words)


def _of_files(words: Sequence[str]) -> bool:
    """Whether what is packed has endings of files, so that it is no folder."""
    operands = [each for each in words if not each.startswith("-")][2:]
    return bool(operands) and _FILES.match(" ".join(operands)) is not None


def timed_by_programs(
    sources: Mapping[str, str], scripts: Mapping[str, str], command: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Yield the words of programs that go by the times of files, and where they are started.

    Arguments as of ``lines_for_shells``.
    """
    for line, where in lines_for_shells(sources, scripts, command):
        for pipeline in _PIPELINES.split(line):
            found = _BY_TIMES.search(pipeline)
            if found is not None:
                yield quoted(_LEADING.sub("", re.sub(r"\s+", " ", found[0].strip(" |(&{`")))), where


def lines_for_shells(
    sources: Mapping[str, str], scripts: Mapping[str, str], command: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Yield each line that a shell is given, and where it is; comments are left out.

    Args:
        sources: modules of the project, by path: what they start, as a text for a shell.
        scripts: texts of its files that are no Python, by path: those that are started.
        command: the words of the run's own.
    """
    for path, source in sources.items():
        yield from ((_as_text(each.words), f"{path}:{each.line}") for each in started(source))
    yield _as_text(command), ""
    for path, text in scripts.items():
        for number, line in enumerate(text.splitlines(), 1):
            if not line.lstrip().startswith("#"):
                yield line, f"{path}:{number}"


def quoted(words: str) -> str:
    """Return the beginning of a command, with one blank between its words."""
    words = re.sub(r"\s+", " ", words)
    return words if len(words) <= _SHOWN else f"{words[: _SHOWN - 1]}…"
