"""Checks of single texts of a spec: each returns the normalised text or raises ``ValueError`` with a whole sentence.

Patterns come from the lock's types, so that whatever a spec accepts a lock can hold.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from envbuild.core import types
from envbuild.core.redact import mask_text
from envbuild.core.text import quote

_KERNEL_PART = re.compile(r"(>=|<=|==|!=|>|<)[ ]?([0-9]{1,5}(?:\.[0-9]{1,5}){0,3})")
_STAMP = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})T([0-9]{2})([0-9]{2})([0-9]{2})Z")
_ISO = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})(?:[Tt ]([0-9]{2}):([0-9]{2})(?::([0-9]{2}))?(?:Z|z|[+-]00:?00)?)?")
_HOST = r"(?:[A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9A-Fa-f:]+\])(?::[0-9]{1,5})?"
_MIRROR = re.compile(rf"(?:https?://{_HOST}|file://)(?:/[A-Za-z0-9._~%+:-]+)*/?")
# docker/distribution reference grammar: domain/path:tag@sha256:digest
_IMAGE_PATH = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_IMAGE = re.compile(
    rf"(?:[A-Za-z0-9.-]+(?::[0-9]{{1,5}})?/)?{_IMAGE_PATH}(?:/{_IMAGE_PATH})*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?@sha256:[0-9a-f]{64}"
)
_SOURCES = re.compile(r"(?:-e|--editable)\s*=?\s*([^\s#]+)")
_LINKS = re.compile(r"(?:-f|--find-links)\s*=?\s*([^\s#]+)")
_PLACE = re.compile(r"\.|(?:\.{0,2}/|~|file:|[^\s@]+\.whl\Z|[A-Za-z0-9+.-]+://).*", re.DOTALL)
"""What is a path or an address, by itself or at the start of a line."""
_OTHER_OPTIONS = "options do not belong here: indexes, find-links and certificates come from your pip or uv settings"


def schema_pattern(kind: Any) -> str:
    """Return a lock type's pattern in the dialect that JSON Schema shares: ``$`` for ``\\Z``."""
    return types.pattern(kind).replace(r"\Z", "$")


def plain(text: str) -> str:
    """Refuse control characters and absurd lengths: such a text cannot be an environment variable in a Dockerfile."""
    if not text.isprintable() or len(text) > 4096:
        raise ValueError(f"{quote(text)} has control characters, or more than 4,096 characters")
    return text


def name(text: str) -> str:
    """Check a spec's name: it becomes part of the lock's file name and the image's tag."""
    if types.matches(types.LockName, text):
        return text
    better = re.sub(r"[^a-z0-9_-]+", "-", text.lower()).strip("-_")[:64].strip("-_")
    raise ValueError(
        f"{quote(text)} is not a name: lower-case letters, digits, - and _, at most 64" + _eg(better or "digits")
    )


def package(text: str) -> str:
    """Check a Debian package: ``name``, or ``name=version`` for exactly that version (Debian Policy 5.6.7, 5.6.12)."""
    found, _, version = (part.strip() for part in text.partition("="))
    if not types.matches(types.DebName, found):
        lower = found.lower()
        eg = _eg(lower if types.matches(types.DebName, lower) else "git")
        raise ValueError(f"{quote(text)} is not a Debian package name{eg}")
    if "=" in text and not types.matches(types.DebVersion, version):
        raise ValueError(f"{quote(text)} has no Debian version after ={_eg('git=1:2.39.5-0+deb12u2')}")
    return f"{found}={version}" if version else found


def group(text: str) -> str:
    """Return the normalised name of an extra or of a dependency group (PEP 685, PEP 735)."""
    from packaging.utils import InvalidName, canonicalize_name

    try:
        return canonicalize_name(text, validate=True)
    except InvalidName:
        raise ValueError(f"{quote(text)} is not the name of an extra or a group{_eg('dev')}") from None


def project(text: str) -> str:
    """Return the normalised name of a Python package."""
    from packaging.utils import InvalidName, canonicalize_name

    try:
        return canonicalize_name(text, validate=True)
    except InvalidName:
        raise ValueError(f"{quote(text)} is no name of a package{_eg('antlr4-python3-runtime')}") from None


def build_package(text: str) -> str:
    """Return the name of a Debian package, without a version."""
    found = package(text)
    if "=" in found:
        raise ValueError(f"{quote(text)}: no version can be chosen here — write {found.partition('=')[0]}")
    return found


def requirement(text: str) -> str:
    """Check one PEP 508 requirement and return it normalised; addresses and options are refused."""
    from packaging.requirements import InvalidRequirement, Requirement

    line = text.strip()
    shown = quote(mask_text(line))
    if found := _SOURCES.match(line):
        raise ValueError(f"{shown}: options do not belong here, and {_a_project(found[1])}")
    if (found := _LINKS.match(line)) and "://" not in found[1]:
        raise ValueError(f"{shown}: options do not belong here — name the folder in the spec:  wheels: [{found[1]}]")
    if line.startswith("-"):
        raise ValueError(f"{shown}: {_OTHER_OPTIONS}")
    if _PLACE.fullmatch(plain(line)):
        raise ValueError(f"{shown}: {_place(line)}")
    if line.endswith((".txt", ".in", ".toml")):
        raise ValueError(f"{shown} looks like a file — write -r {line}")
    try:
        parsed = Requirement(plain(line))
    except (InvalidRequirement, RecursionError):
        raise ValueError(f"{shown} is not a requirement{_requirement_hint(line)}") from None
    if parsed.url:
        raise ValueError(
            f"{shown}: a lock names files by digest, not by address"
            f" — put the wheel into a folder named in wheels, and write {parsed.name}"
        )
    return str(parsed)


def _a_project(place: str) -> str:
    """Describe why a project's folder or address is refused, with the command that builds its wheel."""
    return f"a project in a folder is not a requirement{_build(place)}"


def _place(line: str) -> str:
    """Describe why a path or an address is refused, and what to write instead."""
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename

    address = "://" in line and not line.startswith("file:")
    folder, _, file = line.removeprefix("file:").partition("#")[0].rpartition("/")
    if not file.endswith(".whl"):
        return _a_project(line) if not address else f"a lock names files by digest, not by address{_build(line)}"
    try:
        name, version, _, _ = parse_wheel_filename(file)
    except InvalidWheelFilename:
        return "a wheel's path is not a requirement — put the wheel into a folder named in wheels, and write its name"
    if address:
        return (
            "a lock names files by digest, not by address"
            f" — put the wheel into a folder named in wheels, and write {name}=={version}"
        )
    absolute = "/" if folder.startswith("/") else ""
    inside = absolute + folder.removeprefix("./").strip("/") or "wheels"
    return f"a wheel's path is not a requirement — write in the spec  wheels: [{inside}]  and here {name}=={version}"


def _build(place: str) -> str:
    return f" — build its wheel: pip wheel --no-deps -w wheels {place} (then  wheels: [wheels], and its name here)"


def _requirement_hint(line: str) -> str:
    if line[:1] in "<>=!~":
        return ' — inside [ ] a comma ends an item: put the requirement in quotes, or on a separate line after "- "'
    if found := re.fullmatch(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*=?\s*([0-9][A-Za-z0-9.*+!]*)", line):
        return _eg(f"{found[1]}=={found[2]}", "write")
    return _eg('"numpy>=2"')


def relative(text: str) -> str:
    """Check a path inside the spec's folder and return it in POSIX form without ``.`` and trailing slash."""
    parts = [part for part in plain(text).split("/") if part not in ("", ".")]
    if text.startswith(("/", "~")) or ".." in parts:
        raise ValueError(f"{quote(text)} leads out of the spec's folder — write a path relative to the spec, inside it")
    if not parts:
        raise ValueError(f"{quote(text)} is the whole folder, where runs write — name what is read, such as data")
    if "\\" in text or ":" in text:
        raise ValueError(f'{quote(text)} is not a relative path without ":" and "\\"{_eg("data/train")}')
    return "/".join(parts)


def folder(text: str) -> str:
    """Check the path of a folder of wheels: relative to the spec, or absolute."""
    if not plain(text).strip():
        raise ValueError(f"{quote(text)} is not a folder{_eg('wheels')}")
    return text.rstrip("/") or "/"


def kernel(text: str) -> str:
    """Check a range of kernel versions: comparisons joined by commas, all of which must hold."""
    parts = [part.strip() for part in text.split(",")]
    found = [_KERNEL_PART.fullmatch(part) for part in parts]
    if not all(found):
        eg = f">={text}" if re.fullmatch(r"[0-9]+(\.[0-9]+)*", text) else ">=5.15,<7"
        raise ValueError(f'{quote(text)} is not a version range — e.g. "{eg}"')
    pairs = [(match[1], match[2]) for match in found if match]
    if _empty(pairs):
        raise ValueError(f"{quote(text)} holds no version at all")
    return ",".join(operator + version for operator, version in pairs)


def kernel_or_any(text: str) -> str:
    """Check a range of kernel versions, or ``any``."""
    return text if text == "any" else kernel(text)


def cuda(text: str) -> str:
    """Check ``none``, ``auto`` or a version of CUDA: its first one or two parts."""
    if text in ("none", "auto") or re.fullmatch(r"[0-9]{1,2}(\.[0-9]{1,2})?", text):
        return text
    eg = _eg("none, auto, 12.5 or 13")
    if found := re.fullmatch(r"cu(?:da)?[-_ ]?([0-9]{2})[.]?([0-9]?)|([0-9]{1,2}\.[0-9]{1,2})[.].*", text.lower()):
        eg = _eg(found[3] or f"{found[1]}{'.' if found[2] else ''}{found[2]}", "write")
    raise ValueError(f"{quote(text)} is not a version of CUDA{eg}")


def cudnn(text: str) -> str:
    """Check a version of cuDNN, whole or its first parts."""
    if not re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,5}){0,3}", text):
        raise ValueError(f"{quote(text)} is not a version of cuDNN{_eg('9.3')}")
    return text


def driver(text: str) -> str:
    """Check a version of NVIDIA's driver."""
    if text and types.matches(types.DriverVersion, text):
        return text
    eg = _eg("580.159.04")
    if found := re.fullmatch(r"(>=)? ?([0-9]{3,4})((?:\.[0-9]{1,4})*)", text):
        policy = "at least" if found[1] else "same branch"
        eg = _eg(f'{{value: "{found[2]}{found[3] or ".0"}", policy: {policy}}}', "write")
    raise ValueError(f"{quote(text)} is not a driver version{eg}")


def capability(text: str) -> str:
    """Check a compute capability: major and minor."""
    if text and types.matches(types.Capability, text):
        return text
    found = re.fullmatch(r"(?:sm_?|compute_?)?([0-9]{1,2})([0-9])[a-z]?|([0-9])", text.lower())
    eg = _eg(f"{found[3]}.0" if found[3] else f"{found[1]}.{found[2]}", "write") if found else _eg("9.0")
    raise ValueError(f"{quote(text)} is not a compute capability{eg}")


def mig(text: str) -> str:
    """Check a MIG profile; ``none`` represents a whole GPU."""
    if text and types.matches(types.MigProfile, text):
        return text
    lower = text.lower().removeprefix("mig").strip("- ")
    eg = _eg(lower, "write") if lower and types.matches(types.MigProfile, lower) else _eg("none or 3g.40gb")
    raise ValueError(f"{quote(text)} is not a MIG profile{eg}")


def missing_library(text: str) -> str:
    """Check a shared library that may be missing: ``SONAME`` or ``PACKAGE:SONAME``, both with ``*`` and ``?``."""
    if not types.matches(types.MissingLibrary, text):
        raise ValueError(f"{quote(text)} is not a shared library{_eg('libpulse.so.0 or open3d:libtorch*.so')}")
    return text


def cpu_flag(text: str) -> str:
    """Check a CPU flag in the spelling of ``/proc/cpuinfo``."""
    if not types.matches(types.CpuFlag, text):
        raise ValueError(f"{quote(text)} is not a CPU flag{_eg('avx512f')}")
    return text


def line(text: str) -> str:
    """Check one line of text that states something."""
    if not plain(text).strip() or len(text) > 120:
        raise ValueError(f"{quote(text)} is empty, or longer than 120 characters")
    return text.strip()


def _empty(pairs: list[tuple[str, str]]) -> bool:
    """Return whether lower and upper bounds cross."""

    def key(version: str) -> tuple[int, ...]:
        return tuple(([int(part) for part in version.split(".")] + [0, 0, 0])[:4])

    # (version, 1) is just above the version, (version, -1) just below it.
    low = [(key(v), 1 if op == ">" else 0) for op, v in pairs if op in (">", ">=", "==")]
    high = [(key(v), -1 if op == "<" else 0) for op, v in pairs if op in ("<", "<=", "==")]
    if low and high and max(low) > min(high):
        return True
    exact = {key(v) for op, v in pairs if op == "=="}
    return any(key(v) in exact for op, v in pairs if op == "!=")


def python(text: str) -> str:
    """Check a release of Python: ``3.12``, or ``3.12.7`` for exactly that one."""
    if found := re.fullmatch(r"(3\.[0-9]{1,2}(?:\.[0-9]{1,2})?)(?:t|\+freethreaded)", text.lower()):
        why = "has no global interpreter lock (free-threaded): results depend on how threads interleave"
        raise ValueError(f"{quote(text)} {why} — write {found[1]}")
    if not re.fullmatch(r"3\.[0-9]{1,2}(?:\.[0-9]{1,2})?", text):
        found = re.match(r"(?:c?python-?)?(3\.[0-9]{1,2})(?![0-9])", text.lower())
        eg = f"write {found[1]}" if found else "e.g. 3.11"
        raise ValueError(f"{quote(text)} is not a release of Python — {eg}")
    return text


def snapshot(text: str) -> str:
    """Check a time and return it as archive snapshots write it: ``20260711T000000Z`` (UTC)."""
    match = _STAMP.fullmatch(text) or _ISO.fullmatch(text)
    try:
        if match is None:
            raise ValueError
        year, month, day, hour, minute, second = (int(part or 0) for part in match.groups())
        when = datetime(year, month, day, hour, minute, second)
        return f"{when:%Y%m%dT%H%M%SZ}".zfill(16)  # %Y drops leading zeros on Linux
    except ValueError:
        raise ValueError(f"{quote(text)} is not a time in UTC — e.g. 2026-07-11 or 20260711T000000Z") from None


def mirror(text: str) -> str:
    """Check the address of a Debian mirror; a password in it would end up in logs, so it is refused."""
    if not _MIRROR.fullmatch(text):
        why = "has a user name or password in it" if re.match(r"https?://[^/]*@", text) else "is not a mirror's address"
        raise ValueError(f"{quote(text)} {why}{_eg('https://mirror.example.invalid/debian')}")
    return text.rstrip("/")


def archive(text: str) -> str:
    """Check the address of a further archive; ``{snapshot}`` may be one of its folders."""
    mirror(text.replace("{snapshot}", "snapshot"))
    return text.rstrip("/")


def archive_name(text: str) -> str:
    """Check the name of a further archive."""
    if not types.matches(types.Archive, text):
        raise ValueError(f"{quote(text)} is not a name: lower-case letters, digits and -{_eg('company')}")
    return text


def suite(text: str) -> str:
    """Check a suite, or the path of an archive without suites."""
    if not types.matches(types.SuiteName, text):
        raise ValueError(f"{quote(text)} is not a suite{_eg('bookworm')}; / for an archive without suites")
    return text


def component(text: str) -> str:
    """Check the name of a component."""
    if not types.matches(types.Component, text):
        raise ValueError(f"{quote(text)} is not a component{_eg('main')}")
    return text


def image(text: str) -> str:
    """Check an image by digest: ``repository@sha256:…``, with or without a tag."""
    if not _IMAGE.fullmatch(text):
        why = "has no digest: a tag can move" if "@" not in text else "is not repository@sha256: and 64 hex digits"
        raise ValueError(f"{quote(text)} {why}{_eg('debian@sha256:' + '0' * 8 + '…')}")
    return text


def _eg(example: str, verb: str = "e.g.") -> str:
    return f" — {verb} {example}"
