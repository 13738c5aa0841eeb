"""The canonical form of a wheel, and in what two builds of one source differ.

A canonical wheel has its members in order of their names, not compressed (compressed bytes depend on the library that
makes them), with one time and one of two modes, and a new ``RECORD``. What members hold is not changed, but for texts
that name the folder of the build: where it differs otherwise between two builds, there is no canonical form.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
import zipfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from envbuild.core.damaged_zip import DAMAGED_ZIP
from envbuild.errors import BuildError

_TIME = (1980, 1, 1, 0, 0, 0)
LARGEST = 4 << 30
"""Most bytes of a wheel, and of what it holds."""
_MESONPY = re.compile(rb"(/\.mesonpy)-[a-z0-9_]{8}\b")
_RECORDS = (".dist-info/RECORD", ".dist-info/RECORD.jws", ".dist-info/RECORD.p7s")


@dataclass(frozen=True, kw_only=True, slots=True)
class Member:
    """One file of a wheel: content, whether it is executable, and the rest of what a zip states of it."""

    data: bytes
    executable: bool
    stated: tuple[object, ...]


def read(wheel: bytes, name: str) -> dict[str, Member]:
    """Return the files of a wheel in the order in which it has them; raises ``BuildError`` if it is none."""
    try:
        with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
            members = [each for each in archive.infolist() if not each.filename.endswith("/")]  # a name may be empty
            if sum(member.file_size for member in members) > LARGEST:
                raise BuildError(f"{name}: its files have more than {LARGEST} bytes")
            found = {
                member.filename: Member(
                    data=archive.read(member),
                    executable=bool(member.external_attr >> 16 & 0o111),
                    stated=(member.date_time, member.external_attr, member.compress_type),
                )
                for member in members
            }
    except DAMAGED_ZIP as why:
        raise BuildError(f"{name}: what the build made is no sound wheel: {why}") from None
    if not any(path.endswith(_RECORDS[0]) for path in found):
        raise BuildError(f"{name}: what the build made is no sound wheel: it has no RECORD")
    return found


def canonical(members: Mapping[str, Member]) -> bytes:
    """Return the canonical wheel with these files."""
    kept = {name: members[name] for name in sorted(members) if not name.endswith(_RECORDS)}
    record = next(name for name in members if name.endswith(_RECORDS[0]))
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w", zipfile.ZIP_STORED) as archive:
        for name, member in kept.items():
            _add(archive, name, member.data, executable=member.executable)
        _add(archive, record, _record({name: member.data for name, member in kept.items()}, record), executable=False)
    return output.getvalue()


def differences(one: Mapping[str, Member], two: Mapping[str, Member]) -> list[str]:
    """Return the files whose content differs, or that only one has; ``RECORD`` follows from the others."""
    names = sorted(one.keys() | two.keys())
    alone = [name for name in names if name not in one or name not in two]
    return [
        name
        for name in names
        if name in alone or one[name].data != two[name].data or one[name].executable != two[name].executable
        if not name.endswith(_RECORDS)
    ]


def without_folder(members: Mapping[str, Member], names: Collection[str], folder: str) -> dict[str, Member]:
    """Return the files with a build's folder taken out of those texts that are named.

    Args:
        folder: an absolute path. What it has above its last parts differs between builds, as do the eight letters that
            meson-python adds to the name of its own folder in it (``mkdtemp``).
    """
    parent = folder.encode()

    def shortened(data: bytes) -> bytes:
        if parent not in data or b"\0" in data:
            return data  # in a program, nothing may change its length
        return _MESONPY.sub(rb"\1", data.replace(parent, b"/build"))

    return {
        name: replace(member, data=shortened(member.data)) if name in names else member
        for name, member in members.items()
    }


def normalised(one: Mapping[str, Member], two: Mapping[str, Member]) -> list[str]:
    """Return what differs between two builds with equal files, in words."""
    found = []
    if list(one) != list(two):
        found.append("order of files")
    both = [(one[name].stated, two[name].stated) for name in one if name in two]
    for index, word in enumerate(("times of files", "modes of files", "compression")):
        if any(a[index] != b[index] for a, b in both):
            found.append(word)
    return found


def _add(archive: zipfile.ZipFile, name: str, data: bytes, *, executable: bool) -> None:
    info = zipfile.ZipInfo(name, _TIME)
    info.create_system, info.create_version, info.extract_version = 3, 20, 20
    info.external_attr = (0o100755 if executable else 0o100644) << 16
    archive.writestr(info, data, zipfile.ZIP_STORED)


def _record(files: Mapping[str, bytes], own: str) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        writer.writerow([name, f"sha256={digest}", len(data)])
    writer.writerow([own, "", ""])
    return text.getvalue().encode()
