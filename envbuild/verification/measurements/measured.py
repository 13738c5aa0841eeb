"""What differs between runs and is proven to follow the clock, place by place.

A run is a table of sources, such as files and streams, each a list of places with names, such as keys and lines. All
runs must have the same places. A place whose value is the same in all runs, with the real clock and with every fixed
one, does not depend on it. Of any other, all that differs must follow the clock exactly (``tokens``, ``clockwork``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

from envbuild.core.patterns import lazy
from envbuild.record.measurements import are_durations
from envbuild.verification.measurements.byte_tokens import of_bytes
from envbuild.verification.measurements.clockwork import Kind, Setting, Span, When
from envbuild.verification.measurements.labels import (
    Header,
    may_be_times,
    names_no_time,
    names_time,
    place_name,
    says_memory,
)
from envbuild.verification.measurements.ratios import Ratios
from envbuild.verification.measurements.tokens import (
    Piece,
    Whole,
    are_no_processes,
    goes_with_time,
    identities_in,
    mark_drawn,
    mark_figures,
    mark_ports,
    mark_processes,
    mark_workers,
    may_have_draws,
    may_have_ports,
    may_have_processes,
    of_texts,
    rates_in,
    unknown_digits,
    whole_numbers,
)
from envbuild.verification.verdict import Measured

Place = tuple[str, "bytes | str"]
_NUMPY = b"\x93NUMPY"
_SHAPE = lazy(rb"'shape': \((\d*),? ?([\d, ]*)\)")
_DIGIT = lazy(r"\d")
_PACKED = lazy(r"[0-9a-f]{16}")
"""A floating-point number as readers of databases and pickles show it, exactly."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """What one run left: the clock it had, places by source, and what a fixed stream of entropy gave.

    ``whole``: returns the places with nothing masked in them, if they are known.
    """

    when: When
    sources: Mapping[str, Sequence[Place]]
    drawn: Sequence[str] = ()
    whole: Callable[[], Mapping[str, Sequence[Place]]] | None = None


_OF_MACHINE: tuple[tuple[Kind, Callable[[Sequence[tuple[When, str]], str], list[str]]], ...] = (
    ("process", mark_workers),
    ("port", mark_ports),
    ("process", mark_processes),
)
"""What puts marks in the place of what a run has to itself, and what that is."""
_SETTINGS = 4
_ROUNDED = 64
"""Places that are compared with rates of the same name; where there are more, something else differs."""
_TOTAL = lazy(r"(?P<table>(?:.*[.\])])?)(?P<key>total|sum|mean|avg|average)", re.DOTALL)
"""What is made of several values, which are next to it, and has no name of its own."""
_BETWEEN = 3
_PLACES = lazy(r"(?:\[\d*\])+\Z")
_STORAGE = "[1][0][0][0]"
"""Below a tensor in a pickle, the mark that its numbers are in another member."""


def measured(
    runs: Sequence[Seen], least: int = _SETTINGS, *, trained: bool = False, alone: bool = False
) -> list[Measured] | None:
    """Return the places that follow the clock; None if anything differs that does not.

    Args:
        runs: with the real clock and with fixed ones.
        least: how many settings of these (``clockwork.settings``) there have to be; fewer than all prove nothing.
        trained: all runs have the same parameters after each step of training (``tokens.of_texts``).
        alone: by the program's sources durations are items without a name (``dataflow.stopwatches``).
    """
    runs, found = with_processes(with_marks(runs))
    if len({run.when for run in runs if isinstance(run.when, Setting)}) < least:
        return None
    draws = _identities(runs)
    next_to_time = cache(partial(_go_with_time, runs))
    ratios = _ratios(runs, may_be=least < _SETTINGS)
    rates: set[Whole] = set()
    rounded: list[tuple[Measured, list[Whole]]] = []
    for source, name, values, header in _places(runs):
        pieces = _of_place(source, name, values, header, trained=trained, alone=alone, draws=draws, ratios=ratios)
        if pieces is None and next_to_time(source):
            pieces = _of_place(source, name, values, header, next_to_time=True)
        texts = [(when, value) for when, value in values if isinstance(value, str)]
        if len(texts) < len(values):
            texts = []
        if pieces is None:
            numbers = whole_numbers(texts, name) if texts and len(rounded) < _ROUNDED else None
            if numbers is None:
                return None
            rounded.append((Measured(path=source, where=name, kind="rate"), numbers))
            continue
        found += (Measured(path=source, where=_where(name, piece), kind=piece.kind) for piece in pieces)
        if texts and any(piece.kind == "rate" for piece in pieces):
            rates |= {*rates_in(texts, name)}
    if not all(rates.issuperset(numbers) for _, numbers in rounded):
        return None
    return [*found, *(place for place, _ in rounded)]


def _ratios(runs: Sequence[Seen], *, may_be: bool) -> Ratios | None:
    """Return what shows whether numbers are made of durations, or may be; None if nothing can."""
    whole = [(run.when, run.whole) for run in runs if run.whole is not None]
    return Ratios(whole, may_be=may_be) if len(whole) == len(runs) else None


def _identities(runs: Sequence[Seen]) -> frozenset[str]:
    """Return the draws that are identities by the name of a place: they are such where they are printed without one."""
    if not any(run.drawn for run in runs):
        return frozenset()
    return frozenset(
        draw
        for _, name, values, header in _places(runs)
        if len(texts := [(when, value) for when, value in values if isinstance(value, str)]) == len(values)
        for draw in identities_in(texts, name, header)
    )


def with_marks(runs: Sequence[Seen]) -> Sequence[Seen]:
    """Return the runs with marks in the place of what was drawn, if it is known what fixed streams of entropy gave."""
    if not any(run.drawn for run in runs):
        return runs
    known = frozenset[str]().union(
        *(
            unknown_digits(value, run.drawn)
            for run in runs
            if isinstance(run.when, Setting)
            for places in run.sources.values()
            for _, value in places
            if isinstance(value, str)
        )
    )
    marked = [
        replace(run, sources={source: _marked(run, places, known) for source, places in run.sources.items()})
        for run in runs
    ]
    like = next(run for run in marked if isinstance(run.when, Setting) and run.drawn)
    return [run if isinstance(run.when, Setting) else _like(run, like) for run in marked]


def with_processes(runs: Sequence[Seen]) -> tuple[Sequence[Seen], list[Measured]]:
    """Return the runs with marks in the place of numbers of processes and of ports, and where these were.

    Which of several workers does what may be luck, so that runs with the same clock differ in them too.
    """
    if not any(isinstance(run.when, Setting) and run.when.processes for run in runs) or not same_places(runs):
        return runs, []
    found: list[Measured] = []
    sources: list[dict[str, Sequence[Place]]] = [{**run.sources} for run in runs]
    for source in sorted(runs[0].sources):
        tables = [[*run.sources[source]] for run in runs]
        for at, (name, first) in enumerate(tables[0]):
            texts = [
                (run.when, value)
                for run, table in zip(runs, tables, strict=True)
                if isinstance(value := table[at][1], str)
            ]
            if len(texts) < len(runs) or all(text == first for _, text in texts):
                continue
            for kind, mark in _OF_MACHINE:
                marked = mark(texts, name)
                if marked[0] != texts[0][1]:
                    found.append(Measured(path=source, where=name, kind=kind))
                    texts = [(when, text) for (when, _), text in zip(texts, marked, strict=True)]
                    for table, text in zip(tables, marked, strict=True):
                        table[at] = name, text
        for each, table in zip(sources, tables, strict=True):
            each[source] = table
    return [replace(run, sources=each) for run, each in zip(runs, sources, strict=True)], found


def _like(run: Seen, like: Seen) -> Seen:
    """Return a run with marks for names that are figures alone, where another one has marks."""
    sources = {
        source: [
            (name, mark_figures(value, other) if isinstance(value, str) and isinstance(other, str) else value)
            for (name, value), (_, other) in zip(places, theirs, strict=True)
        ]
        if len(theirs := like.sources.get(source, ())) == len(places)
        else places
        for source, places in run.sources.items()
    }
    return replace(run, sources=sources)


def _marked(run: Seen, places: Sequence[Place], known: frozenset[str]) -> list[Place]:
    drawn = run.drawn if isinstance(run.when, Setting) else None
    return [(name, mark_drawn(value, drawn, known) if isinstance(value, str) else value) for name, value in places]


def _go_with_time(runs: Sequence[Seen], source: str) -> bool:
    """Whether the number behind the time at the beginning of lines is that time too, in all runs with a fixed clock."""
    texts = [
        [value for _, value in run.sources.get(source, ()) if isinstance(value, str)]
        for run in runs
        if isinstance(run.when, Setting)
    ]
    return bool(texts) and all(map(goes_with_time, texts))


def may_be_measured(runs: Sequence[Seen]) -> bool:
    """Whether what differs may be measurements at all: the same places, with dates and numbers in them.

    Args:
        runs: with the real clock.
    """
    return same_places(runs) and all(_is_candidate(name, values) for _, name, values, _ in _places(runs))


def may_be_drawn(runs: Sequence[Seen]) -> bool:
    """Whether something that differs may be a name that was drawn, a measure of memory, or the number of a process.

    Args:
        runs: with the real clock and with fixed ones.
    """
    real = [run for run in runs if isinstance(run.when, Span)]
    return any(
        isinstance(value, str) and (may_have_draws(value) or says_memory(f"{name} {value}"))
        for _, name, values, _ in _places(real)
        for _, value in values
    ) or any(
        (may_have_processes(texts) or may_have_ports(texts))
        for _, name, values, _ in _places(runs)
        if not are_no_processes([value for _, value in values if isinstance(value, str)])
        and len(texts := [(when, f"{name} {value}") for when, value in values if isinstance(value, str)]) == len(values)
    )


def same_places(runs: Sequence[Seen]) -> bool:
    """Whether all runs have the same places."""
    return len({_shape(run) for run in runs}) == 1


def unchanged(one: Seen, other: Seen) -> bool:
    """Whether two runs with the same fixed clock are equal."""
    return {**one.sources} == {**other.sources}


def _shape(run: Seen) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple((source, tuple(name for name, _ in places)) for source, places in sorted(run.sources.items()))


_Values = list[tuple[When, "bytes | str"]]


def _places(runs: Sequence[Seen]) -> Iterator[tuple[str, str, _Values, Header | None]]:
    """Yield source, name, values and names of columns of each place that is not equal in all runs.

    If not all runs have the same places, there is one, without values.
    """
    if not same_places(runs):
        yield "", "", [], None
        return
    for source, places in sorted(runs[0].sources.items()):
        header, tensors = None, _tensors(places)
        for at, (name, first) in enumerate(places):
            values = [run.sources[source][at][1] for run in runs]
            if any(value != first for value in values):
                clocked = [(run.when, value) for run, value in zip(runs, values, strict=True)]
                yield source, tensors.get(name) or _in_full(name, places[max(0, at - _BETWEEN) : at]), clocked, header
            elif isinstance(first, str):
                header = Header.of(first) or header


def _in_full(name: str, before: Sequence[Place]) -> str:
    """Return the name of a place, that of a sum with what it is of: the list of durations that is right before it.

    Args:
        name: of the place.
        before: the places before it, with the keys that readers of pickles have between.
    """
    found = _TOTAL.fullmatch(name)
    if found is None:
        return name
    keys = (_PLACES.sub("", each.removeprefix(found["table"])) for each, _ in before if each.startswith(found["table"]))
    last = next((key for key in [*keys][::-1] if key), "")
    return f"{found['table']}{last} {found['key']}" if are_durations(last) else name


def _tensors(places: Sequence[Place]) -> dict[str, str]:
    """Return the names of the tensors whose numbers are in members of a file as PyTorch writes it, by member.

    A tensor is ``_rebuild_tensor_v2((("storage", type, member, device, count), …))`` under its key. A member that
    several tensors share has no name, and none has a tensor whose key is no text.
    """
    values = {name: value for name, value in places if isinstance(value, str)}
    found: dict[str, str] = {}
    for name, value in values.items():
        if value == "storage" and name.endswith(_STORAGE):
            tensor = name.removesuffix(_STORAGE)
            member = f"data/{values.get(f'{tensor}[1][0][0][2]', '')}"
            found[member] = "" if member in found else tensor
    return found


def _of_place(
    source: str,
    name: str,
    values: _Values,
    header: Header | None,
    *,
    next_to_time: bool = False,
    trained: bool = False,
    alone: bool = False,
    draws: Container[str] = (),
    ratios: Ratios | None = None,
) -> list[Piece] | None:
    """Return what follows the clock in a place; None if anything else differs, or nothing is known of it."""
    texts = [(when, value) for when, value in values if isinstance(value, str)]
    if texts and len(texts) == len(values):
        if not names_no_time(name) and all(_PACKED.fullmatch(text) for _, text in texts):
            return of_bytes([(when, bytes.fromhex(text)) for when, text in texts], named=names_time(place_name(name)))
        return of_texts(
            texts,
            name,
            header,
            next_to_time=next_to_time,
            trained=trained,
            alone=alone,
            draws=draws,
            durations=ratios,
        )
    data = [(when, value) for when, value in values if isinstance(value, bytes)]
    if not data or len(data) < len(values) or names_no_time(name) or _is_matrix(data[0][1]):
        return None
    return of_bytes(data, named=may_be_times(name, source))


def _is_matrix(data: bytes) -> bool:
    """Whether data are an array of several dimensions, as NumPy stores it: those are results."""
    if not data.startswith(_NUMPY):
        return False
    found = _SHAPE.search(data[:200])
    return found is None or bool(found[2].strip())


def _is_candidate(name: str, values: Sequence[tuple[When, bytes | str]]) -> bool:
    if not values:
        return False
    texts = [value for _, value in values if isinstance(value, str)]
    if texts:
        return len(texts) == len(values) and all(map(_DIGIT.search, texts)) and not _is_named(name, texts)
    data = [value for _, value in values if isinstance(value, bytes)]
    return len({len(each) for each in data}) == 1 and not names_no_time(name) and not _is_matrix(data[0])


def _is_named(name: str, texts: Sequence[str]) -> bool:
    """Whether all of a place is a number under the name of a result."""
    return names_no_time(f"{name} ") and all(text.lstrip("-")[:1].isdigit() for text in texts)


def _where(name: str, piece: Piece) -> str:
    return f"{name}: {piece.where}" if name and piece.where else name or piece.where
