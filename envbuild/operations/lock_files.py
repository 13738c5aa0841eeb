"""The files next to a spec: which lock and which Dockerfile belong to it, and whether the lock is what it asks for.

A lock names the files it was made from by the SHA-256 of their bytes, but its spec by the digest of what the spec
means. Reading YAML takes 40 ms, a digest none: ``fresh.json`` in the project's state folder stores which bytes meant
what. Where it is absent, or written by another version of envbuild, the spec is read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from envbuild import __version__
from envbuild.core import quick_json
from envbuild.core.digest import sha256_file, sha256_json
from envbuild.core.foreign_json import parse_json
from envbuild.core.fs import atomic_file, folder_below, read_regular
from envbuild.core.patterns import lazy
from envbuild.errors import LockError, ResolveError, SpecError, UsageError
from envbuild.lockfile import model as locks
from envbuild.lockfile.discovery import STATE_FOLDER, locks_in
from envbuild.lockfile.model import Lock
from envbuild.operations.projects import ALL_FILES, DEFINITION, input_digest, input_name

if TYPE_CHECKING:
    from envbuild.spec.model import Spec
    from envbuild.spec.places import Place

_HEAD = lazy(rb"# Written by envbuild from (pylock\.[a-z0-9_-]{1,64}\.toml);")
_MEMORY = "fresh.json"
_LARGEST_MEMORY = 1 << 16
_WHEELS = "/*.whl"
"""What a folder of wheels is called among a lock's inputs, after its name."""


def existing_lock(path: Path, spec: Spec, *, upgrade: bool) -> locks.Lock | None:
    """Load the lock that is about to be replaced; None if there is none.

    Args:
        path: the spec's file.
        upgrade: every pin is to move anyway, so that a lock that cannot be read counts as none.

    Raises:
        LockError: it cannot be read: to resolve without it would move every pin unnoticed.
        UsageError: it is the lock of another spec of that name.
    """
    target = path.parent / spec.lock_name
    if not target.exists():
        return None
    try:
        old = locks.load(target)
    except LockError as error:
        if upgrade:
            return None
        way = error.hint.replace("envbuild lock --upgrade", f"envbuild lock --upgrade {path}")
        raise LockError(f"{error.message}\n  it is not replaced, since all its pins would be lost", way) from None
    others = [name for name in old.resolution if name != path.name and name.endswith((".yaml", ".yml"))]
    if path.name not in old.resolution and (other := next((x for x in others if _is_named(path, x, spec)), "")):
        raise UsageError(
            f"{target.name} is the lock of {other}, which is named {spec.name} too",
            "give one of them another name, or remove the one that is not needed",
        )
    return old


def earlier_locks(path: Path, targets: Collection[str]) -> list[str]:
    """Return the names of further locks that were made from this spec, under names that it had before.

    Args:
        path: the spec.
        targets: the names of its locks.
    """
    found = []
    for place in locks_in(path.parent).values():
        try:
            if place.name not in targets and path.name in locks.load(place).resolution:
                found.append(place.name)
        except LockError:
            continue
    return sorted(found)


def dockerfile_of(path: Path, target: Path, *, variant: bool = False) -> Path:
    """Return a lock's Dockerfile: ``Dockerfile``, unless that is another lock's or a person's, or it is of a variant.

    Then it is ``Dockerfile.NAME``, and stays there. The first line of each names its lock.

    Raises:
        UsageError: no such file may be replaced, since none was written by ``envbuild lock``.
    """
    shared = path.parent / "Dockerfile"
    own = path.parent / f"Dockerfile.{target.name.removeprefix('pylock.').removesuffix('.toml')}"
    owner = _owner(shared)
    if _owner(own) == target.name:
        return own
    if variant:
        if own.exists() and not _owner(own):
            raise UsageError(f"{own} is not of envbuild: it is not replaced", "move it")
        return own
    if not shared.exists() or owner == target.name:
        return shared
    if owner and (not (path.parent / owner).exists() or owner in earlier_locks(path, (target.name,))):
        return shared
    if own.exists() and not _owner(own):
        raise UsageError(f"{shared} and {own.name} are not of envbuild: neither is replaced", "move one of them")
    return own


def resolution_inputs(spec: Spec, path: Path, resolver: str = "uv") -> dict[str, str]:
    """Return the SHA-256 of everything the resolution depends on that is stored next to the lock, by name.

    Args:
        spec: the spec.
        path: its file.
        resolver: what resolves the Python part.
    """
    from envbuild.spec.model import spec_digest
    from envbuild.spec.requirement_files import PROJECT, included, project_lines

    inputs = {path.name: spec_digest(spec)}
    for name in included(path.parent, spec.requirement_files, path.name):
        inputs[name] = sha256_file(path.parent / name)
    if spec.extras or spec.groups:
        project_lines(path.parent, spec.extras, spec.groups, path.name)  # refused before a resolver reads it
        inputs[PROJECT] = sha256_file(path.parent / PROJECT)
    for archive in spec.os.archives:
        inputs[archive.key] = sha256_file(path.parent / archive.key)
    for name in spec.wheels:
        inputs[f"{name}{_WHEELS}"] = _wheels_digest(path.parent / name)
    for place in all_places(spec, path):
        if place.path:
            inputs[input_name(place)] = _project_digest(path.parent, input_name(place))
    if resolver != "uv":
        inputs["--resolver"] = sha256_json(resolver)
    return inputs


def all_places(spec: Spec, path: Path) -> tuple[Place, ...]:
    """Return the projects that a spec and its requirements files name; raises ``SpecError``."""
    from envbuild.spec.requirement_files import places_in

    return tuple(dict.fromkeys((*spec.projects, *places_in(path.parent, spec.requirement_files, path.name))))


def stale_inputs(locked: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """Name each input of the resolution that is not as it was locked."""
    lines = [f"{name} changed" for name in found if name in locked and locked[name] != found[name]]
    new, gone = ([name for name in one if name not in other] for one, other in ((found, locked), (locked, found)))
    here, there = ([name for name in names if name.endswith((".yaml", ".yml"))] for names in (new, gone))
    if here and there:
        lines.append(f"locked from {there[0]}, not from {here[0]}")
        new.remove(here[0])
        gone.remove(there[0])
    return [*lines, *(f"{name} is new" for name in new), *(f"{name} is gone" for name in gone)]


def known_fresh(spec: Path, lock: Lock) -> bool:
    """Whether a lock is known to be what a spec and its files ask for; False also if that is yet to be found out."""
    try:
        with folder_below(spec.parent, STATE_FOLDER) as folder:
            remembered = parse_json(read_regular(folder / _MEMORY, _LARGEST_MEMORY, follow=False))
        if remembered["envbuild"] != __version__ or remembered["sha256"] != sha256_file(spec):
            return False
        known = {spec.name: remembered["meaning"]}
        for name, locked in lock.resolution.items():
            # What the command line chose is in the lock only.
            if not name.startswith("--") and locked != (known.get(name) or _digest(spec.parent, name)):
                return False
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False
    return True


def remember_fresh(spec: Path, sha256: str, lock: Lock) -> None:
    """Remember that the spec with these bytes means what the lock was made from.

    Only where runs are recorded already: a build alone leaves no folder in the project.
    """
    known = {"envbuild": __version__, "meaning": lock.resolution[spec.name], "sha256": sha256}
    with (
        suppress(OSError),
        folder_below(spec.parent, STATE_FOLDER) as folder,
        atomic_file(folder / _MEMORY, hand_over=True) as stream,
    ):
        stream.write(quick_json.dumps(known).encode())


def _is_named(path: Path, other: str, spec: Spec) -> bool:
    """Whether another spec of this folder is there and has this spec's name; one that cannot be read may have it."""
    from envbuild.spec.model import load_spec

    try:
        found = path.parent / other
        return found.is_file() and spec.name in {each.name for each in load_spec(found).locked}
    except SpecError:
        return True


def _owner(path: Path) -> str:
    """Return the name of the lock that a Dockerfile was written from; empty if it is absent or another's."""
    try:
        with path.open("rb") as stream:
            match = _HEAD.match(stream.readline(200))
    except OSError:
        return ""
    return match[1].decode() if match else ""


def _digest(folder: Path, name: str) -> str:
    """Digest an input of a resolution as ``envbuild lock`` does, by the name it has there."""
    if name.endswith(_WHEELS):
        return _wheels_digest(folder / name.removesuffix(_WHEELS))
    if name.endswith((ALL_FILES, DEFINITION)):
        return _project_digest(folder, name)
    return sha256_file(folder / name)


def _project_digest(folder: Path, name: str) -> str:
    """Return the digest of a project's files; another one where it is no project any more."""
    try:
        return input_digest(folder, name)
    except ResolveError:
        return sha256_json(None)


def _wheels_digest(folder: Path) -> str:
    """Return the digest of the names and bytes of the wheels in a folder."""
    return sha256_json([[wheel.name, sha256_file(wheel)] for wheel in sorted(folder.glob("*.whl"))])
