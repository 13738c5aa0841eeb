"""The text types of a lock: each with its pattern, and as text for messages.

Patterns end in ``\\Z``, since ``$`` also matches before a final newline. Whatever matches is safe where the value goes:
a path component, a tar header, a shell word, a line of a Dockerfile.
"""

from __future__ import annotations

import re
from functools import cache
from threading import Lock
from typing import Annotated, Any, get_args

import msgspec
from msgspec import Meta

from envbuild.core.patterns import lazy
from envbuild.core.text import quote


class Value(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """Base of all lock tables: frozen, keyword-only, unknown keys refused, kebab-case in the file."""


Sha256 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z", title="64 lower-case hexadecimal digits")]
Size = Annotated[int, Meta(ge=0)]
PackageSize = Annotated[int, Meta(ge=0, le=16 << 30)]
"""Bytes of a wheel or a .deb; ``ar`` cannot hold more than 10 GB, no index takes wheels of that size."""
# No slash, no backslash, no leading dot or dash: safe as one path component, in a tar header and in a shell word.
WheelName = Annotated[
    str, Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.+!-]*\.whl\Z", max_length=255, title="a wheel's file name")
]
SourceName = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.+!-]*\.(?:tar|tar\.gz|zip)\Z",
        max_length=255,
        title="a source archive's file name",
    ),
]
ProjectPath = Annotated[
    str,
    Meta(
        pattern=r"^(?:\.|\.\.(?:/\.\.)*|(?:\.\./)*(?!\.\.?(?:/|\Z))[^\x00-\x1f\x7f/:\\]+"
        r"(?:/(?!\.\.?(?:/|\Z))[^\x00-\x1f\x7f/:\\]+)*)?\Z",
        title="a folder relative to the spec",
    ),
]
RepositoryPath = Annotated[
    str,
    Meta(
        pattern=r"^(?:\.|(?!\.\.?(?:/|\Z))[^\x00-\x1f\x7f/:\\]+(?:/(?!\.\.?(?:/|\Z))[^\x00-\x1f\x7f/:\\]+)*)?\Z",
        max_length=4096,
        title="a folder in the repository",
    ),
]
# No user name, no password, no query, no fragment.
GitUrl = Annotated[
    str,
    Meta(
        pattern=r"^(?:https?://(?:[A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9A-Fa-f:]+\])(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~%+-]+)+/?)?\Z",
        title="the address of a git repository without a user's name",
    ),
]
GitRef = Annotated[
    str,
    Meta(
        pattern=r"^(?:(?!.*\.\.)[A-Za-z0-9_][A-Za-z0-9._/+-]*)?\Z",
        max_length=255,
        title="a commit, tag or branch of git",
    ),
]
GitCommit = Annotated[str, Meta(pattern=r"^(?:[0-9a-f]{40}|[0-9a-f]{64})?\Z", title="a whole git commit")]
PackageName = Annotated[str, Meta(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*\Z", title="a normalised package name")]
PackageVersion = Annotated[str, Meta(pattern=r"^[A-Za-z0-9.!+-]+\Z", title="a version")]
DebName = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9+.-]+\Z", title="a Debian package name")]
DebVersion = Annotated[str, Meta(pattern=r"^[0-9][A-Za-z0-9.+~:-]*\Z", title="a Debian version")]
DebArch = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]+\Z", title="a Debian architecture")]
# Every component starts with a letter, digit or _: no "..", no empty component, no option.
PoolPath = Annotated[
    str,
    Meta(
        pattern=r"^(?:[A-Za-z0-9_][A-Za-z0-9_.+~%:=-]*/)*[A-Za-z0-9][A-Za-z0-9_.+~%:=-]*\.deb\Z",
        title="the path of a .deb below an archive's root",
    ),
]
Release = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9.-]*\Z", title="a release such as debian-12")]
Archive = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9-]*\Z", title="an archive's name")]
SuiteName = Annotated[str, Meta(pattern=r"^(?:/|[a-z0-9][a-z0-9_-]*(?:[./][a-z0-9_-]+)*/?)\Z", title="a suite's name")]
Component = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]*(?:/[a-z0-9][a-z0-9-]*)*\Z", title="a component's name")]
Fingerprint = Annotated[str, Meta(pattern=r"^(?:[0-9A-F]{40}|[0-9A-F]{64})\Z", title="an OpenPGP fingerprint")]
Snapshot = Annotated[str, Meta(pattern=r"^(?:[0-9]{8}T[0-9]{6}Z)?\Z", title="a time such as 20260711T000000Z")]
ImageName = Annotated[
    str,
    Meta(
        pattern=r"^(?:[A-Za-z0-9][A-Za-z0-9._/:-]*@sha256:[0-9a-f]{64})?\Z",
        title="an image by digest (repository@sha256:…)",
    ),
]
OptionalSha256 = Annotated[str, Meta(pattern=r"^(?:[0-9a-f]{64})?\Z", title="64 lower-case hexadecimal digits or none")]
PythonVersion = Annotated[str, Meta(pattern=r"^3\.[0-9]{1,2}\Z", title="a feature release of Python")]
PythonRelease = Annotated[str, Meta(pattern=r"^3\.[0-9]{1,2}\.[0-9]{1,2}\Z", title="a release such as 3.12.7")]
# No component starts with a dot or a dash: safe below a folder, in a tar header and in a shell word.
BuildPath = Annotated[
    str,
    Meta(
        pattern=r"^[0-9]{8}/cpython-3\.[0-9]{1,2}\.[0-9]{1,2}\+[0-9]{8}-[a-z0-9_]+(?:-[a-z0-9_]+){2,6}\.tar\.gz\Z",
        max_length=200,
        title="the path of a build of CPython, RELEASE/cpython-….tar.gz",
    ),
]
Executable = Annotated[str, Meta(pattern=r"^(?:/[A-Za-z0-9_][A-Za-z0-9._-]*)+\Z", title="an absolute path")]
Platform = Annotated[str, Meta(pattern=r"^[a-z0-9_]+\Z", title="a platform tag")]
KernelRange = Annotated[
    str,
    Meta(
        pattern=r"^(?:(?:>=|<=|==|!=|>|<)[0-9]{1,5}(?:\.[0-9]{1,5}){0,3}(?:,(?!\Z)|\Z))*\Z",
        title='a version range such as ">=5.10,<7"',
    ),
]
CpuLevel = Annotated[
    str,
    Meta(
        pattern=r"^(?:any|x86-64(?:-v[234])?|armv8\.[0-7]-a|armv9\.[0-2]-a)\Z",
        title="a level of x86-64 or of Arm, or any",
    ),
]
Level = Annotated[str, Meta(pattern=r"^(?:seeds|ops|portable)\Z", title="seeds, ops or portable")]
DriverVersion = Annotated[
    str, Meta(pattern=r"^(?:[0-9]{3,4}(?:\.[0-9]{1,4}){1,3})?\Z", title="a driver version such as 580.159.04")
]
CudaVersion = Annotated[str, Meta(pattern=r"^[0-9]{1,2}\.[0-9]{1,2}\Z", title="a CUDA version such as 12.9")]
LibraryVersion = Annotated[str, Meta(pattern=r"^(?:[0-9]+(?:\.[0-9]+){0,4})?\Z", title="a version of a library")]
Capability = Annotated[str, Meta(pattern=r"^(?:[0-9]{1,2}\.[0-9])?\Z", title="a compute capability such as 9.0")]
MigProfile = Annotated[
    str,
    Meta(
        pattern=r"^(?:none|(?:[0-9]c\.)?[0-9]g\.[0-9]{1,3}gb(?:[+-](?:me|gfx)(?:\.all)?){0,2})?\Z",
        title="none or a profile such as 3g.40gb",
    ),
]
CpuFlag = Annotated[str, Meta(pattern=r"^[a-z0-9_]{1,32}\Z", title="a CPU flag as /proc/cpuinfo writes it")]
Policy = Annotated[
    str,
    Meta(
        pattern=r"^(?:exact|same branch|at least|any)(?:, warn)?\Z",
        title='exact, same branch, at least or any, perhaps followed by ", warn"',
    ),
]
HardwareField = Annotated[
    str, Meta(pattern=r"^(?:cpu|cpu\.flags|gpu\.[a-z][a-z-]{1,20})\Z", title="a field such as gpu.driver")
]
SpecField = Annotated[
    str,
    Meta(
        pattern=r"^(?:kernel|cpu|cpu\.flags|gpu|gpu\.[a-z][a-z-]{1,20})\Z", title="a field such as kernel or gpu.driver"
    ),
]
Network = Annotated[str, Meta(pattern=r"^(?:none|bridge|host)\Z", title="none, bridge or host")]
Workspace = Annotated[str, Meta(pattern=r"^r[wo]\Z", title="rw or ro")]
EnvName = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*\Z", title="a variable name")]
MissingLibrary = Annotated[
    str,
    Meta(
        pattern=r"^(?:[A-Za-z0-9*?._-]+:)?[A-Za-z0-9_*?][A-Za-z0-9_.+*?~-]*\Z",
        max_length=255,
        title="a shared library, as SONAME or PACKAGE:SONAME",
    ),
]
LockName = Annotated[str, Meta(pattern=r"^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?\Z", title="a lock's name")]
VariantName = Annotated[
    str, Meta(pattern=r"^([a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?)?\Z", title="a variant's name or none")
]
# C1 controls too (some terminals take U+009B for ESC [), and what Unicode takes for the end of a line.
Line = Annotated[
    str,
    Meta(pattern=r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*\Z", title="one line of text without control characters"),
]
RelativePath = Annotated[
    str,
    Meta(
        pattern=r"^(?:(?!\.\.?(?:/|\Z))[^\x00-\x1f\x7f/:\\]+(?:/(?!\Z)|\Z))+\Z",
        title="a relative path without .. and :",
    ),
]

_TITLES = {
    meta.pattern: meta.title
    for kind in list(globals().values())
    for meta in get_args(kind)[1:]
    if isinstance(meta, Meta) and meta.title
}
_AT = lazy(r"(?P<what>.*?)(?: - at (?P<key>`key` in |`value` in )?`\$(?P<path>.*)`)?", re.S)
_FIELD = lazy(r"\.([A-Za-z0-9_-]+)|\[(\d+|\.\.\.)\]")


def matches(kind: Any, text: str) -> bool:
    """Whether a text is one of a type."""
    return re.search(pattern(kind), text) is not None


def pattern(kind: Any) -> str:
    """Return a type's pattern."""
    return str(get_args(kind)[1].pattern)


def prepare_types(*kinds: Any) -> None:
    """Let msgspec read types now, once; called where a module defines what several threads may decode.

    msgspec 0.22 crashes if two threads use a type for the first time at once: the second one finds it half read.
    """
    for kind in kinds:
        msgspec.json.Decoder(kind)


_turn = Lock()
_deferred: list[Any] | None = None


def defer() -> None:
    """Have ``prepare_late`` wait for ``prepare_deferred``, in a command that does not decode those types at first."""
    global _deferred
    _deferred = []


def prepare_late(*kinds: Any) -> None:
    """Do as ``prepare_types``, or, where that is deferred, leave it to ``prepare_deferred``."""
    if _deferred is None:
        prepare_types(*kinds)
    else:
        _deferred.extend(kinds)


def prepare_deferred() -> None:
    """Do what was deferred; called before such types are decoded, by any thread. What is done already takes no time."""
    with _turn:
        while _deferred:
            prepare_types(_deferred[-1])
            _deferred.pop()


def explain(error: msgspec.ValidationError, table: Any) -> str:
    """Turn msgspec's words into ``field path: expected …, found …``.

    Args:
        error: what ``msgspec.convert`` raised.
        table: what it was given, in the shape of ``Lock``.
    """
    match = _AT.fullmatch(str(error))
    what, path, key = (match["what"], match["path"] or "", match["key"]) if match else (str(error), "", None)
    if found := re.fullmatch(r"Expected `str` matching regex (['\"])(.*)\1", what):
        raw = found[2].encode().decode("unicode_escape")
        what = f"expected {_TITLES.get(raw, f'a text matching {raw}')}"
    if found := re.fullmatch(r"Object (contains unknown|missing required) field `(.*)`", what):
        sentence = "unknown key" if found[1] == "contains unknown" else "missing"
        return f"{_file_path(f'{path}.{found[2]}')}: {sentence}"
    if found := re.fullmatch(r"Expected `int` ([<>]=) (-?\d+)", what):
        what = f"expected a whole number, {found[2]} or {'less' if found[1] == '<=' else 'more'}"
    what = what[:1].lower() + what[1:].replace("`", "")
    value = _at(table, path)
    if what.startswith("expected") and "got" not in what and not key and isinstance(value, str | int):
        what += f", found {quote(value) if isinstance(value, str) else value}"
    where = _file_path(path.replace("[...]", ""))
    return f"{where}: {what}{' as key' if key == '`key` in ' else ''}"


def _at(table: Any, path: str) -> Any:
    """Return the value at a path, or None if the path does not name one value."""
    for name, index in _FIELD.findall(path):
        try:
            table = table[name] if name else table[int(index)]
        except (KeyError, IndexError, TypeError, ValueError):
            return None
    return table


def _file_path(path: str) -> str:
    """Return where the file has what ``Lock`` has at a path."""
    path = path.removeprefix(".")
    if not path.startswith("packages["):
        return f"tool.envbuild.{path}" if path else "tool.envbuild"
    path = re.sub(r"\.wheel(?=\.|$)", ".wheels[0]", path)
    return path.replace(".wheels[0].sha256", ".wheels[0].hashes.sha256")


def without_defaults(value: msgspec.Struct) -> dict[str, object]:
    """Return a value's table without what equals its default (msgspec compares by identity, so values may differ)."""
    table: dict[str, object] = {}
    for field in _fields(type(value)):
        found = getattr(value, field.name)
        default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
        if field.required or found != default:
            table[field.encode_name] = _plain(found)
    return table


@cache
def _fields(kind: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(kind)


def _plain(value: object) -> object:
    if isinstance(value, msgspec.Struct):
        return without_defaults(value)
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return dict(sorted(value.items())) if isinstance(value, dict) else value
