"""What the locks of one spec's variants and platforms share: pins, as far as these fit each of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import msgspec

from envbuild.lockfile import model as locks
from envbuild.operations.lock_options import PYTHON, LockOptions
from envbuild.spec.model import Spec

_SHOWN = 6
"""Packages named in one sentence."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Siblings:
    """Locks of a spec's other variants and platforms: of those written before what is resolved, and of those after."""

    earlier: tuple[locks.Lock, ...] = ()
    later: tuple[locks.Lock, ...] = ()


def shared_pins(
    old: locks.Lock | None, others: Siblings, options: LockOptions, architecture: str = "amd64"
) -> tuple[locks.Lock | None, LockOptions]:
    """Return what stays as it is pinned, and what else decides.

    Pins of earlier variants and platforms hold, whatever moved them; then those of the lock that is replaced, then of
    later ones. Of another architecture only the versions of Python packages are shared: all else has other files there.
    """
    order = [*others.earlier, *(() if options.upgrade else (*([old] if old else []), *others.later))]
    if not order or order == [old]:
        return old, options
    own = [lock for lock in order if lock.os.architecture == architecture]
    first = own[0] if own else _of_no_machine(order[0], architecture)
    system = first.os
    alike = [lock for lock in own if lock.os.release == system.release and lock.os.snapshot == system.snapshot]
    owners = {package.name: lock for lock in reversed(order) for package in lock.packages}
    debs = {package.name: package for lock in reversed(alike) for package in lock.os.packages}
    pins = msgspec.structs.replace(
        first,
        packages=tuple(p for lock in order for p in lock.packages if owners[p.name] is lock),
        sources=tuple(source for lock in own for source in lock.sources if owners[source.name] is lock),
        os=msgspec.structs.replace(system, packages=tuple(debs[name] for name in sorted(debs))),
    )
    if not others.earlier:
        return pins, options
    before = [lock for lock in others.earlier if lock.os.architecture == architecture]
    held = {package.name for lock in others.earlier for package in lock.packages}
    held |= {PYTHON, *(name for lock in before for name in package_names(lock))} if before else set()
    moved = tuple(name for name in options.upgrade_packages if not is_there(name, held))
    return pins, replace(options, upgrade=False, upgrade_packages=moved)


def _of_no_machine(lock: locks.Lock, architecture: str) -> locks.Lock:
    """Return what a lock of another architecture has that is the same for all."""
    system = msgspec.structs.replace(lock.os, architecture=architecture, packages=(), suites=(), archives=())
    python = msgspec.structs.replace(lock.python, build=None)
    return msgspec.structs.replace(lock, os=system, python=python, emulators=(), build_packages=())


def own_versions(old: locks.Lock | None, others: Siblings, options: LockOptions) -> tuple[locks.PythonPackage, ...]:
    """Return the pins of a lock that earlier variants have in another version: they stay where that one does not fit.

    The resolver takes the newer one of two pins that both fit.
    """
    if old is None or options.upgrade:
        return ()
    versions = {(package.name, package.version) for lock in others.earlier for package in lock.packages}
    elsewhere = {name for name, _ in versions}
    return tuple(
        package
        for package in old.packages
        if package.name in elsewhere
        and (package.name, package.version) not in versions
        and not any(is_there(typed, (package.name,)) for typed in options.upgrade_packages)
    )


def is_there(typed: str, names: Collection[str]) -> bool:
    """Whether a package is among others, however its name was typed."""
    from packaging.utils import canonicalize_name

    return typed in names or canonicalize_name(typed) in names


def other_versions(made: locks.Lock, earlier: Sequence[locks.Lock]) -> list[str]:
    """Return a sentence for the variants and platforms of which a lock has the same packages in other versions."""
    versions = {package.name: package.version for package in made.packages}
    found: dict[tuple[str, ...], list[locks.Lock]] = {}
    for other in earlier:
        differ = tuple(
            f"{package.name} {versions[package.name]} ({package.version})"
            for package in other.packages
            if versions.get(package.name, package.version) != package.version
        )
        if differ:
            found.setdefault(differ, []).append(other)
    return [
        f"not as in {_labels(others)}: {', '.join(differ[:_SHOWN])}"
        + (f" and {len(differ) - _SHOWN} more" if len(differ) > _SHOWN else "")
        for differ, others in found.items()
    ]


def _labels(others: Sequence[locks.Lock]) -> str:
    """Return which variants or platforms locks are of."""
    if any(other.platform for other in others):
        return "; ".join(map(label, others))
    return f"variant{'s' if len(others) > 1 else ''} {', '.join(other.variant for other in others)}"


def label(part: Spec | locks.Lock) -> str:
    """Return which variant and platform something is of, for people."""
    words = (("variant", part.variant), ("platform", part.platform))
    return ", ".join(f"{kind} {name}" for kind, name in words if name)


def package_names(lock: locks.Lock | None) -> set[str]:
    """Return the names of a lock's packages, of Python and of the system."""
    return {p.name for p in lock.packages} | {p.name for p in lock.os.packages} if lock else set()
