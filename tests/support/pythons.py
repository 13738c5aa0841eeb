"""Archives in the form of standalone builds of CPython, made of what is at hand, in a folder with a list of its own.

python -m tests.support.pythons PREFIX FOLDER   packs an installed CPython (./configure --prefix)

The real archives are downloads of a foreign host. These have their form: one relocatable tree below ``python/``.
"""

from __future__ import annotations

import gzip
import io
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from envbuild.core.digest import sha256_file

RELEASE = "20261110"
LICENCE = b"A. HISTORY OF THE SOFTWARE\n\nPYTHON SOFTWARE FOUNDATION LICENSE VERSION 2\n"
SKIPPED = {"test", "tests", "idlelib", "turtledemo", "config", "tkinter", "ensurepip", "lib2to3", "dist-packages"}
"""Folders of the standard library that stand-ins do without."""


def file_name(version: str, release: str = RELEASE, machine: str = "x86_64") -> str:
    """Return the name that the project gives an archive."""
    return f"cpython-{version}+{release}-{machine}-unknown-linux-gnu-install_only_stripped.tar.gz"


def members(tree: Mapping[str, bytes | str], programs: Iterable[str] = ()) -> list[tuple[tarfile.TarInfo, bytes]]:
    """Return members of an archive: files as bytes, symbolic links as text, by path below the top folder."""
    found = []
    for path, content in tree.items():
        member = tarfile.TarInfo(f"python/{path}")
        member.mode, member.mtime, member.uid, member.uname = 0o644, 1_700_000_000, 1000, "builder"
        if path in programs:
            member.mode = 0o775
        if isinstance(content, str):
            member.type, member.linkname = tarfile.SYMTYPE, content
            found.append((member, b""))
        else:
            member.size = len(content)
            found.append((member, content))
    return found


def write_archive(target: Path, content: Iterable[tuple[tarfile.TarInfo, bytes]]) -> Path:
    """Write an archive; equal content gives equal bytes."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with (
        target.open("wb") as output,
        gzip.GzipFile(fileobj=output, mode="wb", mtime=0, compresslevel=1) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for member, data in content:
            tar.addfile(member, io.BytesIO(data))
    return target


def tiny_tree(feature: str = "3.12") -> dict[str, bytes | str]:
    """Return what an archive must have at least, and some of what an image leaves out."""
    library = f"lib/python{feature}"
    return {
        "bin/pip": b"#!/bin/sh\n",
        "bin/python": f"python{feature}",
        f"bin/python{feature}": b"\x7fELF interpreter",
        f"{library}/LICENSE.txt": LICENCE,
        f"{library}/__pycache__/os.cpython-312.pyc": b"old",
        f"{library}/os.py": b"x = 1\n",
        f"{library}/site-packages/pip/__init__.py": b"",
    }


def tiny_archive(target: Path, feature: str = "3.12", **more: bytes | str) -> Path:
    """Write the smallest archive that is one; ``more`` are further members."""
    tree = {**tiny_tree(feature), **more}
    return write_archive(target, members(tree, ("bin/pip", f"bin/python{feature}")))


def write_list(folder: Path) -> None:
    """Write the folder's own list of the archives in it."""
    rows = []
    for path in sorted(folder.glob("*/cpython-*.tar.gz")):
        version = path.name.split("-")[1].partition("+")[0]
        rows.append(f'"{version}" = {{path = "{path.relative_to(folder)}", sha256 = "{sha256_file(path)}"}}\n')
    (folder / "pythons.toml").write_text("[amd64]\n" + "".join(rows))


def from_prefix(prefix: Path, folder: Path) -> Path:
    """Pack an installed CPython, relocatable by its own search for its library, and list it; returns the archive."""
    text = subprocess.run([prefix / "bin/python3", "-c", _ASK], check=True, capture_output=True, text=True).stdout
    version = text.strip()
    feature = version.rpartition(".")[0]
    archive = folder / RELEASE / file_name(version)
    write_archive(archive, _tree(prefix / "bin" / f"python{feature}", prefix / "lib", feature))
    write_list(folder)
    return archive


def from_debs(debs: Iterable[Path], scratch: Path, folder: Path) -> Path:
    """Pack the Python of a Debian release from its packages, and list it; returns the archive."""
    for deb in debs:
        if re.match(r"(lib)?python3\.\d+(-minimal|-stdlib)?_", deb.name):
            version = re.split(r"[_-]", deb.name.partition("_")[2])[0]
            subprocess.run(["dpkg-deb", "-x", deb, scratch], check=True)
    feature = version.rpartition(".")[0]
    archive = folder / RELEASE / file_name(version)
    write_archive(archive, _tree(scratch / "usr/bin" / f"python{feature}", scratch / "usr/lib", feature))
    write_list(folder)
    return archive


_ASK = "import platform; print(platform.python_version())"


def _tree(program: Path, libraries: Path, feature: str) -> list[tuple[tarfile.TarInfo, bytes]]:
    """Return the members for one interpreter and its standard library."""
    top = libraries / f"python{feature}"
    tree: dict[str, bytes | str] = {
        "bin/python": f"python{feature}",
        "bin/python3": f"python{feature}",
        f"bin/python{feature}": program.read_bytes(),
        f"lib/python{feature}/LICENSE.txt": LICENCE,
    }
    for path in sorted(top.rglob("*")):
        inner = path.relative_to(top)
        left_out = not SKIPPED.isdisjoint(inner.parts) or inner.parts[0].startswith(("config-", "site-packages"))
        if path.is_file() and not path.is_symlink() and not left_out and path.suffix != ".pyc":
            tree[f"lib/python{feature}/{inner}"] = path.read_bytes()
    return members(tree, (f"bin/python{feature}",))


if __name__ == "__main__":
    sys.stdout.write(f"{from_prefix(Path(sys.argv[1]), Path(sys.argv[2]).absolute())}\n")
