"""``store ls`` and ``store verify``: what the store holds, and whether it is sound."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from envbuild.cli.console import Console
from envbuild.core.text import human_bytes, plural
from envbuild.errors import EnvbuildError, IntegrityError
from envbuild.store.inventory import KINDS, Kind, Thing, inventory, kinds_of
from envbuild.store.leases import users
from envbuild.store.objects import Store
from envbuild.store.roots import DAY, Holder, holders, needed


def list_store(console: Console, *, things: bool) -> None:
    """Print what the store holds."""
    store = Store()
    found = holders(store)
    held = inventory(store, kinds_of(found))
    wanted = needed(found, 0.0)
    if console.as_json:
        console.result(_as_json(store, held, found, wanted))
        return
    console.line("store", str(store.root), f"{human_bytes(sum(thing.size for thing in held))}")
    if running := users(store.root):
        console.line("in use", f"by {plural(len(running), 'command')}: process {', '.join(map(str, running))}")
    _print_kinds(held, wanted)
    _print_locks(found, held)
    if things:
        _print_things(held, found)


def verify_store(console: Console, *, offline: bool) -> None:
    """Read all of the store; name, remove and replace what is damaged.

    Raises:
        IntegrityError: damaged files that a lock needs were not brought in again.
    """
    from envbuild.image.layer_cache import is_sound
    from envbuild.store.fsck import check, checkable

    store = Store()
    found = holders(store)
    held = [thing for thing in inventory(store, kinds_of(found)) if checkable(thing)]
    size = sum(thing.size for thing in held)
    began = time.monotonic()
    with console.phase("verify", size) as advance:
        damaged = check(store, held, is_sound, advance)
    seconds = max(time.monotonic() - began, 1e-3)
    objects = sum("/" not in thing.name for thing in held)
    rate = f"{human_bytes(int(size / seconds))}/s"
    console.line("verify", plural(objects, "file"), f"{len(held) - objects:,} layers and the like", human_bytes(size),
                 rate, elapsed=True)  # fmt: skip
    for thing in damaged:
        console.line("damaged", _title(thing, found), "removed")
    lost = _restore(store, damaged, found, console, offline=offline)
    console.result(
        {
            "checked": len(held),
            "bytes": size,
            "damaged": [_describe(thing, found) for thing in damaged],
            "missing": sorted(lost),
        }
    )
    if lost:
        lines = "".join(f"\n  {name}: {reason}" for name, reason in sorted(lost.items()))
        raise IntegrityError(
            f"{plural(len(lost), 'file')} in the store {store.root} had other bytes than locked; removed{lines}",
            "bring them in again: envbuild fetch",
        )


def _restore(
    store: Store, damaged: Sequence[Thing], found: Sequence[Holder], console: Console, *, offline: bool
) -> dict[str, str]:
    """Bring damaged files in again where a lock needs them; returns names of those it could not, with reasons."""
    from envbuild.operations.fetch import fetch_some
    from envbuild.operations.load_lock import load_lock

    objects = {thing.name for thing in damaged if "/" not in thing.name}
    names = {file.sha256: file.name for holder in found for file in holder.entry.files if file.sha256 in objects}
    made = len(damaged) - len(objects)
    if made:
        console.line("note", f"{plural(made, 'layer')} and the like: the next build that needs them makes them again")
    if objects - names.keys():
        console.line("note", f"{plural(len(objects - names.keys()), 'file')}: no known lock needs them")
    reasons = dict.fromkeys(names, "not fetched, as asked")
    for holder in () if offline else found:
        wanted = {file.sha256 for file in holder.entry.files if file.sha256 in reasons}
        if not wanted or holder.state == "gone":
            continue
        try:
            fetch_some(load_lock(holder.entry.place), store, wanted, console)
        except EnvbuildError as error:
            reasons |= dict.fromkeys(wanted, " ".join(error.message.split()))
        reasons = {sha256: reason for sha256, reason in reasons.items() if not store.has(sha256)}
    lost = {sha256: reason for sha256, reason in reasons.items() if not store.has(sha256)}
    return {names[sha256]: _reason(reason, offline) for sha256, reason in lost.items()}


def _reason(reason: str, offline: bool) -> str:
    gone = "the locks that name it are gone"
    return reason if offline or reason != "not fetched, as asked" else gone


def _print_kinds(held: Sequence[Thing], wanted: frozenset[str]) -> None:
    rows = [("", "number", "size", "needed by locks", "last use")]
    now = time.time()
    for kind in KINDS:
        if some := [thing for thing in held if thing.kind == kind]:
            size, need = _size(some), _size(thing for thing in some if thing.name in wanted)
            shown = "" if kind in ("notes", "indexes", "parts") else human_bytes(need)
            rows.append((kind, f"{len(some):,}", human_bytes(size), shown, ago(max(t.used for t in some), now)))
    _print_table(rows, (1, 2, 3))


def _print_locks(found: Sequence[Holder], held: Sequence[Thing]) -> None:
    if not found:
        return
    sizes = {thing.name: thing.size for thing in held}
    count: dict[str, int] = {}
    for holder in found:
        for name in holder.entry.needs:
            count[name] = count.get(name, 0) + 1
    rows = [("lock", "files", "", "layers", "its own", "last use")]
    for holder in found:
        entry = holder.entry
        files = [sizes[file.sha256] for file in entry.files if file.sha256 in sizes]
        made = [sizes[name] for name in entry.derived if name in sizes and name.startswith("layers/")]
        own = sum(sizes.get(name, 0) for name in entry.needs if count[name] == 1)
        said = "" if holder.state == "current" else f" ({holder.state})"
        amounts = (f"{len(files):,} of {len(entry.files):,}", human_bytes(sum(files)), human_bytes(sum(made)))
        rows.append((_short(entry.path) + said, *amounts, human_bytes(own), ago(entry.used, time.time())))
    print()
    _print_table(rows, (1, 2, 3, 4))


def _print_things(held: Sequence[Thing], found: Sequence[Holder]) -> None:
    locks = _locks_by_thing(found)
    now = time.time()
    names = {file.sha256: file.name for holder in found for file in holder.entry.files}
    rows = [("thing", "name", "size", "last use", "locks")]
    for thing in sorted(held, key=lambda thing: (KINDS.index(thing.kind), -thing.size)):
        used_by = ", ".join(locks.get(thing.name, ()))
        name = names.get(thing.name) or f"{thing.name[:64]}"
        rows.append((thing.kind, name, human_bytes(thing.size), ago(thing.used, now), used_by))
    print()
    _print_table(rows, (2,))


def _print_table(rows: Sequence[tuple[str, ...]], right: Sequence[int]) -> None:
    """Print aligned columns, some of them to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())


def ago(when: float, now: float) -> str:
    """Say how long ago something was, to a day."""
    days = int((now - when) // DAY)
    return "today" if days <= 0 else "yesterday" if days == 1 else f"{days:,} days ago"


def _short(path: str) -> str:
    """Write a path below the home folder with a tilde."""
    try:
        return f"~/{Path(path).relative_to(Path.home())}"
    except (ValueError, RuntimeError):
        return path


def _title(thing: Thing, found: Sequence[Holder]) -> str:
    """Name a thing for people, with the locks that need it."""
    names = {file.sha256: file.name for holder in found for file in holder.entry.files}
    locks = ", ".join(_locks_by_thing(found).get(thing.name, ()))
    title = names.get(thing.name) or f"{thing.kind}: {thing.name}"
    return f"{title}  ({locks or 'no known lock'})"


def _locks_by_thing(found: Iterable[Holder]) -> Mapping[str, Sequence[str]]:
    locks: dict[str, list[str]] = {}
    for holder in found:
        for name in holder.entry.needs:
            if holder.entry.name not in (known := locks.setdefault(name, [])):
                known.append(holder.entry.name)
    return locks


def _describe(thing: Thing, found: Sequence[Holder]) -> dict[str, Any]:
    names = {file.sha256: file.name for holder in found for file in holder.entry.files}
    return _thing_json(names, _locks_by_thing(found))(thing)


def _thing_json(names: Mapping[str, str], locks: Mapping[str, Sequence[str]]) -> Callable[[Thing], dict[str, Any]]:
    return lambda thing: {
        "kind": thing.kind,
        "id": thing.name,
        "name": names.get(thing.name, ""),
        "size": thing.size,
        "used": _time(thing.used),
        "locks": list(locks.get(thing.name, ())),
    }


def _as_json(store: Store, held: Sequence[Thing], found: Sequence[Holder], wanted: frozenset[str]) -> dict[str, Any]:
    names = {file.sha256: file.name for holder in found for file in holder.entry.files}
    kinds: dict[Kind, dict[str, int]] = {}
    for kind in KINDS:
        some = [thing for thing in held if thing.kind == kind]
        need = _size(thing for thing in some if thing.name in wanted)
        kinds[kind] = {"number": len(some), "size": _size(some), "needed": need}
    return {
        "store": str(store.root),
        "size": _size(held),
        "processes": users(store.root),
        "kinds": kinds,
        "locks": [
            {
                "path": holder.entry.path,
                "name": holder.entry.name,
                "state": holder.state,
                "used": _time(holder.entry.used),
                "files": len(holder.entry.files),
            }
            for holder in found
        ],
        "things": list(map(_thing_json(names, _locks_by_thing(found)), held)),
    }


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(int(seconds), timezone.utc).isoformat().replace("+00:00", "Z")


def _size(things: Iterable[Thing]) -> int:
    return sum(thing.size for thing in things)
