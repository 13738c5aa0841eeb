"""Why two runs differ: findings with a weight each, and what is known besides the records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec

from envbuild.lockfile.model import Lock
from envbuild.record.printed import Stream

Area = Literal[
    "inputs", "parameters", "command", "script", "modules", "configs", "reads", "git", "objects", "seeds", "switches",
    "libraries", "processes", "packages", "lock", "image", "fingerprint", "host", "gpu", "environment", "options",
    "verified", "results", "sources", "operations", "memory", "entropy",
]  # fmt: skip
Outcome = Literal["equal", "different", "unknown"]

CERTAIN: Final = 50
"""From this weight on a difference is reason enough; what weighs less is only possible."""
NOWHERE: Final = "(not there)"
"""Represents a value that one of the two runs lacks."""
_RANKS = 8
"""Numbers of ranks that are written out."""


class _Value(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the parts."""


class Finding(_Value, frozen=True, kw_only=True):
    """One difference between two runs, or one thing that may have made them differ.

    ``difference`` finds what two records do not have in common, ``verification`` what makes runs differ that were
    started alike; both weigh on one scale.

    Attributes:
        what: the thing that differs: ``data/``, ``learning_rate``, ``numpy``; without ``change`` a whole sentence.
        before, after: its values in A and in B, short; ``(not there)`` where one lacks it.
        change: what became of it, as people read it.
        weight: 100 for what certainly changes a result, 0 for what cannot; more first.
        details: lines that go with it.
        follows: what it is a mere consequence of; empty if it is independent.
        where: file and line, or the like; empty if it has no place.
        attempt: the next thing to try, in the imperative; empty if there is none.
        ranks: of two jobs the ranks that differ in this; empty if all do, and of runs by themselves.
    """

    area: Area
    what: str
    before: str = ""
    after: str = ""
    change: str = ""
    weight: int
    details: tuple[str, ...] = ()
    follows: str = ""
    where: str = ""
    attempt: str = ""
    ranks: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """The thing that differs, after the ranks if only some differ in it."""
        if not self.ranks:
            return self.what
        shown = ", ".join(map(str, self.ranks[:_RANKS])) + (" …" if len(self.ranks) > _RANKS else "")
        return f"rank{'s' * (len(self.ranks) > 1)} {shown}: {self.what}"

    @property
    def sentence(self) -> str:
        """The whole of it in one line."""
        return f"{self.name}: {self.change}" if self.change else self.name


class Difference(_Value, frozen=True, kw_only=True):
    """Two runs compared.

    Attributes:
        a, b: identities of the runs.
        outcome: whether the results are equal; ``unknown`` if one of the runs left none, or both.
        verdict: that in a sentence.
        results: what differs in the results.
        causes: what may have made them differ, most likely first.
        others: consequences of causes, and differences that cannot change a result.
        same: what is equal, a word each.
        unknown: what could not be compared, a phrase each.
    """

    a: str
    b: str
    outcome: Outcome
    verdict: str
    results: tuple[Finding, ...] = ()
    causes: tuple[Finding, ...] = ()
    others: tuple[Finding, ...] = ()
    same: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Tree:
    """How a folder of data differs in B: counts of files, bytes added, and the names of the first of each kind.

    Attributes:
        of_one_file: the data is no folder.
    """

    of_one_file: bool = False
    added: int = 0
    changed: int = 0
    removed: int = 0
    bytes: int = 0
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class PrintedLine:
    """The first line at which a stream of two runs differs, from 1; empty texts where one run lacks it."""

    number: int
    before: str
    after: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """What is known of two runs besides their records; all of it may be missing.

    Attributes:
        lock_a, lock_b: what the locks reported; None if they were not kept.
        trees: by input, where the listings of both are there.
        texts: content of project files by SHA-256.
        fingerprint_a, fingerprint_b: digests of the numeric fingerprint by part.
        committed: files of the project that differ between the commits.
        lines: of each stream that differs the first line at which it does.
        files: how the files differ that the runs found in their project, a phrase each by path; None if the listing
            of one was not kept.
        named: of each stream that is equal but for drawn names the first line with another name.
        contradicted: of each stream that is equal by the records the first line at which the kept texts differ.
    """

    lock_a: Lock | None = None
    lock_b: Lock | None = None
    trees: Mapping[str, Tree] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    fingerprint_a: Mapping[str, str] = field(default_factory=dict)
    fingerprint_b: Mapping[str, str] = field(default_factory=dict)
    committed: tuple[str, ...] = ()
    lines: Mapping[Stream, PrintedLine] = field(default_factory=dict)
    files: Mapping[str, str] | None = None
    named: Mapping[Stream, PrintedLine] = field(default_factory=dict)
    contradicted: Mapping[Stream, PrintedLine] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Section:
    """One area compared.

    Attributes:
        label: what it is called when it is equal; empty for what is not worth a word.
        compared: both records have it. If not, nothing is equal.
        unknown: what could not be compared, a phrase each.
    """

    label: str
    findings: tuple[Finding, ...] = ()
    compared: bool = True
    unknown: tuple[str, ...] = ()


def changed(
    area: Area,
    what: str,
    before: str,
    after: str,
    weight: int,
    *,
    why: str = "",
    follows: str = "",
    details: tuple[str, ...] = (),
) -> Finding:
    """Make the finding that a value differs; ``why`` is its effect in a few words."""
    change = f"{before} → {after}" + (f" ({why})" if why else "")
    return Finding(
        area=area, what=what, before=before, after=after, change=change, weight=weight, details=details, follows=follows
    )
