"""The interpreter without the rest of its system: enough to compile modules while the OS layer is still being made.

Its Debian packages and all they depend on are unpacked, by no script of theirs. What an interpreter compiles follows
from its own files alone; that the bytes are those that the finished system gives is a test.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from envbuild.core.digest import sha256_json
from envbuild.core.fs import atomic_file
from envbuild.image.os import bootstrap
from envbuild.image.os.seed import Source, add_member, add_skeleton, open_packages, unpacked
from envbuild.image.os.tree import Members, Tree
from envbuild.image.tar.layer import Entry
from envbuild.lockfile.model import Lock, Os

_VERSION = 1
"""Another number where other files than before are unpacked."""
_UNUSED = re.compile(
    r"/lib(?:crypto|ssl|sqlite3|krb5|k5crypto|gssapi_krb5|db|readline|ncursesw|tinfo|tirpc|nsl|pcre2-8|mvec)[.-][^/]*$"
    r"|/engines-3/|/ossl-modules/|/bin/(?:dpkg|tar)[^/]*$|/lib-dynload/(?:_ssl|_hashlib|_sqlite3|_decimal|_dbm)"
    r"|/(?:pydoc_data|lib2to3|idlelib|ensurepip)/"
)
"""TLS, databases, terminals. Compiling needs argparse, importlib, marshal, pathlib and tarfile, and what the compiler
imports by itself: every codec (sources state their encoding) and unicodedata."""
_SHELL = "dash"
"""Engines may start a step's command through a shell, podman does."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Interpreter:
    """A root file system that holds an interpreter.

    Attributes:
        key: SHA-256 of all it depends on.
        write: writes its tar to a path; raises as ``build_os_layer`` does.
        fill: writes its members to a stream, in any order; raises likewise.
    """

    key: str
    write: Callable[[Path], None]
    fill: Callable[[BinaryIO], None]


def interpreter_of(lock: Lock, store_path: Callable[[str], Path]) -> Interpreter | None:
    """Return a lock's interpreter; None over a base image, whose packages are not files of their own.

    Args:
        store_path: path of a file by its SHA-256.
    """
    if lock.os.image:
        return None
    packages = sorted(package.sha256 for package in lock.os.packages)
    key = sha256_json({"version": _VERSION, "packages": packages, "architecture": lock.os.architecture})
    return Interpreter(
        key=key,
        write=lambda path: write_interpreter(lock.os, store_path, path),
        fill=lambda output: fill_interpreter(lock.os, store_path, output),
    )


class _Needed(Members):
    """Leaves out what ``compile.py`` imports nothing of, a third of all bytes."""

    def add(self, entry: Entry, data: BinaryIO | bytes | None = None) -> None:
        """Take an entry, or leave it out; raises as ``Members.add`` does."""
        if not _UNUSED.search(entry.path):
            super().add(entry, data)


def write_interpreter(os: Os, store_path: Callable[[str], Path], target: Path) -> None:
    """Write the tar of a system in which Python runs.

    Raises:
        IntegrityError: a package file is missing or does not match the lock.
        BuildError: a package is unsound.
    """
    with Tree(target.parent, "the interpreter") as tree:
        _add_interpreter(os, store_path, tree)
        with atomic_file(target, sync=False) as output:
            tree.write(output)


def fill_interpreter(os: Os, store_path: Callable[[str], Path], output: BinaryIO) -> None:
    """Write the members of a system in which Python compiles, in any order; raises as ``write_interpreter`` does."""
    _add_interpreter(os, store_path, _Needed(output, "the interpreter"))


def _add_interpreter(os: Os, store_path: Callable[[str], Path], tree: Tree | Members) -> None:
    sources = {source.package.name: source for source in open_packages(os, store_path)}
    wanted = bootstrap.closure(
        _packages(sources), (name for name in sources if is_of_interpreter(name) or name == _SHELL)
    )
    for source, data in unpacked((sources[name] for name in sorted(wanted)), whole=False):
        for entry, content in source.deb.members(data):
            add_member(tree, entry, content)
    add_skeleton(tree, os.architecture)


def is_of_interpreter(name: str) -> bool:
    """Whether a Debian package is part of Python itself."""
    return name.startswith(("python3", "libpython3"))


def _packages(sources: Mapping[str, Source]) -> list[bootstrap.Package]:
    return [
        bootstrap.Package(name=name, file=source.package.file, fields=source.fields) for name, source in sources.items()
    ]
