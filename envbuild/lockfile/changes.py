"""What differs between two locks: packages, settings, hardware; and the security fixes that changelogs name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from envbuild.core.types import without_defaults
from envbuild.lockfile.model import Lock

Kind = Literal["framework", "numeric", "python", "os", "environment", "hardware", "other"]

NUMERIC: Final = ("libc6", "libgomp", "libstdc++", "libgcc", "libblas", "liblapack", "libopenblas", "libgfortran")
"""Debian packages by which numbers are computed, by the start of their names."""

LAYOUT: Final = "image layout"
"""Name of the change of the image layout's version."""

_CVE = re.compile(r"\bCVE-[0-9]{4}-[0-9]{4,7}\b")
_ENTRY = re.compile(r"[a-z0-9][a-z0-9+.-]* \(([0-9][A-Za-z0-9.+~:-]*)\) ")
_DIGITS = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One thing that is not as it was.

    Attributes:
        kind: what it is. ``numeric``: a Debian package by which numbers are computed; ``hardware``: a field of the
            hardware section, or a CUDA library.
        name: a package's name, a variable's name, or a field's path in a spec.
        before, after: versions or values; None where one lock lacks it.
        files: of a package: the beginnings of the digests of its two files.
    """

    kind: Kind
    name: str
    before: str | None
    after: str | None
    files: tuple[str, str] = ("", "")

    @property
    def is_package(self) -> bool:
        """Whether this is a wheel or a Debian package."""
        return self.kind in ("framework", "numeric", "python", "os")


def changes(old: Lock, new: Lock) -> tuple[Change, ...]:
    """Compare two locks: wheels, Debian packages, variables, then everything else, each by name."""
    names = {*old.frameworks, *new.frameworks}
    found = [*_packages(_wheels(old), _wheels(new), lambda name: "framework" if name in names else "python")]
    found += _packages(_debs(old), _debs(new), lambda name: "numeric" if name.startswith(NUMERIC) else "os")
    found += _values(old.environment, new.environment, lambda name: "environment")
    found += _values({**_rest(old), **_hardware(old)}, {**_rest(new), **_hardware(new)}, _kind_of_field)
    return tuple(found)


def cves(changelog: str, is_newer: Callable[[str], bool]) -> tuple[str, ...]:
    """Return the CVE numbers that the new entries of a Debian changelog name, each once, newest first.

    Args:
        changelog: text in the format of deb-changelog(5), newest entry first.
        is_newer: whether an entry of this version is new; reading ends at the first that is not.
    """
    found: dict[str, None] = {}
    for line in changelog.splitlines():
        if (entry := _ENTRY.match(line)) and not is_newer(entry[1]):
            break
        found.update(dict.fromkeys(_CVE.findall(line)))
    return tuple(found)


_Packages = Mapping[str, tuple[str, str]]
"""Version and digest of packages by name."""


def _packages(old: _Packages, new: _Packages, kind: Callable[[str], Kind]) -> Iterator[Change]:
    for name in sorted({*old, *new}):
        (before, one), (after, other) = old.get(name, (None, "")), new.get(name, (None, ""))
        if (before, one) != (after, other):
            yield Change(kind=kind(name), name=name, before=before, after=after, files=(one[:_DIGITS], other[:_DIGITS]))


def _values(old: Mapping[str, str], new: Mapping[str, str], kind: Callable[[str], Kind]) -> Iterator[Change]:
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            yield Change(kind=kind(name), name=name, before=old.get(name), after=new.get(name))


def _kind_of_field(name: str) -> Kind:
    return "hardware" if name.startswith(("cuda.", "hardware.")) else "other"


def _wheels(lock: Lock) -> _Packages:
    return {package.name: (package.version, package.wheel.sha256) for package in lock.packages}


def _debs(lock: Lock) -> _Packages:
    return {package.name: (package.version, package.sha256) for package in lock.os.packages}


def _rest(lock: Lock) -> dict[str, str]:
    facts = {LAYOUT: str(lock.layout), "OS release": lock.os.release, "Python": _python(lock)}
    determinism = {f"determinism.{name}": str(getattr(lock.determinism, name)) for name in ("level", "seed", "threads")}
    accepted = {"missing-libraries": ", ".join(lock.missing_libraries)} if lock.missing_libraries else {}
    accepted |= {"exclude-newer": lock.exclude_newer} if lock.exclude_newer else {}
    accepted |= {f"emulator on {each.architecture}": f"{each.name} {each.version}" for each in lock.emulators}
    return {**facts, **determinism, **{f"added: {name}": reason for name, reason in lock.added.items()}, **accepted}


def _python(lock: Lock) -> str:
    """Return the interpreter's release, and which build it is if it is a standalone one."""
    build = lock.python.build
    return f"{build.version} (standalone {build.release}, {build.sha256[:_DIGITS]})" if build else lock.python.version


def _hardware(lock: Lock) -> dict[str, str]:
    """Return each fact about hardware and CUDA as text, by the field's name in a spec."""
    table = without_defaults(lock.hardware)
    for key in ("host", "by-hand", "policy"):
        table.pop(key, None)
    if gpu := lock.hardware.gpu:
        kinds = [{"count": kind.count, **without_defaults(kind)} for kind in gpu.devices]
        shared = {key: value for key, value in without_defaults(gpu).items() if key != "devices"}
        table["gpu"] = {**shared, **(kinds[0] if len(kinds) == 1 else {"devices": kinds})}
    found = _texts("hardware", table)
    found |= {f"hardware.{field} policy": policy for field, policy in lock.hardware.policy.items()}
    return found | (_texts("cuda", without_defaults(lock.cuda)) if lock.cuda is not None else {})


def _texts(path: str, value: object) -> dict[str, str]:
    """Return every value below a table as text, by path."""
    if isinstance(value, dict):
        return {key: text for name, inner in value.items() for key, text in _texts(f"{path}.{name}", inner).items()}
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        return {key: text for i, item in enumerate(value) for key, text in _texts(f"{path}[{i}]", item).items()}
    if isinstance(value, list):
        return {path: " ".join(map(str, value))}
    return {path: str(value).lower() if isinstance(value, bool) else str(value)}
