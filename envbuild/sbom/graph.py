"""Which locked package needs which: Requires-Dist and Depends, as far as available files state it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement

from envbuild.lockfile.model import Lock, OsPackage
from envbuild.sbom.values import Evidence

_NAME = re.compile(r"[-_.]+")


def wheel_needs(lock: Lock, evidence: Mapping[str, Evidence]) -> dict[str, tuple[str, ...]]:
    """Return the locked packages that each wheel needs in this environment, by name; unknown ones are absent.

    An extra counts once another wheel asks for it; those that the spec asks for are not in a lock.
    """
    locked = {package.name: package for package in lock.packages}
    environment = _environment(lock)
    extras: dict[str, set[str]] = {name: set() for name in locked}
    known = {name: _requirements(evidence[p.wheel.sha256]) for name, p in locked.items() if p.wheel.sha256 in evidence}
    needs: dict[str, set[str]] = {name: set() for name in known}
    moved = True
    while moved:
        moved = False
        for name, requirements in known.items():
            for requirement in requirements:
                target = _NAME.sub("-", requirement.name).lower()
                if target not in locked or not _applies(requirement, environment, extras[name]):
                    continue
                asked = {_NAME.sub("-", extra).lower() for extra in requirement.extras} - extras[target]
                moved = moved or bool(asked) or target not in needs[name]
                extras[target] |= asked
                needs[name].add(target)
    return {name: tuple(sorted(found - {name})) for name, found in needs.items()}


def deb_needs(packages: Iterable[OsPackage], evidence: Mapping[str, Evidence]) -> dict[str, tuple[str, ...]]:
    """Return the locked packages (SHA-256) that each Debian package (SHA-256) depends on; unknown ones are absent.

    Of alternatives the first that is locked counts, by its own name before what it provides.
    """
    locked = sorted(packages, key=lambda item: (item.name, item.version, item.architecture))
    by_name: dict[str, str] = {}
    for package in locked:
        for name in evidence[package.sha256].provides if package.sha256 in evidence else ():
            by_name.setdefault(name, package.sha256)
    own = {package.name: package.sha256 for package in locked}
    by_name |= own
    needs = {}
    for package in locked:
        if package.sha256 not in evidence:
            continue
        found = set()
        for group in evidence[package.sha256].depends:
            choices = [own[name] for name in group if name in own] or [
                by_name[name] for name in group if name in by_name
            ]
            found.update(choices[:1])
        needs[package.sha256] = tuple(sorted(found - {package.sha256}))
    return needs


def top(refs: Iterable[str], needs: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return what nothing else needs, and the first of each circle that nothing outside it needs."""
    refs = sorted(refs)
    needed = {target for targets in needs.values() for target in targets}
    chosen = [ref for ref in refs if ref not in needed]
    reached = _reach(chosen, needs, set())
    for ref in refs:
        if ref not in reached:
            chosen.append(ref)
            reached = _reach([ref], needs, reached)
    return tuple(sorted(chosen))


def _reach(start: Iterable[str], needs: Mapping[str, tuple[str, ...]], reached: set[str]) -> set[str]:
    pending = list(start)
    while pending:
        ref = pending.pop()
        if ref not in reached:
            reached.add(ref)
            pending += needs.get(ref, ())
    return reached


def _requirements(evidence: Evidence) -> list[Requirement]:
    """Parse Requires-Dist lines; old wheels hold some that no tool can read any more."""
    found = []
    for line in evidence.requires:
        try:
            found.append(Requirement(line))
        except InvalidRequirement:
            continue
    return found


def _applies(requirement: Requirement, environment: dict[str, Any], extras: Iterable[str]) -> bool:
    marker = requirement.marker
    if marker is None:
        return True
    return any(marker.evaluate({**environment, "extra": extra}) for extra in ("", *sorted(extras)))


def _environment(lock: Lock) -> dict[str, str]:
    """Return the markers' values in the image, whatever interpreter runs envbuild."""
    full = next((_upstream(item) for item in lock.os.packages if item.name == f"python{lock.python.version}"), "")
    full = lock.python.build.version if lock.python.build else full
    full = full if full.startswith(f"{lock.python.version}.") else f"{lock.python.version}.0"
    return {
        "implementation_name": "cpython",
        "implementation_version": full,
        "os_name": "posix",
        "platform_machine": "aarch64" if lock.python.platform.endswith("aarch64") else "x86_64",
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": "Linux",
        "platform_version": "",
        "python_full_version": full,
        "python_version": lock.python.version,
        "sys_platform": "linux",
    }


def _upstream(package: OsPackage) -> str:
    """Return the upstream part of a Debian version, as far as it is digits and dots."""
    match = re.match(r"(?:[0-9]+:)?([0-9]+(?:\.[0-9]+)*)", package.version)
    return match[1] if match else ""
