"""Load a lock together with the spec it was made from, and refuse one that is not what the spec asks for any more."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from envbuild import __version__
from envbuild.core import types
from envbuild.core.digest import sha256_bytes, sha256_file, sha256_json
from envbuild.core.fs import atomic_write, open_regular
from envbuild.core.platforms import architecture_of, own_machine
from envbuild.core.text import perhaps, quote
from envbuild.errors import EnvbuildError, LockError, SpecError, UsageError
from envbuild.lockfile import hardware, layout, pylock
from envbuild.lockfile import model as locks
from envbuild.lockfile.discovery import find_lock, locks_in, nearest_locks
from envbuild.operations.lock_files import known_fresh, remember_fresh, resolution_inputs, stale_inputs
from envbuild.store.objects import Store

if TYPE_CHECKING:
    from envbuild.spec.model import Spec


class LoadedLock(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A lock that may be used.

    Attributes:
        path: its file.
        lock: its content.
        spec_path: the spec next to it, or None where only the lock is, as in a CI job.
    """

    path: Path
    lock: locks.Lock
    spec_path: Path | None = None

    @cached_property
    def spec(self) -> Spec | None:
        """The spec; read when it is first used."""
        from envbuild.spec.model import load_spec

        return spec_of(load_spec(self.spec_path), self.lock) if self.spec_path else None

    @property
    def folder(self) -> Path:
        """The folder that paths in the spec are relative to."""
        return self.path.parent.absolute()

    @property
    def mirror(self) -> str:
        """The spec's Debian mirror; empty if it names none."""
        return self.spec.os.mirror if self.spec else ""

    @property
    def archives(self) -> dict[str, str]:
        """The addresses of the spec's further archives, by name."""
        return {archive.name: archive.url for archive in self.spec.os.archives} if self.spec else {}


def load_lock(path: Path | None, start: Path | None = None, *, option: bool = False) -> LoadedLock:
    """Load a lock: the named one, or the one found upward.

    Args:
        path: the lock's file, or None to search.
        start: where to search from; the working directory by default.
        option: the command takes a lock as ``--lock FILE``, not as an argument.

    Raises:
        UsageError: it is a spec, or there are several locks to choose from; of locks of one spec for several platforms
            that of this machine is taken.
        LockError: there is none, it is invalid or of a layout that this envbuild cannot make, or the spec next to
            it has changed since.
    """
    found = find_lock(start or Path.cwd(), option=option, prefer=of_this_machine) if path is None else path
    if found.suffix in (".yaml", ".yml") and found.is_file():
        raise _is_a_spec(found)
    lock = _known_lock(found)
    layout.check(lock.layout, lock.file_name)
    specs = [found.parent / name for name in lock.resolution if name.endswith((".yaml", ".yml"))]
    spec_path = next((place for place in specs if place.is_file()), None)
    if spec_path is not None and not known_fresh(spec_path, lock):
        sha256 = sha256_file(spec_path)
        _refuse_stale(found, lock, spec_path)
        remember_fresh(spec_path, sha256, lock)
    return LoadedLock(path=found, lock=lock, spec_path=spec_path)


def spec_of(spec: Spec, lock: locks.Lock) -> Spec | None:
    """Return what a lock was made from: the spec, or its part for a variant and a platform; None if it has no such."""
    wanted = (lock.variant, lock.platform)
    return next((each for each in spec.locked if (each.variant, each.platform) == wanted), None)


def lock_of_variant(
    path: Path | None, variant: str | None, start: Path | None = None, *, platform: str | None = None
) -> Path | None:
    """Return the lock that a command is given, or the nearest one of a variant and a platform.

    Args:
        path: the lock as it was named, if it was.
        variant: the variant as it was named, if it was.
        start: where to search from, upward; the working directory by default.
        platform: the platform as it was named, if it was; else this machine's, where there are several.

    Raises:
        UsageError: the lock and another of them were named, no lock is of that variant or platform, or several are.
        LockError: there is no lock.
    """
    if variant is None and platform is None:
        return path
    if path is not None:
        option = "--platform" if variant is None else "--variant"
        raise UsageError(f"{path} names the lock already", f"leave out either the lock or {option}")
    near = nearest_locks(start or Path.cwd())
    known = {place: lock for place in near if (lock := _readable(place)) is not None}
    if variant is not None:
        near = _chosen(near, {place: lock.variant for place, lock in known.items()}, "variant", variant)
    if platform is not None:
        near = _chosen(near, {place: lock.os.architecture for place, lock in known.items()}, "platform", platform)
    if len(near) == 1:
        return near[0]
    if platform is None and (own := of_this_machine(near)):
        return own
    words = [f"variant {variant}"] * (variant is not None) + [f"platform {platform}"] * (platform is not None)
    names = ", ".join(place.name for place in near)
    raise UsageError(f"{near[0].parent} has several locks of {', '.join(words)}: {names}", "name the lock instead")


def _chosen(near: Sequence[Path], values: Mapping[Path, str], kind: str, wanted: str) -> tuple[Path, ...]:
    """Return the locks that have a value; raises ``UsageError`` if none has."""
    found = tuple(place for place in near if values.get(place) == wanted)
    if found:
        return found
    known = [*dict.fromkeys(name for place in near if (name := values.get(place)))]
    has = f"it has {', '.join(known or [place.name for place in near])}{perhaps(wanted, known)}"
    way = "variants are in the spec" if kind == "variant" else "platforms are in the spec"
    raise UsageError(f"{near[0].parent} has no lock of {kind} {quote(wanted)}: {has}", f"{way}: envbuild lock")


def locks_of_platforms(path: Path | None, start: Path | None = None) -> tuple[Path, ...]:
    """Return a lock with those of the same spec and variant for its other platforms, by platform; alone if it has none.

    Args:
        path: the lock; None: the one found upward.
        start: where to search from.

    Raises:
        UsageError, LockError: as ``load_lock``.
    """
    found = find_lock(start or Path.cwd(), prefer=of_this_machine) if path is None else path
    lock = _readable(found)
    if lock is None or not lock.platform:
        return (found,)
    alike = {
        other.platform: place
        for place in locks_in(found.parent).values()
        if (other := _readable(place)) and other.platform and _whose(other) == _whose(lock)
    }
    alike[lock.platform] = found
    return tuple(alike[platform] for platform in sorted(alike))


def platforms_meant(lock: Path | None, variant: str | None, platform: str | None) -> tuple[Path | None, ...]:
    """Return the lock that was named, by file or by platform; else those of all platforms of its spec and variant.

    Args:
        lock, variant, platform: as they were typed.

    Raises:
        UsageError, LockError: as ``lock_of_variant``.
    """
    named = lock_of_variant(lock, variant, platform=platform)
    return (named,) if lock is not None or platform is not None else locks_of_platforms(named)


def of_this_machine(paths: Sequence[Path]) -> Path | None:
    """Return the lock for this machine among those of one spec and variant for several platforms; else None."""
    own = architecture_of(own_machine())
    known = {place: lock for place in paths if (lock := _readable(place)) is not None}
    if len(known) != len(paths) or len({_whose(lock) for lock in known.values()}) != 1:
        return None
    if not all(lock.platform for lock in known.values()):
        return None
    return next((place for place, lock in known.items() if lock.platform == own), None)


def _whose(lock: locks.Lock) -> tuple[str, str]:
    return lock.base_name, lock.variant


def _readable(path: Path) -> locks.Lock | None:
    """Return a lock; None if it cannot be read."""
    try:
        return _known_lock(path)
    except LockError:
        return None


def _known_lock(path: Path) -> locks.Lock:
    """Read a lock; one whose very bytes this user's envbuild has read before is not parsed and compared again.

    What was read is kept in the store, by the SHA-256 of the lock's bytes and of the code that checks them.

    Raises:
        LockError: as ``locks.load``.
    """
    data = locks.read(path)
    note = _note_of(data)
    kept = _own_file(note) if note is not None else b""
    if kept[:_DIGITS] == sha256_bytes(kept[_DIGITS:]).encode():
        with suppress(msgspec.MsgspecError):
            return locks.decoded(kept[_DIGITS:])
    lock = locks.loads(data, path.name)
    if note is not None:
        made = locks.encoded(lock)
        with suppress(OSError):
            atomic_write(note, sha256_bytes(made).encode() + made, sync=False)
    return lock


def _note_of(data: bytes) -> Path | None:
    """Return where a lock of these bytes is kept; None where there is no store: who needs one reports that."""
    code = [(each.st_size, each.st_mtime_ns) for each in (Path(str(module.__file__)).stat() for module in _CHECKED_BY)]
    with suppress(OSError, EnvbuildError):
        store = Store()
        if not store.root.is_dir():  # a command that ends with the lock makes none
            return None
        return store.cache_dir("locks") / f"{sha256_json([__version__, code, sha256_bytes(data)])}.json"
    return None


_DIGITS = 64
_CHECKED_BY = (locks, pylock, hardware, types, layout)
"""Modules that decide whether a lock is valid, and what it means."""


def _own_file(path: Path) -> bytes:
    """Return what a file of this user holds; nothing if there is none: in a shared store others write too."""
    try:
        with open_regular(path, follow=False) as stream:
            return stream.read() if os.fstat(stream.fileno()).st_uid == os.geteuid() else b""
    except OSError:
        return b""


def _is_a_spec(path: Path) -> UsageError:
    """Return the error for a spec that was named where a lock is wanted, with the lock that belongs to it."""
    from envbuild.spec.model import load_spec

    try:
        made = [path.with_name(each.lock_name) for each in load_spec(path).locked]
    except SpecError:
        return UsageError(f"{path} is no lock", "a lock is a pylock.NAME.toml: envbuild lock writes it")
    lock, *others = made
    way = f"name that: {lock}" if lock.is_file() else f"lock it first: envbuild lock {path}"
    if not others:
        return UsageError(f"{path} is a spec; its lock is {lock.name}", way)
    return UsageError(
        f"{path} is a spec; its locks are {', '.join(each.name for each in made)}", way.replace("name that", "name one")
    )


def _refuse_stale(path: Path, lock: locks.Lock, spec_path: Path) -> None:
    """Raise ``LockError`` if a lock was made from another spec than the one next to it."""
    from envbuild.spec.model import load_spec

    try:
        spec = load_spec(spec_path)
        meant = spec_of(spec, lock)
        found = resolution_inputs(meant, spec_path) if meant else {}
    except SpecError as error:
        raise LockError(f"{path.name} cannot be compared with its spec\n{error.message}", error.hint) from None
    if meant is None:
        raise LockError(*_no_such_variant(path, lock, spec, spec_path))
    locked = {name: value for name, value in lock.resolution.items() if not name.startswith("--")}
    if stale := stale_inputs(locked, found):
        lines = "\n".join(f"  {line}" for line in stale)
        raise LockError(f"{path.name} is stale\n{lines}", f"lock again: envbuild lock {spec_path.name}")


def _no_such_variant(path: Path, lock: locks.Lock, spec: Spec, spec_path: Path) -> tuple[str, str]:
    """Return message and hint for a lock whose spec has no such variant any more, or variants only."""
    has = f"has the variants {', '.join(spec.variants)}" if spec.variants else "has no variants"
    wanted = f"no variant {lock.variant}" if lock.variant else "nothing without a variant"
    if any(each.variant == lock.variant for each in spec.locked):
        platforms = [each.platform for each in spec.locked if each.platform and each.variant == lock.variant]
        has = f"has the platforms {', '.join(platforms)}" if platforms else "has no platforms"
        wanted = f"not {lock.platform}" if lock.platform else "nothing without a platform"
    return (
        f"{path.name} is stale\n  {spec_path.name} {has}, {wanted}",
        f"lock again: envbuild lock {spec_path.name}; then remove {path.name}",
    )
