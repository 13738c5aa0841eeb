"""Wheels: which files an archive installs into the virtual environment, and their content.

Standard library only and Python 3.9 or later: envbuild imports this module, and a Dockerfile's build stage runs the
same file as a script, so that both make the same tree. Sources: PyPA binary distribution format, recording installed
projects, entry points specification (https://packaging.python.org/en/latest/specifications/).

Decisions, all of them part of the layout version:

- ``purelib`` and ``platlib`` are one folder; headers go to ``include/site/python3.X/<name>`` as in pip's venv scheme.
- Modes are 0755 for scripts and members with any execute bit, else 0644; the owner is root.
- RECORD is written anew: sorted, with the hashes that the files have, each verified while its file is unpacked.
  Bytecode has no rows, as its names follow from the sources'. Signatures of the old RECORD and bytecode in a wheel are
  left out.
- A file that RECORD has another hash for is installed, as pip does, if the archive's checksum fits: some publishers
  change files after RECORD is written (decord 0.6.0, eckitlib 2.5), and the lock has the SHA-256 of the whole wheel.
  The new RECORD has the hash of the file, since a record of a run takes it from there; pip's has the wheel's.
- Links, encrypted members and names that could leave the prefix are refused.

As a script: ``wheel.py --python 3.11 --executable /usr/bin/python3.11 [--root /] [--sources DIR] WHEEL...`` makes the
environment and unpacks the wheels in the given order, a later one replacing files of an earlier one. ``--sources``
also writes each wheel's modules below ``DIR/0000``, ``DIR/0001`` … for ``compile.py``.
"""

from __future__ import annotations

import argparse
import base64
import csv
import hashlib
import io
import os
import re
import stat
import struct
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import BinaryIO, NamedTuple

PREFIX = "opt/env"  # layout.ENV_PREFIX without its slash; a test compares the two
INSTALLER = b"envbuild\n"
CHUNK = 1 << 20
_PART = re.compile(r"[^/\\\x00-\x1f\x7f]+")
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_SCRIPT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_OBJECT = re.compile(r"(?P<module>[\w.]+)\s*:\s*(?P<attribute>[\w.]+)\s*(\[[^\]]*\]\s*)?")
_GUARD = "00-envbuild.pth"
"""``STARTUP`` of ``image/runtime/files.py``; Python reads such files in the order of their names."""
_TEXT_LIMIT = 64 << 20
"""Bytes of a metadata file that is read whole; the largest RECORD known has 3 MB."""
_ALGORITHMS = ("sha256", "sha384", "sha512")


class WheelError(Exception):
    """A wheel that cannot be installed; the text names the wheel, the member and what is wrong."""


class File(NamedTuple):
    """One file that a wheel installs.

    Attributes:
        path: relative to the root directory, such as ``opt/env/bin/tool``.
        mode: permission bits.
        size: bytes.
        member: the zip member that holds the content, or None if ``data`` does.
        data: content made by the installer.
        digest: ``algorithm=urlsafe-base64`` of the content as RECORD writes it; empty for RECORD itself.
    """

    path: str
    mode: int
    size: int
    member: zipfile.ZipInfo | None
    data: bytes
    digest: str


class Wheel:
    """An opened and checked wheel; use as a context manager.

    Args:
        path: the archive.
        python: feature release of the target, such as ``3.11``.
        name: file name to show and to read the project's name from; default: that of ``path``.
        digests: by member, what an earlier reading has found ``changed``: RECORD is made with it.

    Attributes:
        project: the distribution's name as the archive spells it.
        files: what it installs, sorted by the bytes of the path.
        changed: members read so far that RECORD has another hash for, with the digest of what they hold.

    Raises:
        WheelError: as the module's description states.
    """

    def __init__(self, path: str, python: str, name: str = "", digests: Mapping[str, str] = {}) -> None:
        self.changed: dict[str, str] = {}
        self.name = name or os.path.basename(path)  # noqa: PTH119 - a separate script, without pathlib's cost
        self.python = python
        self.site = f"{PREFIX}/lib/python{python}/site-packages"
        folders, links, made = skeleton(python, "/python")
        self._reserved = {*folders, *links, *made, f"{PREFIX}/lib64"}
        try:
            self._zip = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, struct.error) as error:
            raise WheelError(f"{self.name}: not a readable zip archive: {error}") from None
        try:
            self._members = self._read_members()
            self._info = self._find_info()
            self.project = self._info[: -len(".dist-info")].rpartition("-")[0]
            self._digests = {**self._read_record(), **digests}
            self.files = self._plan()
        except BaseException:
            self._zip.close()
            raise

    def __enter__(self) -> Wheel:
        """Return the wheel."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close the archive."""
        self._zip.close()

    def open(self, file: File) -> BinaryIO:
        """Open a file's content; reading to the end raises ``WheelError`` unless its size and CRC are right."""
        if file.member is None:
            return io.BytesIO(file.data)
        return _Checked(self, file)  # type: ignore[return-value]

    def read(self, file: File) -> bytes:
        """Return a file's whole content, checked as by ``open``."""
        with self.open(file) as stream:
            return stream.read()

    def wrong(self, member: str, message: str) -> WheelError:
        """Return the error for one member."""
        return WheelError(f"{self.name}: {member!r}: {message}")

    @contextmanager
    def faults(self, member: str) -> Iterator[None]:
        """Turn what zipfile and zlib raise into ``WheelError``."""
        try:
            yield
        except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, UnicodeDecodeError) as error:
            raise self.wrong(member, f"cannot be unpacked: {error}") from None
        except OSError as error:
            if error.errno is not None:  # bz2 has none to give
                raise
            raise self.wrong(member, f"cannot be unpacked: {error}") from None
        except Exception as error:
            if type(error).__module__ not in ("zlib", "lzma", "_lzma", "_bz2"):
                raise
            raise self.wrong(member, f"cannot be unpacked: {error}") from None

    def in_record(self, path: str) -> str:
        """Return the name that RECORD has for an installed file."""
        inside = path.startswith(f"{self.site}/")
        return path[len(self.site) + 1 :] if inside else f"../../../{path[len(PREFIX) + 1 :]}"

    def stream(self, member: zipfile.ZipInfo) -> BinaryIO:
        """Open a member as zipfile does."""
        with self.faults(member.filename):
            return self._zip.open(member)  # type: ignore[return-value]

    def note_changed(self, member: zipfile.ZipInfo) -> None:
        """Note a member that RECORD has another hash for; ``WheelError`` unless it has the archive's checksum."""
        self.changed[member.filename] = self._hash(member)

    def _read_members(self) -> dict[str, zipfile.ZipInfo]:
        """All members that are files, by name, after checking every name and kind."""
        found: dict[str, zipfile.ZipInfo] = {}
        plain = set()
        for member in self._zip.infolist():
            name = member.orig_filename
            if member.header_offset < 0:
                raise self.wrong(name, "the archive places it before its own start")
            path = name[:-1] if name.endswith("/") else name
            above, _, last = path.rpartition("/")
            for part in (last,) if above in plain else path.split("/"):
                if not _PART.fullmatch(part) or part in (".", "..") or part.startswith(".wh."):
                    raise self.wrong(name, "the name is not a plain relative path")
            if above:
                plain.add(above)
            kind = stat.S_IFMT(member.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise self.wrong(name, "expected a file or a directory, found a link or a device")
            if member.flag_bits & 1:
                raise self.wrong(name, "the member is encrypted")
            if name.endswith("/"):
                continue
            if name in found:
                raise self.wrong(name, "the archive holds this name twice")
            found[name] = member
        return found

    def _find_info(self) -> str:
        """The one top-level ``.dist-info`` folder."""
        infos = {name.partition("/")[0] for name in self._members}
        infos = {name for name in infos if name.endswith(".dist-info")}
        if len(infos) != 1:
            raise WheelError(f"{self.name}: expected exactly one .dist-info folder, found {sorted(infos)}")
        info = infos.pop()
        for needed in ("METADATA", "WHEEL", "RECORD"):
            if f"{info}/{needed}" not in self._members:
                raise self.wrong(f"{info}/{needed}", "the wheel lacks this file")
        stem = info[: -len(".dist-info")].rpartition("-")[0]
        if _normal(stem) != _normal(self.name.partition("-")[0]):
            raise self.wrong(info, f"expected the metadata of {self.name.partition('-')[0]!r}")
        for line in self._text(f"{info}/WHEEL").splitlines():
            key, _, value = line.partition(":")
            if key.strip().lower() == "wheel-version" and value.strip().partition(".")[0] != "1":
                raise self.wrong(f"{info}/WHEEL", f"expected Wheel-Version 1, found {value.strip()}")
        return info

    def _text(self, name: str) -> str:
        with self.faults(name), self._zip.open(self._members[name]) as stream:
            data = stream.read(_TEXT_LIMIT + 1)
        if len(data) > _TEXT_LIMIT:
            raise self.wrong(name, f"it is larger than {_TEXT_LIMIT} bytes")
        return data.decode("utf-8", "surrogateescape")

    def _read_record(self) -> dict[str, str]:
        """Digests by member name; those too weak or absent are left out."""
        name = f"{self._info}/RECORD"
        digests: dict[str, str] = {}
        for row in self._rows(name):
            if len(row) < 2 or not row[1]:
                continue
            algorithm, _, value = row[1].partition("=")
            if algorithm not in _ALGORITHMS:
                raise self.wrong(name, f"the hash of {row[0]!r} must be SHA-2, found {algorithm!r}")
            digests[row[0]] = f"{algorithm}={value.rstrip('=')}"
        return digests

    def _rows(self, name: str) -> list[list[str]]:
        try:
            return list(csv.reader(io.StringIO(self._text(name), newline="")))
        except csv.Error as error:
            raise self.wrong(name, f"not a CSV file: {error}") from None

    def _plan(self) -> list[File]:
        files: dict[str, File] = {}
        wrappers = self._wrappers()
        left_out = {f"{self._info}/{old}" for old in ("RECORD", "RECORD.jws", "RECORD.p7s", "INSTALLER")}
        scheme = f"{self._info[: -len('.dist-info')]}.data"
        for name, member in self._members.items():
            path, script = ("", False) if name in left_out else self._destination(name, scheme)
            place, _, base = path.rpartition("/")
            if place == self.site and base.endswith(".pth") and base <= _GUARD:  # whichever of its places it is from
                raise self.wrong(name, f"it would run before {_GUARD}, the guard's start")
            if path and path not in wrappers:
                file = self._script(path, member) if script else self._plain(path, member)
                if files.setdefault(path, file) is not file:
                    raise self.wrong(name, f"another member of the wheel also installs /{path}")
        for path, data in wrappers.items():
            files[path] = _made(path, data, 0o755)
        info = f"{self.site}/{self._info}"
        files[f"{info}/INSTALLER"] = _made(f"{info}/INSTALLER", INSTALLER, 0o644)
        files[f"{info}/RECORD"] = self._record(f"{info}/RECORD", files.values())
        for path in sorted(files.keys() & (self._reserved | folders_above(files))):
            raise self.wrong(path, "a file cannot be installed here: it is a folder or the environment's own")
        return [files[path] for path in sorted(files, key=_order)]

    def _destination(self, name: str, data: str) -> tuple[str, bool]:
        """Where a member goes (empty: nowhere) and whether it is a script; ``data`` is the ``.data`` folder."""
        top, _, rest = name.partition("/")
        if name.endswith(".pyc") and "/__pycache__/" in f"/{name}":
            return "", False
        if top != data:
            return f"{self.site}/{name}", False
        scheme, _, rest = rest.partition("/")
        folder = {
            "purelib": self.site,
            "platlib": self.site,
            "headers": f"{PREFIX}/include/site/python{self.python}/{self.project}",
            "scripts": f"{PREFIX}/bin",
            "data": PREFIX,
        }.get(scheme)
        if folder is None or not rest:
            raise self.wrong(name, "expected purelib, platlib, headers, scripts or data below the .data folder")
        return f"{folder}/{rest}", scheme == "scripts"

    def _plain(self, path: str, member: zipfile.ZipInfo, mode: int = 0) -> File:
        if not mode:
            mode = 0o755 if (member.external_attr >> 16) & 0o111 else 0o644
        digest = self._digests.get(member.filename) or self._hash(member)
        return File(path, mode, member.file_size, member, b"", digest)

    def _script(self, path: str, member: zipfile.ZipInfo) -> File:
        """A script of the wheel's own: ``#!python`` becomes the environment's interpreter."""
        with self.faults(member.filename), self._zip.open(member) as stream:
            head = stream.read(8)
            if not head.startswith(b"#!python"):
                return self._plain(path, member, 0o755)
        data = self.read(self._plain(path, member))
        return _made(path, b"#!" + _interpreter() + b"\n" + data.partition(b"\n")[2], 0o755)

    def _hash(self, member: zipfile.ZipInfo) -> str:
        """The digest of a member that RECORD forgot or has another one for; its checksum is compared."""
        digest = hashlib.sha256()
        with self.faults(member.filename), self._zip.open(member) as stream:
            while chunk := stream.read(CHUNK):
                digest.update(chunk)
        return f"sha256={record_digest(digest.digest())}"

    def _wrappers(self) -> dict[str, bytes]:
        """Scripts for the entry points, by path."""
        name = f"{self._info}/entry_points.txt"
        if name not in self._members:
            return {}
        found: dict[str, bytes] = {}
        group = ""
        for raw in self._text(name).splitlines():
            line = raw.strip()
            if line.startswith("[") and line.endswith("]"):
                group = line[1:-1].strip()
            elif line and line[0] not in "#;" and group in ("console_scripts", "gui_scripts"):
                script, _, target = (part.strip() for part in line.partition("="))
                match = _OBJECT.fullmatch(target)
                if match is None or not _SCRIPT.fullmatch(script):
                    raise self.wrong(name, f"{line!r} is not 'name = module:function' with a plain name")
                module, attribute = match.group("module", "attribute")
                if not _MODULE.fullmatch(module) or not _MODULE.fullmatch(attribute):
                    raise self.wrong(name, f"{target!r} does not name an object of a module")
                found[f"{PREFIX}/bin/{script}"] = _wrapper(module, attribute)
        return found

    def _record(self, path: str, files: Iterable[File]) -> File:
        """The new RECORD: sorted, paths relative to site-packages (PyPA, "Recording installed projects")."""
        rows = [(path[len(self.site) + 1 :], "", "")]
        for file in files:
            rows.append((self.in_record(file.path), file.digest, str(file.size)))
        rows.sort(key=lambda row: _order(row[0]))
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        return _made(path, text.getvalue().encode("utf-8", "surrogateescape"), 0o644)._replace(digest="")


class _Checked(io.RawIOBase):
    """Content of one member that is compared with RECORD's hash, else the checksum, when its end is reached."""

    def __init__(self, wheel: Wheel, file: File) -> None:
        assert file.member is not None  # noqa: S101 - callers open only members
        self._wheel = wheel
        self._info, self._member = file.member, file.member.filename
        algorithm, _, self._expected = file.digest.partition("=")
        self._hash = hashlib.new(algorithm)
        self._stream = wheel.stream(file.member)
        self._left = file.size

    def readable(self) -> bool:
        """Return True."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Read up to ``size`` bytes, or all."""
        with self._wheel.faults(self._member):
            chunk = self._stream.read(self._left if size is None or size < 0 else size)
        self._hash.update(chunk)
        self._left -= len(chunk)
        if (not self._left or not chunk) and record_digest(self._hash.digest()) != self._expected:
            self._wheel.note_changed(self._info)
        return chunk

    def close(self) -> None:
        """Close the member."""
        self._stream.close()
        super().close()


def parents(path: str) -> list[str]:
    """Return the folders above a relative path, outermost first."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def folders_above(paths: Iterable[str]) -> set[str]:
    """Return the folders above relative paths."""
    found: set[str] = set()
    for path in paths:
        folder = path.rpartition("/")[0]
        while folder and folder not in found:
            found.add(folder)
            folder = folder.rpartition("/")[0]
    return found


def skeleton(python: str, executable: str) -> tuple[list[str], dict[str, str], dict[str, bytes]]:
    """Return folders, links (path to target) and files of an empty virtual environment (PEP 405).

    Args:
        python: feature release such as ``3.11``.
        executable: the system's interpreter, an absolute path.
    """
    folder = executable.rpartition("/")[0] or "/"
    config = f"home = {folder}\ninclude-system-site-packages = false\nversion = {python}\nexecutable = {executable}\n"
    folders = [*parents(f"{PREFIX}/lib/python{python}/site-packages/x"), f"{PREFIX}/bin", f"{PREFIX}/include"]
    links = {
        f"{PREFIX}/bin/python": executable,
        f"{PREFIX}/bin/python3": "python",
        f"{PREFIX}/bin/python{python}": "python",
    }
    return folders, links, {f"{PREFIX}/pyvenv.cfg": config.encode()}


def _wrapper(module: str, attribute: str) -> bytes:
    first = attribute.partition(".")[0]
    text = f"import sys\n\nfrom {module} import {first}\n\nif __name__ == '__main__':\n    sys.exit({attribute}())\n"
    return b"#!" + _interpreter() + b"\n" + text.encode()


def _interpreter() -> bytes:
    return f"/{PREFIX}/bin/python".encode()


def _made(path: str, data: bytes, mode: int) -> File:
    return File(path, mode, len(data), None, data, f"sha256={record_digest(hashlib.sha256(data).digest())}")


def record_digest(digest: bytes) -> str:
    """Write a digest as RECORD does."""
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _order(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


def install(wheel: Wheel, root: str, sources: str = "") -> None:
    """Unpack a wheel below ``root``, replacing what is there; with ``sources``, its modules there as well."""
    for file in wheel.files:
        data = wheel.read(file)
        _write(os.path.join(root, file.path), data, file.mode)  # noqa: PTH118
        if sources and is_module(file.path):
            _write(os.path.join(sources, file.path), data, 0o644)  # noqa: PTH118


def install_record(wheel: Wheel, root: str) -> None:
    """Write only a wheel's RECORD, over one that had other hashes."""
    for file in wheel.files:
        if file.path.endswith(".dist-info/RECORD") and not file.digest:
            _write(os.path.join(root, file.path), wheel.read(file), file.mode)  # noqa: PTH118


def is_module(path: str) -> bool:
    """Return whether an installed file is to be compiled."""
    return path.endswith(".py") and "/site-packages/" in path


def _write(path: str, data: bytes, mode: int) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
    with open(path, "wb") as stream:
        stream.write(data)
        os.fchmod(stream.fileno(), mode)


def main(arguments: list[str]) -> int:
    """Make an environment from wheels; see the module's description."""
    parser = argparse.ArgumentParser(description="Make a virtual environment from wheels.")
    parser.add_argument("--python", required=True)
    parser.add_argument("--executable", required=True)
    parser.add_argument("--root", default="/")
    parser.add_argument("--sources", default="")
    parser.add_argument("wheels", nargs="*")
    options = parser.parse_args(arguments)
    os.umask(0o022)
    folders, links, files = skeleton(options.python, options.executable)
    for folder in folders:
        os.makedirs(os.path.join(options.root, folder), exist_ok=True)  # noqa: PTH103, PTH118
    for path, target in links.items():
        os.symlink(target, os.path.join(options.root, path))  # noqa: PTH118, PTH211
    for path, data in files.items():
        _write(os.path.join(options.root, path), data, 0o644)  # noqa: PTH118
    for number, path in enumerate(options.wheels):
        sources = options.sources and f"{options.sources}/{number:04}"
        try:
            with Wheel(path, options.python) as wheel:
                install(wheel, options.root, sources)
            if wheel.changed:
                print(f"{wheel.name}: RECORD has another hash for {', '.join(sorted(wheel.changed))}", file=sys.stderr)
                with Wheel(path, options.python, digests=wheel.changed) as wheel:
                    install_record(wheel, options.root)
        except WheelError as error:
            print(error, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
