"""One run of a verification, as it is compared with the others. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from envbuild.record.model import Record
from envbuild.record.printed import Printed
from envbuild.verification.content.canonical import Content

_NOTHING = Printed()


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """One run of a verification.

    Attributes:
        record: its record.
        stdout, stderr: what it printed.
        trace: digest of its step trace, all processes; empty if it left none.
        steps, tensors: entries of the trace, and the number of parameter tensors in it.
        contents: of files that were opened since another run has other bytes, by path.
        known: names that look drawn and are data, shortened (``with_known_names``).
        written: when files of the project were written last, in nanoseconds, by path; none if that is not known.
        order: digests of what each optimiser went through, in the order of their first steps; none of pools' workers.
        links: pairs of names of one file of the project.
        given: times of change of the files that the program found, to the second and to every second one, as they are
            shown: what it copies or packs may have them. Known only where something has a time that is none of the run.
        clocks: by the name of a stream, places of times of day that all runs have in common (``masking.days``).
    """

    record: Record
    stdout: Printed = _NOTHING
    stderr: Printed = _NOTHING
    trace: str = ""
    steps: int = 0
    tensors: int = 0
    contents: Mapping[str, Content] = field(default_factory=dict)
    known: frozenset[str] = frozenset()
    written: Mapping[str, int] = field(default_factory=dict)
    order: tuple[str, ...] = ()
    links: frozenset[tuple[str, str]] = frozenset()
    given: frozenset[str] = frozenset()
    clocks: Mapping[str, frozenset[int]] = field(default_factory=dict)

    @property
    def ended_well(self) -> bool:
        """Whether the program ran and reported that all is well."""
        return self.record.state == "finished" and self.record.exit_code == 0 and self.record.timed_out is None
