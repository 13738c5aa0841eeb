"""``store gc``: what no lock needs goes."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envbuild.cli.console import Console
from envbuild.core.text import human_bytes, plural
from envbuild.errors import UsageError
from envbuild.lockfile import model as locks
from envbuild.store.gc import Rules, chosen, collect, forget_locks, sweep
from envbuild.store.inventory import KINDS, Thing, inventory, kinds_of
from envbuild.store.leases import collecting
from envbuild.store.objects import Store
from envbuild.store.roots import DAY, entry_of, holders, needed

_AGES = {"": DAY, "m": 60, "h": 3600, "d": DAY, "w": 7 * DAY}
_SIZES = {"": 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


@dataclass(frozen=True, kw_only=True, slots=True)
class Wishes:
    """Options of ``store gc`` as typed."""

    older_than: str = "30d"
    max_size: str = ""
    keep: tuple[Path, ...] = ()
    dry_run: bool = False
    engine: bool = False


def collect_garbage(wishes: Wishes, console: Console) -> None:
    """Remove what no lock needs and nobody has used for long; say what went.

    Raises:
        UsageError: an age or a size cannot be read.
        LockError: a lock to keep is invalid.
        IntegrityError: the store cannot be written.
    """
    age, largest = parse_age(wishes.older_than), parse_size(wishes.max_size) if wishes.max_size else None
    store, now = Store(), time.time()
    found = holders(store)
    kept = [entry_of(path, locks.load(path)).needs for path in wishes.keep]
    held = inventory(store, kinds_of(found))
    rules = Rules(needed=needed(found, now - age).union(*kept), oldest=now - age, now=now, largest=largest)
    going = chosen(held, rules)
    if wishes.dry_run:
        gone = [] if not going else _unused(store, going)
        halves = 0
    else:
        with console.phase("gc", sum(thing.size for thing in going)) as advance:
            gone = collect(store, going, advance) if going else []
        forgotten = forget_locks(found, now - age)
        console.detail(f"{plural(len(forgotten), 'lock')} forgotten, whose files are gone")
        halves = sweep(store, now)
    _report(held, going, gone, halves, rules, wishes, console)
    removed = _sweep_engine(wishes, console)
    console.result(_as_json(held, gone, halves, wishes) | {"engine": removed})


def parse_age(text: str) -> float:
    """Read an age such as ``30d``, ``12h`` or ``0`` as seconds; a number alone means days."""
    match = re.fullmatch(r"([0-9]{1,6})([mhdw]?)", text)
    if not match:
        raise UsageError(f"--older-than {text}: expected an age", "e.g. --older-than 30d, 12h, 8w, or 0")
    return float(int(match[1]) * _AGES[match[2]])


def parse_size(text: str) -> int:
    """Read a size such as ``50GB`` as bytes."""
    match = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,3})?) ?(B|kB|MB|GB|TB|)", text)
    if not match:
        raise UsageError(f"--max-size {text}: expected a size", "e.g. --max-size 50GB, with B, kB, MB, GB or TB")
    return int(float(match[1]) * _SIZES[match[2]])


def _unused(store: Store, going: Sequence[Thing]) -> list[Thing]:
    """Leave out what running commands use."""
    if not store.root.is_dir():
        return []
    with collecting(store.root) as used:
        return [thing for thing in going if thing.name not in used]


def _report(
    held: Sequence[Thing],
    going: Sequence[Thing],
    gone: Sequence[Thing],
    halves: int,
    rules: Rules,
    wishes: Wishes,
    console: Console,
) -> None:
    verb = "would go" if wishes.dry_run else "removed"
    for kind in KINDS:
        if some := [thing for thing in gone if thing.kind == kind]:
            console.line(verb if kind == _first(gone) else "", f"{len(some):>6,} {kind:<14}", _bytes(some))
    if halves:
        console.line("", f"{'':>6} {'half-made':<14}", f"{human_bytes(halves):>8}")
    for thing in gone:
        console.detail(f"{thing.kind}  {thing.name}  {human_bytes(thing.size)}")
    left = sum(thing.size for thing in held) - sum(thing.size for thing in gone)
    need = sum(thing.size for thing in held if thing.name in rules.needed)
    freed = sum(thing.size for thing in gone) + halves
    said = f"{human_bytes(left)} left, {human_bytes(need)} of it needed by locks"
    console.line("gc", f"{human_bytes(freed)} {'to free' if wishes.dry_run else 'freed'}", said, elapsed=True)
    if len(gone) < len(going):
        console.line("note", f"{plural(len(going) - len(gone), 'thing')} stay, which running commands use")
    if rules.largest is not None and left > rules.largest:
        console.line("note", f"more than {wishes.max_size} is left, all of it needed by locks or in use")


def _first(gone: Sequence[Thing]) -> str:
    return next(kind for kind in KINDS if any(thing.kind == kind for thing in gone))


def _bytes(things: Sequence[Thing]) -> str:
    return f"{human_bytes(sum(thing.size for thing in things)):>8}"


def _sweep_engine(wishes: Wishes, console: Console) -> list[str]:
    """Remove the engine's images of build steps, if asked for."""
    if not wishes.engine:
        return []
    from envbuild.engine.docker.adapter import connect

    removed = connect().remove_steps(dry_run=wishes.dry_run)
    verb = "to remove" if wishes.dry_run else "removed"
    console.line("engine", f"{plural(len(removed), 'image')} of build steps {verb}")
    return removed


def _as_json(held: Sequence[Thing], gone: Sequence[Thing], halves: int, wishes: Wishes) -> dict[str, Any]:
    return {
        "dry-run": wishes.dry_run,
        "freed": sum(thing.size for thing in gone) + halves,
        "left": sum(thing.size for thing in held) - sum(thing.size for thing in gone),
        "removed": [{"kind": thing.kind, "id": thing.name, "size": thing.size} for thing in gone],
    }
