"""Load a lock together with the spec it was made from, and refuse one that is not what the spec asks for any more."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from envbuild import __version__
from envbuild.core import types
from envbuild.core.digest import sha256_bytes, sha256_file, sha256_json
from envbuild.core.fs import atomic_write, open_regular
from envbuild.core.text import perhaps, quote
from envbuild.errors import EnvbuildError, LockError, SpecError, UsageError
from envbuild.lockfile import hardware, layout, pylock
from envbuild.lockfile import model as locks
from envbuild.lockfile.discovery import find_lock, nearest_locks
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
        UsageError: it is a spec, or there are several locks to choose from.
        LockError: there is none, it is invalid or of a layout that this envbuild cannot make, or the spec next to
            it has changed since.
    """
    found = find_lock(start or Path.cwd(), option=option) if path is None else path
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
    """Return what a lock was made from: the spec, or its variant; None if the spec has no such variant any more."""
    return next((each for each in spec.locked if each.variant == lock.variant), None)


def lock_of_variant(path: Path | None, variant: str | None, start: Path | None = None) -> Path | None:
    """Return the lock that a command is given, or the nearest one of a variant.

    Args:
        path: the lock as it was named, if it was.
        variant: the variant as it was named, if it was.
        start: where to search from, upward; the working directory by default.

    Raises:
        UsageError: both were named, no lock is of that variant, or several are.
        LockError: there is no lock.
    """
    if variant is None:
        return path
    if path is not None:
        raise UsageError(f"{path} names the lock already", "leave out either the lock or --variant")
    near = nearest_locks(start or Path.cwd())
    found = [place for place in near if _variant_of(place) == variant]
    if len(found) == 1:
        return found[0]
    names = ", ".join(place.name for place in found or near)
    if found:
        raise UsageError(f"{near[0].parent} has several locks of variant {variant}: {names}", "name the lock instead")
    known = [name for name in map(_variant_of, near) if name]
    has = f"it has {', '.join(known)}{perhaps(variant, known)}" if known else f"it has {names}"
    raise UsageError(
        f"{near[0].parent} has no lock of variant {quote(variant)}: {has}", "variants are in the spec: envbuild lock"
    )


def _variant_of(path: Path) -> str:
    """Return the variant that a lock is of; empty if of none, or if it cannot be read."""
    try:
        return _known_lock(path).variant
    except LockError:
        return ""


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
    return (
        f"{path.name} is stale\n  {spec_path.name} {has}, {wanted}",
        f"lock again: envbuild lock {spec_path.name}; then remove {path.name}",
    )
