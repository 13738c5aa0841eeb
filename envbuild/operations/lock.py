"""Lock a spec: resolve it, check a lock against its spec, accept changed input data.

Everything that is written is written whole: until the new lock is complete, the old one stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from envbuild.core.fs import atomic_write
from envbuild.core.text import perhaps, quote
from envbuild.errors import EnvbuildError, LockError, UsageError
from envbuild.lockfile import changes, layout
from envbuild.lockfile import model as locks
from envbuild.operations import inputs
from envbuild.operations.events import Events
from envbuild.operations.lock_files import (
    dockerfile_of,
    earlier_locks,
    existing_lock,
    resolution_inputs,
    stale_inputs,
)
from envbuild.operations.lock_options import LockOptions
from envbuild.operations.lock_resolve import resolve
from envbuild.operations.lock_siblings import Siblings, is_there, label, package_names
from envbuild.spec.model import Spec, load_spec
from envbuild.spec.requirement_files import requirement_lines


@dataclass(frozen=True, kw_only=True, slots=True)
class LockResult:
    """A lock that was written.

    Attributes:
        spec: what it was made from.
        path: the lock's file.
        dockerfile: the Dockerfile written with it.
        lock: its content.
        old: the lock that it replaces; None if there was none that can be read.
        changes: what differs from ``old``; empty without one.
        input_changes: how declared data differs from ``old``, one line each.
        notes: sentences that a person should read.
        included: requirements that the spec takes from files.
    """

    spec: Spec
    path: Path
    dockerfile: Path
    lock: locks.Lock
    old: locks.Lock | None
    changes: tuple[changes.Change, ...]
    input_changes: tuple[str, ...]
    notes: tuple[str, ...]
    included: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class LockCheck:
    """Whether a lock is what its spec asks for.

    Attributes:
        spec_path: the spec's file.
        path: the lock's file.
        reasons: why it is not, one line each; empty if it is.
        variant: which variant of the spec it is of; empty: the spec has none.
        platform: the same of its platform.
        error: what was wrong with the lock's file, if it could not be read.
    """

    spec_path: Path
    path: Path
    reasons: tuple[str, ...]
    variant: str = ""
    platform: str = ""
    error: LockError | None = None

    def problem(self) -> LockError | None:
        """Return what is wrong; None if the lock is what its spec asks for."""
        if self.error is not None or not self.reasons:
            return self.error
        lines = "\n".join(f"  {line}" for line in self.reasons)
        return LockError(f"{self.path.name} is stale\n{lines}", f"lock again: envbuild lock {self.spec_path}")


def require_fresh(checks: Sequence[LockCheck]) -> None:
    """Raise ``LockError`` unless all locks are what their spec asks for; it names every one that is not."""
    if problems := [problem for each in checks if (problem := each.problem())]:
        raise LockError("\n".join(problem.message for problem in problems), problems[0].hint)


@dataclass(frozen=True, kw_only=True, slots=True)
class InputsUpdate:
    """A lock with the digests of its declared data as it is now.

    Attributes:
        path: the lock's file.
        lock: its content.
        old: its content before.
        input_changes: how declared data differs, one line each.
    """

    path: Path
    lock: locks.Lock
    old: locks.Lock
    input_changes: tuple[str, ...]


def lock(path: Path, options: LockOptions, events: Events) -> tuple[LockResult, ...]:
    """Resolve a spec and write the lock and its Dockerfile next to it; an old lock stays whole until the new one is.

    Of a spec with variants every variant is locked, and each for every platform, in the written order: what one has,
    the next ones take too, unless they need something else. Nothing is written before all are resolved.

    Args:
        path: the spec. Pins of an earlier lock stay unless the spec or ``options`` moves them.
        options: what else decides what is locked.
        events: receives progress.

    Raises:
        SpecError: the spec, an input or a host description.
        LockError: the earlier lock cannot be read, or is of another image layout.
        ResolveError: something that the spec asks for does not exist, or parts do not fit together.
        UsageError: the lock or the Dockerfile belongs to somebody else, or there is no such variant or platform.
        EngineError: the spec has a base image, and no container engine answers.
    """
    whole = _load(path)
    chosen = _chosen(whole, path, options.variant, options.platform)
    olds = {spec.name: existing_lock(path, spec, upgrade=options.upgrade) for spec in whole.locked}
    files = {spec.name: _dockerfile(path, spec) for spec in chosen}
    for spec in chosen:
        if (old := olds[spec.name]) and not options.upgrade:
            layout.check(old.layout, spec.lock_name)
    found: list[tuple[Spec, locks.Lock, tuple[str, ...]]] = []
    known = dict(olds)
    for spec in chosen:
        made, notes = _resolve_variant(spec, path, known, options, events)
        found.append((spec, made, notes))
        known[spec.name] = made
    _write(path, [(files[spec.name], made) for spec, made, _ in found])
    names = [spec.lock_name for spec in whole.locked]
    earlier = [
        f"{name} is of {path.name} too, under its earlier name: remove it" for name in earlier_locks(path, names)
    ]
    return tuple(
        LockResult(
            spec=spec,
            path=path.parent / spec.lock_name,
            dockerfile=files[spec.name],
            lock=made,
            old=(old := olds[spec.name]),
            changes=changes.changes(old, made) if old else (),
            input_changes=inputs.input_changes(path.parent, old.inputs, made.inputs) if old else (),
            notes=(*notes, *(earlier if spec == chosen[-1] else ())),
            included=requirement_lines(path.parent, spec.requirement_files, path.name),
        )
        for spec, made, notes in found
    )


def check(path: Path, resolver: str = "uv", variant: str = "", platform: str = "") -> tuple[LockCheck, ...]:
    """Compare the locks and Dockerfiles next to a spec with what the spec asks for; requests no index.

    Args:
        path: the spec.
        resolver: as in ``LockOptions``.
        variant, platform: as in ``LockOptions``.

    Raises:
        SpecError: the spec.
        UsageError: there is no such variant or platform.
    """
    return tuple(_check(spec, path, resolver) for spec in _chosen(_load(path), path, variant, platform))


def _check(spec: Spec, path: Path, resolver: str) -> LockCheck:
    from envbuild.image.dockerfile import render

    target = path.parent / spec.lock_name
    try:
        found = locks.load(target)
    except LockError as error:
        first, *rest = (line.strip() for line in error.message.splitlines())
        return replace(_unread(spec, path, target), reasons=tuple(rest or [first]), error=error)
    stale = stale_inputs(found.resolution, resolution_inputs(spec, path, resolver))
    dockerfile = _dockerfile(path, spec)
    if not stale and (not dockerfile.is_file() or dockerfile.read_bytes() != render(found).dockerfile):
        stale = [f"{dockerfile.name} is not the one of this lock"]
    return replace(_unread(spec, path, target), reasons=tuple(stale))


def _unread(spec: Spec, path: Path, target: Path) -> LockCheck:
    return LockCheck(spec_path=path, path=target, variant=spec.variant, platform=spec.platform, reasons=())


def update_inputs(path: Path, events: Events, variant: str = "", platform: str = "") -> tuple[InputsUpdate, ...]:
    """Digest declared data again and write that into the locks, which change in nothing else; requests no index.

    Args:
        path: the spec. Its ``inputs`` may name other paths than before; nothing else in it may have changed.
        events: receives progress.
        variant, platform: as in ``LockOptions``.

    Raises:
        LockError: there is no lock, or it is stale in something else than inputs.
        SpecError: the spec, or an input.
        UsageError: there is no such variant or platform.
    """
    from envbuild.inputs.digest import digest_inputs

    chosen = _chosen(_load(path), path, variant, platform)
    olds = [locks.load(path.parent / spec.lock_name) for spec in chosen]
    for spec, old in zip(chosen, olds, strict=True):
        _refuse_other_changes(spec, path, old)
    found = digest_inputs(path.parent, chosen[0].inputs, source=path.name, progress=events)  # all variants have these
    made = [
        msgspec.structs.replace(old, resolution=old.resolution | resolution_inputs(spec, path), inputs=found)
        for spec, old in zip(chosen, olds, strict=True)
    ]
    _write(path, [(_dockerfile(path, spec), lock) for spec, lock in zip(chosen, made, strict=True)])
    return tuple(
        InputsUpdate(
            path=path.parent / lock.file_name,
            lock=lock,
            old=old,
            input_changes=inputs.input_changes(path.parent, old.inputs, lock.inputs),
        )
        for lock, old in zip(made, olds, strict=True)
    )


def _load(path: Path) -> Spec:
    """Read a spec; raises ``SpecError``."""
    from envbuild.determinism import policy

    return load_spec(path, check_env=policy.forbidden)


def _chosen(spec: Spec, path: Path, variant: str, platform: str = "") -> tuple[Spec, ...]:
    """Return what to lock: the variant and platform that were named, or all; ``UsageError`` for an unknown one."""
    found = spec.locked
    if variant:
        _require_known(path, variant, tuple(spec.variants), "variant", "variants: {…}")
        found = tuple(each for each in found if each.variant == variant)
    if platform:
        known = tuple(dict.fromkeys(each.platform for each in found if each.platform))
        _require_known(path, platform, known, "platform", "platforms: […]")
        found = tuple(each for each in found if each.platform == platform)
    return found


def _require_known(path: Path, name: str, known: Sequence[str], kind: str, way: str) -> None:
    """Raise ``UsageError`` for a variant or platform that the spec does not have."""
    if name in known:
        return
    has = f"it has {', '.join(known)}" if known else f"it has no {kind}s"
    raise UsageError(
        f"{path.name} has no {kind} {quote(name)}: {has}{perhaps(name, known)}",
        f"leave out --{kind}, or write it into {path.name}: {way}",
    )


def _dockerfile(path: Path, spec: Spec) -> Path:
    return dockerfile_of(path, path.parent / spec.lock_name, variant=bool(spec.variant or spec.platform))


def _write(path: Path, made: Sequence[tuple[Path, locks.Lock]]) -> None:
    """Write locks next to a spec, each after its Dockerfile; all are rendered before the first is written."""
    from envbuild.image.dockerfile import render

    files = [
        (place, data)
        for dockerfile, lock in made
        for place, data in ((dockerfile, render(lock).dockerfile), (path.parent / lock.file_name, locks.dumps(lock)))
    ]
    for place, data in files:
        atomic_write(place, data)


def _resolve_variant(
    spec: Spec, path: Path, known: Mapping[str, locks.Lock | None], options: LockOptions, events: Events
) -> tuple[locks.Lock, tuple[str, ...]]:
    """Resolve a spec, or its part for a variant and a platform; a package to upgrade that only others have is left out.

    Args:
        known: the locks of the spec's variants and platforms as they are now, in the written order, by name.
    """
    old = known[spec.name]
    if not spec.variant and not spec.platform:
        return resolve(spec, path, old, options, events)
    names = [*known]
    place = names.index(spec.name)
    before, after = ([lock for name in some if (lock := known[name])] for some in (names[:place], names[place + 1 :]))
    elsewhere = {name for lock in (*before, *after) for name in package_names(lock)} - package_names(old)
    moved = tuple(name for name in options.upgrade_packages if not is_there(name, elsewhere))
    others = Siblings(earlier=tuple(before), later=tuple(after))
    try:
        return resolve(spec, path, old, replace(options, upgrade_packages=moved), events, others)
    except EnvbuildError as error:
        error.message = f"{label(spec)}: {error.message}"
        raise


def _refuse_other_changes(spec: Spec, path: Path, old: locks.Lock) -> None:
    """Raise ``LockError`` unless the lock is what the spec asks for but for its inputs."""
    as_before = msgspec.structs.replace(spec, inputs=tuple(entry.path for entry in old.inputs))
    locked = {name: value for name, value in old.resolution.items() if not name.startswith("--")}
    if stale := stale_inputs(locked, resolution_inputs(as_before, path)):
        lines = "\n".join(f"  {line}" for line in stale)
        raise LockError(
            f"{old.file_name} is stale in more than its inputs\n{lines}", f"lock again: envbuild lock {path}"
        )
