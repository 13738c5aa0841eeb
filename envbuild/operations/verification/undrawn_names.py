"""Names in hexadecimal digits that differ between runs though nothing drew them, such as digests of results.

A name of 8 to 40 such digits looks drawn (``uuid4().hex[:8]``), and files are compared under a common name then. Where
runs are equal but for that, one more run has known entropy: a name that is not in what was drawn was computed of
something that differs, and is quoted. So are names in pages that have nothing but the form of a UUID.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from itertools import islice
from typing import TYPE_CHECKING

from envbuild.core.fs import read_foreign
from envbuild.core.patterns import lazy
from envbuild.operations.verification.laboratory import LONGEST, Laboratory
from envbuild.record.compare_printed import several_processes
from envbuild.record.printed import ANY_ORDER, STREAMS, kept
from envbuild.record.shared_names import shortened
from envbuild.verification.content.names import drawn_names, masked_path
from envbuild.verification.content.values import is_drawn
from envbuild.verification.files import masks_of
from envbuild.verification.judge import names_of
from envbuild.verification.masking.rules import moment_of_bare_uuid, moment_of_uuid
from envbuild.verification.masking.thread_lines import ORDER
from envbuild.verification.measurements.clockwork import settings
from envbuild.verification.measurements.tokens import may_have_draws, of_uuid, unknown_digits

if TYPE_CHECKING:
    from pathlib import Path

    from envbuild.operations.events import Events
    from envbuild.operations.verification.session import Session
    from envbuild.record.model import Record
    from envbuild.runs.repeat import Repeated
    from envbuild.runs.request import RunEngine
    from envbuild.verification.dataflow.measuring import Measuring
    from envbuild.verification.masking.masks import Masks
    from envbuild.verification.measurements.clockwork import Setting
    from envbuild.verification.ran import Ran

_GRACE = 30
"""Seconds that the run may take beyond three times as long as another one."""
_BARE = lazy(r"[0-9a-f]{8,40}")
_EXPERIMENT, _SNAPSHOT = lazy(r"[1-9]\d{17}"), ".snapshot"
"""The name of an experiment of MLflow's, and the end of TensorFlow's files, whose names no Python code draws."""
_DIGITS = 32
"""Of a draw that becomes a UUID."""
_MOST = 20
"""Names that are quoted."""
_TEXT, _FILES = 1 << 20, 1000
"""Bytes of a file in which UUIDs are looked for, and how many files."""
_UUID = lazy(
    rb"(?<![0-9A-Fa-f-])[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[124678][0-9A-Fa-f]{3}-[89abAB][0-9A-Fa-f]{3}-[0-9A-Fa-f]{12}(?![0-9A-Fa-f-])"
)
"""Of the versions that are drawn, or made of the time; the others are digests, which count."""
_BARE_UUID = lazy(rb"(?<![0-9A-Za-z.])[0-9a-f]{12}[167][0-9a-f]{3}[89ab][0-9a-f]{15}(?![0-9A-Za-z])")
"""Without dashes, of which those with a time of the run are masked."""
_REPEATED = lazy(rb"\b0x[0-9a-f]{6,16}\b|\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?")
"""Addresses and dates, one of which may be that of a result."""
_BEHIND_KEY = lazy(rb'"[A-Za-z_]{0,60}[Ii][Dd]"\s{0,4}:\s{0,4}"([0-9a-f]{8,31})"')
"""Shorter ones that JSON has under the name of an identity, where they are left out (``values.string``)."""
_BEHIND_DATE = lazy(
    rb"(?<![0-9A-Za-z])20\d\d[-/.]?\d\d[-/.]?\d\d(?:[T_ -]\d\d[:-]?\d\d(?:[:-]?\d\d(?:\.\d{1,6})?)?)?"
    rb"[-_.]([0-9a-f]{8,40})(?![0-9A-Za-z])"
)
"""Behind a date in a name, where they are masked (``masking.rules``)."""
_ANY_ADDRESS = lazy(rb"\b0x(?:(?:0000)?(?:7[ef]|5[56])[0-9a-f]{10}\b|[1-9a-f][0-9a-f]{6,15}(?=>))")
_ADDRESS = lazy(rb"(?<!at )\b0x(?:0000)?(?:7[ef]|5[56])[0-9a-f]{10}\b(?!>)")


def undrawn_names(session: Session, engine: RunEngine | None, events: Events) -> tuple[str, ...]:
    """Return a phrase for each name of a file, or in a page, that differs between runs and that no run drew.

    Args:
        session: runs that are equal, some files under a common name, or some pages but for names in them.
        engine: runs the container; None if no further run may be made: names in pages are quoted then.
        events: receives ``MoreRuns``.
    """
    first, *others = map(_names, session.runs)
    known = {name for each in others for name in each}
    own = {name: masked for name, masked in first.items() if name not in known}
    glued = _lone_glued(session.runs[0], session.runs[1:])
    longest = max(run.record.duration or 0.0 for run in session.runs)
    ran = None
    if engine is not None and longest <= LONGEST and (own or glued):
        ran = _with_known_entropy(session, engine, events)
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


def undrawn_uuids(session: Session, engine: RunEngine | None, events: Events, *, able: Measuring) -> tuple[str, ...]:
    """Return a phrase for each stream or file with a UUID that differs between runs and that no run drew.

    ``uuid.UUID(int=rng.getrandbits(128), version=4)`` gives one that a generator decides: a result. So may any other
    text of that form be. They are quoted where the sources make UUIDs of numbers, or call nothing that draws one,
    unless a run shows that they are drawn. Elsewhere that run is made too, if it can be, where the sources make texts
    of hexadecimal digits, or are not known; of workers that their pool ends nobody knows what they drew, so that it
    may show nothing there. One of a version that has a time in it, which no run had, is quoted in any case.

    Args:
        session: runs that are equal but for such names.
        engine: runs the container; None if no further run may be made: they are quoted then.
        events: receives ``MoreRuns``.
        able: whether the program can draw names.
    """
    known = {name for run in session.runs[1:] for name in names_of(run)}
    for at, run in [*_numbered(session)][1:]:
        by_file = _identities_of(session, run.record, session.done[at])
        known |= {shortened(name) for names in by_file.values() for name in names}
    lone = _uuids_of(session, session.runs[0].record, session.done[min(session.done)], known)
    timeless, decimal = doubtful_by_form(lone, masks_of(session.runs[0].record))
    at_sight = (
        *_quoted_uuids(timeless, "no run had the time that is in it"),
        *_quoted_uuids(decimal, "it has decimal digits alone"),
        *(() if able.names else _quoted_uuids(_chosen(session))),
    )
    said = {name for found in (timeless, decimal) for names in found.values() for name in names}
    several = several_processes(*(run.record for run in session.runs))
    if not may_be_made(able, several=several, again=engine is not None):
        return at_sight
    sure = has_no_other_uuids(able) or bool(able.makes_hex)
    # Those with a time of the run are what ``uuid1`` gives, where the sources do not make them of numbers.
    of_time = not has_no_other_uuids(able)
    mine = _where(lone, lambda name: name not in said and (moment_of_uuid(name) is None or not of_time))
    longest = max(run.record.duration or 0.0 for run in session.runs)
    if not mine or engine is None or longest > LONGEST:
        return (*at_sight, *(_quoted_uuids(mine) if sure else ()))
    seen: list[tuple[dict[str, list[str]], tuple[str, ...]]] = []

    def look(found: Repeated, ran: Ran, clock: Setting | None) -> None:
        if ran.ended_well:
            theirs = _uuids_of(session, ran.record, found, known)
            seen.append((_where(theirs, lambda name: moment_of_uuid(name) is None or not of_time), drawn_by(ran)))

    laboratory = Laboratory(session=session, engine=engine, events=events, limit=int(3 * longest) + _GRACE)
    clock, *_ = settings(int(time.time()), all_known=True)
    laboratory.observed(1, "the clock fixed, with entropy and figures", clock, look)
    if not seen:
        return (*at_sight, *(_quoted_uuids(mine) if sure else ()))
    theirs, drawn = seen[0]
    return (*at_sight, *_quoted_uuids(uuids_not_drawn(mine, theirs, drawn)))


def doubtful_by_form(
    names: Mapping[str, Sequence[str]], masks: Masks
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return UUIDs that no run draws by what they are, by stream or file: with a time in them that it had not; others
    of decimal digits alone.

    One in a million of those that are drawn is of such digits. A program can make them of numbers by means that show
    nothing of it, such as ``{:012d}``.
    """
    times = {name: moment_of_uuid(name) for each in names.values() for name in each}
    timeless = {name for name, moment in times.items() if moment is not None and not masks.is_moment(moment)}
    decimal = {name for name in times if name.replace("-", "").isdecimal()} - timeless
    return _where(names, timeless.__contains__), _where(names, decimal.__contains__)


def may_be_made(able: Measuring, *, several: bool, again: bool) -> bool:
    """Whether UUIDs that differ may be of a generator, as far as the sources show.

    Args:
        able: what they show.
        several: the program has several processes.
        again: a run can be made that shows what is drawn.
    """
    if has_no_other_uuids(able) or able.makes_hex:
        return True
    return again and not several and (able.uuids == "drawn" or able.makes_hex is None)


def _where(names: Mapping[str, Sequence[str]], wanted: Callable[[str], bool]) -> dict[str, list[str]]:
    """Return the names that are wanted, by stream or file."""
    found = {place: [name for name in each if wanted(name)] for place, each in names.items()}
    return {place: each for place, each in found.items() if each}


def has_no_other_uuids(able: Measuring) -> bool:
    """Whether the sources make UUIDs of numbers, or call nothing that draws one or makes one of the time."""
    return able.makes_names or able.uuids == "none"


def uuids_not_drawn(
    mine: Mapping[str, Sequence[str]], theirs: Mapping[str, Sequence[str]], drawn: Sequence[str]
) -> dict[str, list[str]]:
    """Return the UUIDs, by stream or file, that a run with known entropy did not show to be drawn.

    Args:
        mine: UUIDs of a run as it is, by stream or file.
        theirs: those of the run with known entropy, in the same places.
        drawn: what that gave, in hexadecimal digits.
    """
    found: dict[str, list[str]] = {}
    for place, names in mine.items():
        others = theirs.get(place, ())
        if len(others) != len(names):
            found[place] = [*names]
        elif made := [
            name
            for name, other in zip(names, others, strict=True)
            if unknown_digits(_hex_of(other), drawn) or not re.search("[0-9a-f]{8}", _hex_of(other))
        ]:
            found[place] = made
    return found


def _quoted_uuids(
    found: Mapping[str, Sequence[str]], why: str = "nothing shows that a run draws them"
) -> Iterator[str]:
    for place, names in islice(found.items(), _MOST):
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        yield f"names in {place}: {names[0]}{more}: {why}, a generator may have made them"


def made_addresses(session: Session, able: Measuring) -> Iterator[str]:
    """Quote what has the form of an address in memory, and differs; in the name of an object only if sources make it.

    Only where the sources make hexadecimal digits: it may be a digest. Elsewhere it is what ``hex(id(x))`` gives, or
    what a library shows.
    """
    pattern = _ANY_ADDRESS if able.shows_addresses else _ADDRESS
    if not able.makes_hex:
        return
    first, *others = (_found_in(session, run.record, session.done[at], pattern) for at, run in _numbered(session))
    known = {name for each in others for names in each.values() for name in names}
    lone = _where(first, lambda name: name not in known)
    for place, names in islice(lone.items(), _MOST):
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        yield f"addresses in {place}: {names[0]}{more}: the program makes hexadecimal digits, of which this may be some"


def others_repeated(session: Session) -> Iterator[str]:
    """Quote the places where two runs repeat other ones of their dates or addresses, which are left out themselves.

    Of three trials the best may be the one that began first, or second, and be named by that time alone.
    """
    several = several_processes(*(run.record for run in session.runs))
    in_turn = {*_written_in_turn(session.runs[0])}
    first, *others = (_texts_of(session, run.record, session.done[at]) for at, run in _numbered(session))
    for place, text in first.items():
        if (several and place in STREAMS.values()) or place in in_turn:
            continue
        mine = [each.decode() for each in _REPEATED.findall(text)]
        for other in others:
            pair = repeated_otherwise(mine, [each.decode() for each in _REPEATED.findall(other.get(place, b""))])
            if pair is not None:
                yield f"which date or address {place} has again: number {pair[0] + 1} → number {pair[1] + 1}"
                break


def _written_in_turn(run: Ran) -> Iterator[str]:
    """Yield the streams and files whose lines threads wrote in turn: times in them have no order either."""
    streams = ((STREAMS["stdout"], run.stdout), (STREAMS["stderr"], run.stderr))
    yield from (name for name, printed in streams if printed.threads == ANY_ORDER)
    yield from (path for path, content in run.contents.items() if ORDER in content.left_out)


def repeated_otherwise(mine: Sequence[str], theirs: Sequence[str]) -> tuple[int, int] | None:
    """Return which earlier texts two runs repeat in the first place where these are not the same ones; None for none.

    Neighbours that are equal in both, as two lines of one second are, repeat nothing, and of texts that are the same it
    does not matter which one is repeated.
    """
    if len(mine) != len(theirs):
        return None
    seen: tuple[dict[str, int], dict[str, int]] = {}, {}
    for at, pair in enumerate(zip(mine, theirs, strict=True)):
        known = [of.setdefault(text, at) for of, text in zip(seen, pair, strict=True)]
        again = known[0] != known[1] and at not in known and (mine[at - 1], theirs[at - 1]) != pair
        if again and mine[known[0]] != mine[known[1]] and theirs[known[0]] != theirs[known[1]]:
            return known[0], known[1]
    return None


def _numbered(session: Session) -> Iterator[tuple[int, Ran]]:
    yield from zip(sorted(session.done), session.runs, strict=True)


def _uuids_of(session: Session, record: Record, found: Repeated, known: Collection[str]) -> dict[str, list[str]]:
    """Return the UUIDs, and shorter identities, that a run has alone, by stream or file; large files are left out."""
    masks = masks_of(record)
    names = _found_in(session, record, found, _UUID)
    bare = _where(
        _found_in(session, record, found, _BARE_UUID), lambda name: is_of_run(moment_of_bare_uuid(name), masks)
    )
    short = _found_in(session, record, found, _BEHIND_KEY)
    dated = _found_in(session, record, found, _BEHIND_DATE)
    by_name = _identities_of(session, record, found)
    every = {
        place: [*dict.fromkeys(name for each in (names, bare, short, dated, by_name) for name in each.get(place, ()))]
        for place in (*names, *by_name)
    }
    return _where(every, lambda name: shortened(name) not in known)


def _identities_of(session: Session, record: Record, found: Repeated, *, whole: bool = False) -> dict[str, list[str]]:
    """Return the identities with hexadecimal digits that files of any format have under a name of one, by file.

    ``whole``: those without such digits too.
    """
    from envbuild.verification.content import identities
    from envbuild.verification.content.canonical import FILE

    masks = masks_of(record)
    files = [*_files_of(record, found, _digests_of_others(session, record))]
    without = {found.files / path for path in _without_identities(session, record)} if found.files else set()
    lists: dict[str, dict[str, None]] = {}
    for place, path in files:
        data = read_foreign(path, FILE) if path not in without else None
        texts = (text for _, text in identities(data or b"", masks) if whole or may_have_draws(_hex_of(text)))
        lists.setdefault(place, {}).update(dict.fromkeys(texts))
    return {place: [*texts] for place, texts in lists.items() if texts}


def _chosen(session: Session) -> dict[str, list[str]]:
    """Return the identities without hexadecimal digits that the first run has alone, by file: ``s17k3849x``.

    No run shows whether they are drawn. Where nothing in the sources draws names, they are one of many, or made by a
    generator. Of numbers alone those of processes are known by other means.
    """
    first, *others = (
        _identities_of(session, run.record, session.done[at], whole=True) for at, run in _numbered(session)
    )
    known = {name for each in others for names in each.values() for name in names}
    return _where(first, lambda name: name not in known and not name.isdecimal() and not may_have_draws(_hex_of(name)))


def _without_identities(session: Session, record: Record) -> Iterator[str]:
    """Yield the files that a run was found to have no identity in, which need not be opened once more."""
    from envbuild.verification.content import leaves_identities_out

    for run in session.runs:
        if run.record.id == record.id:
            yield from (path for path, content in run.contents.items() if not leaves_identities_out(content))


def _hex_of(name: str) -> str:
    """Return an identity as draws are written: in small letters, the digits of a UUID in one, words before it apart."""
    text = name.lower()
    joined = text.replace("-", "")
    return joined if may_have_draws(joined) else re.sub(r"[^0-9a-z]+", " ", text)


def _digests_of_others(session: Session, record: Record) -> set[str | None]:
    return {each.sha256 for run in session.runs if run.record.id != record.id for each in run.record.outputs}


def is_of_run(moment: float | None, masks: Masks) -> bool:
    """Whether a moment is one of a run."""
    return moment is not None and masks.is_moment(moment)


def _found_in(session: Session, record: Record, found: Repeated, pattern: re.Pattern[bytes]) -> dict[str, list[str]]:
    """Return what a run has of a form, by stream or file, each once; large files are left out."""
    return {
        place: list(dict.fromkeys(each.decode() for each in pattern.findall(text)))
        for place, text in _texts_of(session, record, found).items()
    }


def _texts_of(session: Session, record: Record, found: Repeated) -> dict[str, bytes]:
    """Return what a run printed and wrote, by stream or file, but for files that another run has too."""
    texts: dict[str, bytes] = {}
    paths = {"standard output": found.output.stdout, "standard error": found.output.stderr}
    others = _digests_of_others(session, record)
    for stream, path in (*paths.items(), *_files_of(record, found, others)):
        texts[stream] = read_foreign(path, _TEXT) or b""
    for stream, name in STREAMS.items():
        texts[name] = texts[name] or kept(session.plan.request.project, record.id, stream) or b""
    return texts


def _files_of(record: Record, found: Repeated, same: Set[str | None]) -> Iterator[tuple[str, Path]]:
    """Yield the files of a run but for those whose digests are the ``same`` in another one."""
    if found.files is not None:
        masks = masks_of(record)
        own = (each for each in record.outputs if each.sha256 not in same)
        yield from ((masked_path(each.path, masks), found.files / each.path) for each in islice(own, _FILES))


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
    experiments = {name: masked for name, masked in names.items() if _EXPERIMENT.fullmatch(name) is not None}
    computed |= {
        masked
        for name, masked in experiments.items()
        if not masked.endswith(_SNAPSHOT) and not is_of_experiment(name, drawn)
    }
    return tuple(
        f"names of files: {name} in {masked} is not as it was drawn: computed of what differs, or by a generator"
        for name, masked in own.items()
        if masked in computed
    )


def is_of_experiment(name: str, drawn: Sequence[str]) -> bool:
    """Whether 18 figures are the last ones of a drawn UUID's number, as MLflow names an experiment.

    It puts others behind them for noughts at the beginning (``mlflow/utils/name_utils.py``).
    """
    numbers = (str(int(of_uuid(each), 16))[-len(name) :].lstrip("0") for each in drawn if len(each) == _DIGITS)
    return any(number and name.startswith(number) for number in numbers)


def _names(run: Ran) -> dict[str, str]:
    """Return the names in hexadecimal digits in the paths of a run's files, each with its masked path."""
    paths = [each.path for each in (*run.record.outputs, *run.record.outside)]
    masks = masks_of(run.record)
    names = {name for name in drawn_names(paths) if _BARE.fullmatch(name) is not None and not is_drawn(name)}
    return {name: masked_path(path, masks) for path in sorted(paths) for name in drawn_names([path]) if name in names}
