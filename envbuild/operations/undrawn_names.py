"""Names in hexadecimal digits that differ between runs though nothing drew them, such as digests of results.

A name of 8 to 40 such digits looks drawn (``uuid4().hex[:8]``), and files are compared under a common name then. Where
runs are equal but for that, one more run has known entropy: a name that is not in what was drawn was computed of
something that differs, and is quoted. So are names in pages that have nothing but the form of a UUID.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from envbuild.operations.laboratory import LONGEST, Laboratory
from envbuild.verification.clockwork import settings
from envbuild.verification.content.names import drawn_names, masked_path
from envbuild.verification.content.values import is_drawn
from envbuild.verification.files import masks_of
from envbuild.verification.tokens import unknown_digits

if TYPE_CHECKING:
    from envbuild.operations.events import Events
    from envbuild.operations.verify_session import Session
    from envbuild.runs.repeat import Repeated
    from envbuild.runs.request import RunEngine
    from envbuild.verification.clockwork import Setting
    from envbuild.verification.ran import Ran

_GRACE = 30
"""Seconds that the run may take beyond three times as long as another one."""
_BARE = re.compile(r"[0-9a-f]{8,40}")
_MOST = 20
"""Names that are quoted."""


def undrawn_names(session: Session, engine: RunEngine, events: Events, *, again: bool) -> tuple[str, ...]:
    """Return a phrase for each name of a file, or in a page, that differs between runs and that no run drew.

    Args:
        session: runs that are equal, some files under a common name, or some pages but for names in them.
        engine: runs the container.
        events: receives ``MoreRuns``.
        again: a further run may be made; else names in pages are quoted.
    """
    first, *others = map(_names, session.runs)
    known = {name for each in others for name in each}
    own = {name: masked for name, masked in first.items() if name not in known}
    glued = _lone_glued(session.runs[0], session.runs[1:])
    longest = max(run.record.duration or 0.0 for run in session.runs)
    ran = _with_known_entropy(session, engine, events) if again and longest <= LONGEST and (own or glued) else None
    if ran is None:
        return tuple(_quoted(glued, {}))[:_MOST]
    found = phrases(own, _names(ran), drawn_by(ran)) if own else ()
    return (*found, *phrases_of_pages(glued, _lone_glued(ran, session.runs), drawn_by(ran)))[:_MOST]


def _with_known_entropy(session: Session, engine: RunEngine, events: Events) -> Ran | None:
    """Run once more, with fixed streams of entropy; None if the run fails."""
    longest = max(run.record.duration or 0.0 for run in session.runs)
    laboratory = Laboratory(session=session, engine=engine, events=events, limit=int(3 * longest) + _GRACE)
    clock, *_ = settings(int(time.time()), all_known=True)
    seen: list[Ran] = []

    def look(found: Repeated, ran: Ran, clock: Setting | None) -> None:
        seen.append(ran)

    laboratory.observed(1, "the clock fixed, with entropy and figures", clock, look)
    return seen[0] if seen and seen[0].ended_well else None


def glued_names(run: Ran) -> dict[str, tuple[str, ...]]:
    """Return the names that were replaced in the pages of a run, by the page's path without what its run drew."""
    masks = masks_of(run.record)
    found: dict[str, tuple[str, ...]] = {}
    for path, each in sorted(run.contents.items()):
        if each.glued:
            masked = masked_path(path, masks)
            found[masked] = (*found.get(masked, ()), *each.glued)
    return found


def _lone_glued(run: Ran, others: Sequence[Ran]) -> dict[str, tuple[str, ...]]:
    """Return those of a run that no other one has, by page."""
    known = {name for each in others for names in glued_names(each).values() for name in names}
    lone = {path: tuple(name for name in names if name not in known) for path, names in glued_names(run).items()}
    return {path: names for path, names in lone.items() if names}


def phrases_of_pages(
    own: Mapping[str, Sequence[str]], names: Mapping[str, Sequence[str]], drawn: Sequence[str]
) -> tuple[str, ...]:
    """Return what is said of names in pages that were not shown to be drawn.

    Args:
        own: names in pages of a run as it is that no other run has, by page.
        names: those of a run with known entropy, which no run as it is has.
        drawn: what that gave.
    """
    shown = {
        path: len(names.get(path, ()))
        for path in own
        if not any(unknown_digits(name.lower(), drawn) for name in names.get(path, ()))
    }
    return tuple(_quoted(own, shown))


def _quoted(own: Mapping[str, Sequence[str]], shown: Mapping[str, int]) -> Iterator[str]:
    """Yield a phrase for each page that has more names than were ``shown`` to be drawn."""
    for path, names in own.items():
        if len(names) > shown.get(path, 0):
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            yield f"names in {path}: {names[0]}{more}: no experiment showed that a run draws them"


def drawn_by(run: Ran) -> tuple[str, ...]:
    """Return what a fixed stream of entropy gave to a run's processes, in hexadecimal digits."""
    asked = (each for process in run.record.processes for each in process.asked or ())
    return tuple(text for each in asked for text in each.drawn)


def phrases(own: Mapping[str, str], names: Mapping[str, str], drawn: tuple[str, ...]) -> tuple[str, ...]:
    """Return what is said of names that were not drawn.

    Args:
        own: names in paths of a run as it is, with their masked paths.
        names: those of a run with known entropy.
        drawn: what that gave.
    """
    computed = {masked for name, masked in names.items() if unknown_digits(name, drawn)}
    return tuple(
        f"names of files: {name} in {masked} is not as it was drawn: computed of what differs, or by a generator"
        for name, masked in own.items()
        if masked in computed
    )


def _names(run: Ran) -> dict[str, str]:
    """Return the names in hexadecimal digits in the paths of a run's files, each with its masked path."""
    paths = [each.path for each in (*run.record.outputs, *run.record.outside)]
    masks = masks_of(run.record)
    names = {name for name in drawn_names(paths) if _BARE.fullmatch(name) is not None and not is_drawn(name)}
    return {name: masked_path(path, masks) for path in sorted(paths) for name in drawn_names([path]) if name in names}
