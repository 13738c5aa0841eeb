"""What a run printed, as far as runs are compared by it, and the beginning of its text, next to the record.

Lines are compared without what differs in every run (``verification.printed``). The text is the program's own, with
whatever secrets it prints: the files are their owner's.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

import msgspec

from envbuild.core.fs import atomic_file, folder_below, read_regular
from envbuild.core.text import plural
from envbuild.lockfile.discovery import STATE_FOLDER

Stream = Literal["stdout", "stderr"]
STREAMS: Final[Mapping[Stream, str]] = {"stdout": "standard output", "stderr": "standard error"}
"""The streams of a program, and what people call them; a terminal has the first one alone."""
IGNORED = "what was not to be compared"
"""Kind of a line that is left out as asked."""
KEPT_TEXT = 2 << 20
"""Bytes of each stream that are kept with the record, from its beginning."""
ANY_ORDER = "any order"
"""For a digest: that the lines come in another order is nothing but which thread came to print first."""
_FOLDER = "printed"


class Printed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one stream was, as far as runs are compared.

    Attributes:
        lines: how many there were.
        sha256: digest of all lines, masked; empty if there are none.
        unordered: digest that does not depend on the order of the lines.
        threads: digest that does not depend on where lines are that threads other than the first one logged; empty if
            no line of a log names such a thread. Or ``ANY_ORDER``, as experiments of a verification showed.
        names: drawn names in masked lines (UUIDs and the like) in their order, each as 12 hexadecimal digits; after
            2,000 of them a sum and a digest. Those that two runs have in common are data.
        masked: by kind, how many lines had something masked.
        rest_bytes: bytes behind the lines, of which ``rest`` is the SHA-256 as they came: a stream of very many lines
            is not masked to its end in a run by itself.
    """

    lines: int = 0
    sha256: str = ""
    unordered: str = ""
    threads: str = ""
    names: tuple[str, ...] = ()
    masked: dict[str, int] = {}
    rest_bytes: int = 0
    rest: str = ""

    @property
    def digest(self) -> str:
        """What equal streams of one process have in common: which thread comes first is no result."""
        return self.unordered if self.threads == ANY_ORDER else self.threads or self.sha256

    @property
    def anything(self) -> bool:
        """Whether there is something to compare."""
        return bool(self.lines or self.rest_bytes)

    def phrase(self, name: str) -> str:
        """Describe what is compared of the stream called ``name``: ``12 lines of NAME (3 with times masked)``."""
        masked = ", ".join(f"{count:,} with {kind}" for kind, count in self.masked.items())
        rest = f", and {self.rest_bytes:,} bytes as they are" if self.rest_bytes else ""
        return f"{plural(self.lines, 'line')} of {name}" + (f" ({masked} masked)" if masked else "") + rest


def printed_anything(printed: Mapping[Stream, Printed] | None) -> bool:
    """Whether it is recorded that a run printed something."""
    return any(each.anything for each in (printed or {}).values())


def measured_in(printed: Mapping[Stream, Printed] | None) -> str:
    """Name the kinds of measurements, and drawn names, that were masked in what a run printed; empty if there are none.

    Numbers of threads in logs and the like are no such names.
    """
    streams = [*(printed or {}).values()]
    kinds = {kind for each in streams for kind in each.masked if kind != "names"}
    kinds |= {"names"} if any(each.names for each in streams) else set()
    return ", ".join(kind for kind in ("times", "rates", "memory", "names") if kind in kinds)


def keep(project: Path, identity: str, texts: Mapping[Stream, bytes]) -> None:
    """Write what a run printed next to its record; what cannot be written is not kept."""
    with suppress(OSError), folder_below(project, STATE_FOLDER, "runs", identity, _FOLDER, make=True) as folder:
        for stream, text in texts.items():
            with atomic_file(folder / stream, mode=0o600, sync=False, hand_over=True) as file:
                file.write(text[:KEPT_TEXT])


def kept(project: Path, identity: str, stream: Stream) -> bytes | None:
    """Return the beginning of what a run printed, ``KEPT_TEXT`` bytes at most; None if it was not kept."""
    with suppress(OSError), folder_below(project, STATE_FOLDER, "runs", identity, _FOLDER) as folder:
        return read_regular(folder / stream, KEPT_TEXT, follow=False)
    return None
