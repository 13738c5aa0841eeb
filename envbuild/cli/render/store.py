"""What the store's commands found, as lines for people and as JSON."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from envbuild.cli.render.events import Line
from envbuild.core.text import human_bytes, plain, plural
from envbuild.operations.store import GarbageRequest, GarbageResult, StoreCheck, StoreListing
from envbuild.store.inventory import KINDS, StoreEntry
from envbuild.store.roots import DAY, Root, file_names, locks_by_entry

Row = tuple[str, ...]


def listing_text(listing: StoreListing, *, entries: bool) -> str:
    """Return tables of kinds and of locks; ``entries``: one of every file and layer, too."""
    tables = [_table(_kind_rows(listing), (1, 2, 3))]
    if listing.roots:
        tables.append(_table(_lock_rows(listing), (1, 2, 3, 4)))
    if entries:
        tables.append(_table(_entry_rows(listing), (2,)))
    return "\n".join(tables)


def listing_lines(listing: StoreListing) -> Iterator[Line]:
    """Yield where the store is, how large, and who uses it now."""
    yield Line("store", (str(listing.folder), human_bytes(_size(listing.entries))))
    if listing.processes:
        ids = ", ".join(map(str, listing.processes))
        yield Line("in use", (f"by {plural(len(listing.processes), 'command')}: process {ids}",))


def listing_json(listing: StoreListing) -> dict[str, Any]:
    """Return the JSON result of ``store ls``."""
    kinds = {}
    for kind in KINDS:
        some = [entry for entry in listing.entries if entry.kind == kind]
        need = _size(entry for entry in some if entry.name in listing.needed)
        kinds[kind] = {"number": len(some), "size": _size(some), "needed": need}
    return {
        "store": str(listing.folder),
        "size": _size(listing.entries),
        "processes": list(listing.processes),
        "kinds": kinds,
        "locks": [
            {
                "path": root.lock.path,
                "name": root.lock.name,
                "state": root.state,
                "used": _time(root.lock.used),
                "files": len(root.lock.files),
            }
            for root in listing.roots
        ],
        "things": _entries_json(listing.entries, listing.roots),
    }


def check_json(check: StoreCheck) -> dict[str, Any]:
    """Return the JSON result of ``store verify``."""
    return {
        "checked": check.checked,
        "bytes": check.bytes,
        "damaged": _entries_json(check.damaged, check.roots),
        "missing": sorted(check.missing),
    }


def garbage_lines(request: GarbageRequest, result: GarbageResult, max_size: str) -> Iterator[Line]:
    """Yield what went, or would go, by kind.

    Args:
        max_size: the largest size allowed, as typed.
    """
    label = "would go" if request.dry_run else "removed"
    for kind in KINDS:
        if some := [entry for entry in result.removed if entry.kind == kind]:
            yield Line(label, (f"{len(some):>6,} {kind:<14}", f"{human_bytes(_size(some)):>8}"))
            label = ""
    if result.half_made:
        yield Line("", (f"{'':>6} {'half-made':<14}", f"{human_bytes(result.half_made):>8}"))
    for entry in result.removed:
        yield Line("", (f"{entry.kind}  {entry.name}  {human_bytes(entry.size)}",), detail=True)
    freed = f"{human_bytes(result.freed)} {'to free' if request.dry_run else 'freed'}"
    left = f"{human_bytes(result.left)} left, {human_bytes(result.needed)} of it needed by locks"
    yield Line("gc", (freed, left), elapsed=True)
    if result.in_use:
        yield Line("note", (f"{plural(result.in_use, 'thing')} stay, which running commands use",))
    if request.max_size is not None and result.left > request.max_size:
        yield Line("note", (f"more than {max_size} is left, all of it needed by locks or in use",))


def garbage_json(request: GarbageRequest, result: GarbageResult, images: Sequence[str]) -> dict[str, Any]:
    """Return the JSON result of ``store gc``; ``images``: the engine's images of build steps that went."""
    return {
        "dry-run": request.dry_run,
        "freed": result.freed,
        "left": result.left,
        "removed": [{"kind": entry.kind, "id": entry.name, "size": entry.size} for entry in result.removed],
        "engine": list(images),
    }


def ago(when: float, now: float) -> str:
    """Describe how long ago something was, to a day; both in seconds since the epoch."""
    days = int((now - when) // DAY)
    return "today" if days <= 0 else "yesterday" if days == 1 else f"{days:,} days ago"


def _kind_rows(listing: StoreListing) -> Iterator[Row]:
    yield "", "number", "size", "needed by locks", "last use"
    now = time.time()
    for kind in KINDS:
        if some := [entry for entry in listing.entries if entry.kind == kind]:
            need = _size(entry for entry in some if entry.name in listing.needed)
            shown = "" if kind in ("notes", "indexes", "parts") else human_bytes(need)
            used = ago(max(entry.used for entry in some), now)
            yield kind, f"{len(some):,}", human_bytes(_size(some)), shown, used


def _lock_rows(listing: StoreListing) -> Iterator[Row]:
    yield "lock", "files", "", "layers", "its own", "last use"
    sizes = {entry.name: entry.size for entry in listing.entries}
    count: dict[str, int] = {}
    for root in listing.roots:
        for name in root.lock.needs:
            count[name] = count.get(name, 0) + 1
    for root in listing.roots:
        lock = root.lock
        files = [sizes[file.sha256] for file in lock.files if file.sha256 in sizes]
        made = [sizes[name] for name in lock.derived if name in sizes and name.startswith("layers/")]
        own = sum(sizes.get(name, 0) for name in lock.needs if count[name] == 1)
        state = "" if root.state == "current" else f" ({root.state})"
        amounts = (f"{len(files):,} of {len(lock.files):,}", human_bytes(sum(files)), human_bytes(sum(made)))
        yield _short(lock.path) + state, *amounts, human_bytes(own), ago(lock.used, time.time())


def _entry_rows(listing: StoreListing) -> Iterator[Row]:
    yield "thing", "name", "size", "last use", "locks"
    names, locks, now = file_names(listing.roots), locks_by_entry(listing.roots), time.time()
    for entry in sorted(listing.entries, key=lambda entry: (KINDS.index(entry.kind), -entry.size)):
        name = names.get(entry.name) or entry.name[:64]
        yield entry.kind, name, human_bytes(entry.size), ago(entry.used, now), ", ".join(locks.get(entry.name, ()))


def _table(rows: Iterable[Row], right: Sequence[int]) -> str:
    """Return aligned columns, some of them to the right."""
    rows = [tuple(map(plain, row)) for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip() + "\n")
    return "".join(lines)


def _short(path: str) -> str:
    """Write a path below the home folder with a tilde."""
    try:
        return f"~/{Path(path).relative_to(Path.home())}"
    except (ValueError, RuntimeError):
        return path


def _entries_json(entries: Iterable[StoreEntry], roots: Sequence[Root]) -> list[Mapping[str, Any]]:
    names, locks = file_names(roots), locks_by_entry(roots)
    return [
        {
            "kind": entry.kind,
            "id": entry.name,
            "name": names.get(entry.name, ""),
            "size": entry.size,
            "used": _time(entry.used),
            "locks": locks.get(entry.name, []),
        }
        for entry in entries
    ]


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(int(seconds), timezone.utc).isoformat().replace("+00:00", "Z")


def _size(entries: Iterable[StoreEntry]) -> int:
    return sum(entry.size for entry in entries)
