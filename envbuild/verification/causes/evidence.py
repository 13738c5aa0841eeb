"""What is known of two runs that differ: the input of ``causes``, and of the experiments that narrow it down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from envbuild.difference.finding import Finding
from envbuild.lockfile.model import Lock
from envbuild.record.model import Record
from envbuild.trace.divergence import Divergence
from envbuild.verification.masking.lines import TextDifference

SUSPECTS = ("entropy", "clock", "addresses", "figures", "order", "memory", "threads", "limits", "collection")
"""What experiments can fix (``runtime/hook/fix.py``); the number of threads of libraries by variables."""
ON_DEMAND = frozenset(("collection", "limits", "threads"))
"""Suspects that are tried only where the sources call for them; threads also where a framework was loaded."""
UNWRITTEN = "a tensor that nothing was written to"
"""The operation's name in ``data/nondeterministic.toml``; what experiments and diagnosis find out is ``memory``."""
SHARED_GENERATOR = "threads that draw from one generator"
"""The name of another one: threads must draw, not only the rest of the program."""
SHOWN = 3
"""Lines that are named of one cause."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """A row of the table of operations that differ from run to run; explained in ``data/nondeterministic.toml``."""

    name: str
    framework: str
    device: str
    refused: bool
    why: str
    calls: Sequence[str]
    ways: Sequence[str]
    settled: bool = False
    also: Sequence[str] = ()
    kind: str = "order"


@dataclass(frozen=True, kw_only=True, slots=True)
class Culprit:
    """A line that makes runs differ, as an experiment showed: what it called, and the line of the project before it.

    Attributes:
        suspect, call, module: as the hook recorded them (``record.processes.Asked``); no call if it could not.
        place: file and line in the container; ``file`` and ``line`` are of the caller, which may be a package.
    """

    suspect: str
    place: str
    call: str = ""
    module: str = ""
    file: str = ""
    line: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """What is known of two runs that differ.

    Attributes:
        a, b: their records.
        lock: what both should have kept to.
        divergence: where their parameters first differ; None if they do not, or there is no trace.
        traced: both left a step trace.
        sources: sources of the project's own modules by path.
        texts: differences of text files.
        found: causes that others found, such as differences between the records.
        operations: the table of operations that differ from run to run.
        in_place: the runs shared the project's folder.
        proven: suspects whose fixing made runs equal (``SUSPECTS``), or what alone was varied and made them differ.
        refuted: suspects whose fixing left runs different.
        culprits: what the line called that alone makes runs differ, of those that ask for what is proven.
        cleared: lines, as in ``Culprit``, that ask for it too and make no difference.
        programs: lines that start programs whose output differed though they were given the same.
        same_output: lines, as in ``Culprit``, that start programs whose output was the same in runs that differ.
        scripts: texts of files of the project that are no Python and that its sources start, by path.
        places: lines, as in ``Culprit``, that begin what runs concurrently, where its order is proven.
        begun: how many threads, processes, programs and tasks these lines began.
        parting: the line, as in ``Culprit``, at which the first threads of two runs part; empty if none is known.
    """

    a: Record
    b: Record
    lock: Lock
    divergence: Divergence | None = None
    traced: bool = False
    sources: Mapping[str, str] | None = None
    texts: Sequence[TextDifference] = ()
    found: Sequence[Finding] = ()
    operations: Sequence[Operation] = ()
    in_place: bool = False
    proven: Sequence[str] = ()
    refuted: Sequence[str] = ()
    culprits: Sequence[Culprit] = ()
    cleared: Sequence[str] = ()
    programs: Sequence[Culprit] = ()
    same_output: Sequence[str] = ()
    scripts: Mapping[str, str] | None = None
    places: Sequence[str] = ()
    begun: int = 0
    parting: str = ""
