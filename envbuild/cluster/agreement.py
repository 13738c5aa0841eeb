"""Are all ranks of a job alike? The facts that each one sends, and the comparison. Pure.

What comes from another rank is data from outside: texts are short, their number is limited, and control characters are
shown as escapes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from envbuild.cluster.rank import LARGEST_WORLD, numbers_text, ranks_text
from envbuild.core.text import plain
from envbuild.host.facts import HostFacts

Nonce = Annotated[str, Meta(pattern=r"^[0-9a-f]{32}\Z")]
Text = Annotated[str, Meta(max_length=4000)]
Name = Annotated[str, Meta(max_length=255)]
Number = Annotated[int, Meta(ge=0, lt=LARGEST_WORLD)]

ROWS = 20
"""Most lines of a table."""
_WIDTH = 60
_ALWAYS_EQUAL = frozenset(("image", "lock", "world", "envbuild"))
"""Facts that no ``--allow`` lets differ: ranks of two images are no job."""


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """What rank 0 begins with: the identity of this start."""

    start: Nonce


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What one rank sends.

    Attributes:
        start: the call that it answers.
        nonce: this process's own 128 random bits.
        host: its machine.
        address: where its machine can be reached from others; empty if it does not know.
        facts: what must be equal in all ranks, by name.
        refused: what its guard refuses, a line each; the rank cannot start.
        failed: why it could not prepare its run; empty if it could.
    """

    start: Nonce
    nonce: Nonce
    rank: Number
    host: Name
    address: Name = ""
    facts: Annotated[dict[Name, Text], Meta(max_length=64)] = {}
    refused: Annotated[tuple[Text, ...], Meta(max_length=64)] = ()
    failed: Text = ""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What rank 0 sends to all.

    Attributes:
        nonces: of each rank that answered, so that each one sees that its own answer was compared.
        hosts: machine of each rank, in their order.
        address: rank 0's.
        lines: why no program may start; empty if all may.
        mismatch: the machines are not as they must be; False if ranks failed or did not arrive.
        allowed: facts that differ and were allowed.
    """

    start: Nonce
    nonces: Annotated[dict[str, Nonce], Meta(max_length=LARGEST_WORLD)]
    hosts: Annotated[tuple[Name, ...], Meta(max_length=LARGEST_WORLD)] = ()
    address: Name = ""
    lines: Annotated[tuple[Text, ...], Meta(max_length=4 * ROWS)] = ()
    mismatch: bool = False
    allowed: Annotated[tuple[Name, ...], Meta(max_length=64)] = ()


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """That a rank's program has ended, and how."""

    start: Nonce
    nonce: Nonce
    rank: Number
    code: Annotated[int, Meta(ge=0, le=255)]


class SentFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a run: its name in the run's folder (``RECORD``, a trace, NCCL's graph), size in bytes and digest."""

    name: Annotated[str, Meta(pattern=r"^(?:record\.json|nccl-[a-z]{1,20}\.xml|trace-[0-9A-Za-z._-]{1,200}\.bin)\Z")]
    size: Annotated[int, Meta(ge=0)]
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """What a rank has to deliver once its run is recorded.

    Attributes:
        run: identity of its record, a ULID.
        files: of the run; those that rank 0 wants follow in this order.
    """

    start: Nonce
    nonce: Nonce
    rank: Number
    run: Annotated[str, Meta(pattern=r"^[0-9A-HJKMNP-TV-Z]{26}\Z")]
    files: Annotated[tuple[SentFile, ...], Meta(max_length=1024)]


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """The names of the files that rank 0's machine does not have."""

    names: Annotated[tuple[Name, ...], Meta(max_length=1024)]


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """That a rank's files are stored on rank 0's machine; ``problem``: why not."""

    problem: Text = ""


class Codes(msgspec.Struct, frozen=True, kw_only=True):
    """The exit codes of the ranks that have ended, by rank."""

    codes: Annotated[dict[Number, Annotated[int, Meta(ge=0, le=255)]], Meta(max_length=LARGEST_WORLD)]


def host_values(host: HostFacts) -> dict[str, str]:
    """Return what of a machine must be equal in all ranks, named as the guard names its fields."""
    devices = host.gpu.devices
    return {
        "machine": host.machine,
        "cpu": host.cpu.level,
        "cpu.flags": " ".join(host.cpu.flags),
        "gpu.driver": host.gpu.driver,
        "gpu.model": _kinds(device.name for device in devices),
        "gpu.compute-capability": _kinds(device.compute_capability for device in devices),
        "gpu.sms": _kinds(str(device.sms) for device in devices if device.sms),
        "gpu.mig": _kinds(device.mig for device in devices),
    }


def compare(answers: Sequence[Answer], world: int, allow: Collection[str] = ()) -> Verdict:
    """Return the verdict on the answers of all ranks that arrived in time.

    Args:
        answers: one of each rank, rank 0's first.
        world: how many there should be.
        allow: facts that may differ.
    """
    first = answers[0]
    by_rank = {answer.rank: answer for answer in answers}
    hosts = tuple(by_rank[rank].host if rank in by_rank else "" for rank in range(world))
    nonces = {str(answer.rank): answer.nonce for answer in answers}
    lines = [*_absent(by_rank, world), *_failed(answers)]
    if lines:
        return Verdict(start=first.start, nonces=nonces, hosts=hosts, address=first.address, lines=_cut(lines))
    differing = {name: groups for name, groups in _groups(answers) if len(groups) > 1}
    allowed = tuple(sorted(name for name in differing if name in allow and name not in _ALWAYS_EQUAL))
    rows = [row for name, groups in differing.items() if name not in allowed for row in _rows(name, groups, by_rank)]
    lines = [*_table(rows), *_refused(answers)]
    return Verdict(
        start=first.start,
        nonces=nonces,
        hosts=hosts,
        address=first.address,
        lines=_cut(lines),
        mismatch=bool(lines),
        allowed=allowed,
    )


def _absent(by_rank: Mapping[int, Answer], world: int) -> Iterator[str]:
    missing = [rank for rank in range(world) if rank not in by_rank]
    if missing:
        arrived = plain(", ".join(sorted({answer.host for answer in by_rank.values()})))
        yield f"did not arrive: rank {numbers_text(missing)} of {world}; arrived from: {arrived}"


def _failed(answers: Sequence[Answer]) -> Iterator[str]:
    for answer in answers:
        if answer.failed:
            yield f"rank {answer.rank} ({plain(answer.host)}) cannot start: {plain(answer.failed)}"


def _refused(answers: Sequence[Answer]) -> Iterator[str]:
    """Yield what the guards refuse, each machine's lines once."""
    seen = set()
    for answer in answers:
        for line in answer.refused:
            if (answer.host, line) not in seen:
                seen.add((answer.host, line))
                yield f"{plain(answer.host)} does not match the lock: {plain(line)}"


def _groups(answers: Sequence[Answer]) -> Iterator[tuple[str, dict[str, list[int]]]]:
    """Yield each fact with its values and the ranks that have each; a rank that sent none has found no image."""
    answers = [answer for answer in answers if answer.facts]
    for name in dict.fromkeys(name for answer in answers for name in answer.facts):
        groups: dict[str, list[int]] = {}
        for answer in answers:
            groups.setdefault(answer.facts.get(name, ""), []).append(answer.rank)
        yield name, groups


def _rows(
    name: str, groups: Mapping[str, Sequence[int]], by_rank: Mapping[int, Answer]
) -> Iterator[tuple[str, str, str]]:
    """Yield field, value and ranks; the value that most ranks have first. Of a list of words only what differs."""
    hosts = {rank: answer.host for rank, answer in by_rank.items()}
    counts = Counter({value: len(ranks) for value, ranks in groups.items()})
    common = set.intersection(*(set(value.split(" ")) for value in groups)) if name == "cpu.flags" else set()
    for number, (value, _) in enumerate(counts.most_common()):
        shown = " ".join(word for word in value.split(" ") if word not in common) or "none"
        text = plain(shown)
        text = text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"
        yield plain(name) if not number else "", text, f"rank {ranks_text(groups[value], hosts)}"


def _table(rows: Sequence[tuple[str, str, str]]) -> Iterator[str]:
    table = [("field", "found", "where"), *rows] if rows else []
    widths = [max((len(row[column]) for row in table), default=0) for column in (0, 1)]
    for field, value, where in table:
        yield f"{field:<{widths[0]}}   {value:<{widths[1]}}   {where}"


def _cut(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the lines of a message, not too many and none too long."""
    shown = [line if len(line) <= 1000 else f"{line[:999]}…" for line in lines[:ROWS]]
    return (*shown, *([f"… and {len(lines) - ROWS} more"] if len(lines) > ROWS else []))


def _kinds(values: Iterator[str]) -> str:
    """Write the different values of several devices."""
    return ", ".join(sorted({value for value in values if value}))
