"""A maker of tiny wheels: the same arguments give the same bytes, and every member may be as wrong as a test needs.

Source of the format: PyPA binary distribution specification,
https://packaging.python.org/en/latest/specifications/binary-distribution-format/
"""

from __future__ import annotations

import base64
import hashlib
import io
import stat
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_DATE = (2020, 2, 2, 0, 0, 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Member:
    """One zip member as it is: nothing about ``name`` is checked, so that it may climb out, repeat or be odd.

    Attributes:
        mode: permission bits kept in the zip's Unix attributes.
        symlink: the member is a symbolic link whose target is ``data``.
        record: list it in RECORD, as honest wheels do.
    """

    name: str
    data: bytes = b""
    mode: int = 0o644
    symlink: bool = False
    record: bool = True


def wheel_name(name: str, version: str, tag: str = "py3-none-any") -> str:
    """Return the file name of a wheel."""
    return f"{name.replace('-', '_')}-{version}-{tag}.whl"


def make_wheel(
    directory: Path,
    name: str,
    version: str = "1.0",
    files: Mapping[str, bytes | str] | None = None,
    *,
    entry_points: Mapping[str, Mapping[str, str]] | None = None,
    data: Mapping[str, bytes | str] | None = None,
    requires: Sequence[str] = (),
    metadata: Mapping[str, str] | None = None,
    tag: str = "py3-none-any",
    members: Iterable[Member] = (),
    record: str | None = None,
    compression: int = zipfile.ZIP_DEFLATED,
) -> Path:
    """Write a wheel into ``directory`` (made if need be) and return its path.

    Args:
        files: content by path from the wheel's root; a module ``<name>.py`` with ``__version__`` if None.
        entry_points: group to name to object, such as ``{"console_scripts": {"run": "pkg:main"}}``.
        data: content by path below ``<name>-<version>.data/``, such as ``scripts/run`` or ``data/share/x``.
        requires: Requires-Dist lines.
        metadata: further METADATA fields, such as ``{"Requires-Python": ">=3.9"}``.
        tag: the compatibility tag, written to WHEEL and to the file name.
        members: further members, taken as they are (hostile names, links, executables).
        record: replaces the whole RECORD; None writes a right one.
    """
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / wheel_name(name, version, tag)
    path.write_bytes(
        wheel_bytes(
            name,
            version,
            files,
            entry_points=entry_points,
            data=data,
            requires=requires,
            metadata=metadata,
            tag=tag,
            members=members,
            record=record,
            compression=compression,
        )
    )
    return path


def wheel_bytes(
    name: str,
    version: str = "1.0",
    files: Mapping[str, bytes | str] | None = None,
    *,
    entry_points: Mapping[str, Mapping[str, str]] | None = None,
    data: Mapping[str, bytes | str] | None = None,
    requires: Sequence[str] = (),
    metadata: Mapping[str, str] | None = None,
    tag: str = "py3-none-any",
    members: Iterable[Member] = (),
    record: str | None = None,
    compression: int = zipfile.ZIP_DEFLATED,
) -> bytes:
    """Return the bytes of a wheel; arguments as for ``make_wheel``."""
    stem = f"{name.replace('-', '_')}-{version}"
    if files is None:
        files = {f"{name.replace('-', '_')}.py": f'__version__ = "{version}"\n'}
    contents = [Member(name=path, data=_bytes(content)) for path, content in sorted(files.items())]
    for path, content in sorted((data or {}).items()):
        mode = 0o755 if path.startswith("scripts/") else 0o644
        contents.append(Member(name=f"{stem}.data/{path}", data=_bytes(content), mode=mode))
    contents += members
    fields = [("Metadata-Version", "2.1"), ("Name", name), ("Version", version), *(metadata or {}).items()]
    fields += [("Requires-Dist", line) for line in requires]
    contents.append(Member(name=f"{stem}.dist-info/METADATA", data=_fields(fields)))
    if entry_points:
        contents.append(Member(name=f"{stem}.dist-info/entry_points.txt", data=_entry_points(entry_points)))
    contents.append(Member(name=f"{stem}.dist-info/WHEEL", data=_wheel_file(tag)))
    listing = _record(contents, stem) if record is None else record
    contents.append(Member(name=f"{stem}.dist-info/RECORD", data=listing.encode()))
    return _zip(contents, compression)


def _bytes(content: bytes | str) -> bytes:
    return content.encode() if isinstance(content, str) else content


def _fields(fields: Iterable[tuple[str, str]]) -> bytes:
    return "".join(f"{key}: {value}\n" for key, value in fields).encode()


def _wheel_file(tag: str) -> bytes:
    python, abi, platforms = tag.split("-")
    tags = [("Tag", f"{py}-{abi}-{platform}") for py in python.split(".") for platform in platforms.split(".")]
    pure = "true" if platforms == "any" else "false"
    return _fields([("Wheel-Version", "1.0"), ("Generator", "tests"), ("Root-Is-Purelib", pure), *tags])


def _entry_points(groups: Mapping[str, Mapping[str, str]]) -> bytes:
    lines: list[str] = []
    for group, entries in sorted(groups.items()):
        lines += [f"[{group}]", *(f"{key} = {value}" for key, value in sorted(entries.items())), ""]
    return "\n".join(lines).encode()


def _record(contents: Iterable[Member], stem: str) -> str:
    lines = []
    for member in contents:
        if member.record:
            digest = base64.urlsafe_b64encode(hashlib.sha256(member.data).digest()).rstrip(b"=").decode()
            name = f'"{member.name}"' if "," in member.name else member.name
            lines.append(f"{name},sha256={digest},{len(member.data)}\n")
    return "".join([*lines, f"{stem}.dist-info/RECORD,,\n"])


def _zip(contents: Iterable[Member], compression: int) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for member in contents:
            info = zipfile.ZipInfo(member.name, _DATE)
            info.filename = member.name  # ZipInfo alters names with os.sep or NUL inside; keep what was asked
            info.create_system = 3  # Unix, whatever the host: the upper half of external_attr is a mode
            kind = stat.S_IFLNK if member.symlink else stat.S_IFREG
            info.external_attr = (kind | member.mode) << 16
            info.compress_type = compression
            archive.writestr(info, member.data)
    return buffer.getvalue()
