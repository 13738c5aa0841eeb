"""Sentences about a lock that a person should read: what would build, and then fail when it is imported."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from envbuild.core import package_data
from envbuild.core.text import plural

if TYPE_CHECKING:
    from envbuild.lockfile.model import Lock
    from envbuild.spec.model import Spec

_STANDARD = re.compile(r"python3-(?:all|dbg|dev|distutils|doc|examples|full|gdbm|lib2to3|minimal|tk|venv)(?:-.*)?")
"""Packages of Debian that are parts of Python itself, which the environment sees."""


# What installing them writes, by their packages' scripts and documentation: docs/explanation/reproducibility.md.
_OWN_DATA = {
    re.compile(r"mariadb-server(-[0-9.]+)?|mysql-server(-[0-9.]+)?"): "a database with times and random identifiers",
    re.compile(r"postgresql-[0-9]+"): "a database with an identifier made of the time",
    re.compile(r"rabbitmq-server"): "a random cookie",
    re.compile(r"slapd"): "a directory with times, identifiers and a salted password",
    re.compile(r"postfix"): "a table with a random identifier",
}


def notes(spec: Spec, lock: Lock) -> Iterator[str]:
    """Yield a sentence for everything in a lock that is there, or lacking, in a way that its author hardly means."""
    yield from _unseen(spec)
    yield from _moving(spec)
    yield from _of_numpy_1(lock)
    yield from _of_another_torch(lock)
    if lock.os.packages:
        yield from _opened_by_name(lock)
        yield from _own_data(lock)


def _unseen(spec: Spec) -> Iterator[str]:
    """Yield a note on Debian's Python packages: they are for Debian's own programs."""
    names = [package.name for package in spec.packages if package.name.startswith("python3-")]
    unseen = [name for name in names if not _STANDARD.fullmatch(name)]
    if unseen:
        # Only a name that is known to be the same: python3-yaml is pyyaml, and `yaml` may be anybody's.
        known = {*package_data.data("popular.txt").decode().split()}
        wheels = [short for name in unseen if (short := name.removeprefix("python3-")) in known]
        way = f"write  requirements: [{', '.join(wheels)}]" if wheels else "name in requirements the packages of Python"
        if wheels and len(wheels) < len(unseen):
            way += "  and the packages of Python that have the others"
        yield (
            "the image's Python environment does not see modules of Debian packages: "
            f"{', '.join(unseen)}; to import them, {way}{'' if wheels else ' that have them'}"
        )


def _moving(spec: Spec) -> Iterator[str]:
    """Yield a note on a system whose packages are on its mirrors for days only."""
    if spec.os.release == "debian-testing" and not spec.os.snapshot and not spec.os.image:
        yield (
            "debian-testing changes every day, and its mirrors soon lack what is locked here: take it as it was at a "
            "time (os: {release: debian-testing, snapshot: YYYY-MM-DD}), or keep the files: envbuild store push PLACE"
        )


def _of_numpy_1(lock: Lock) -> Iterator[str]:
    """Yield a note on each wheel that cannot be imported with the locked NumPy, as the table of releases has it."""
    from envbuild.resolve.libraries.numpy_abi import compiled_for_numpy_1

    numpy = next((package.version for package in lock.packages if package.name == "numpy"), "")
    for found in compiled_for_numpy_1(lock.packages, {source.name for source in lock.sources}):
        yield (
            f"{found.name} {found.version} was compiled for NumPy 1, and numpy {numpy} is locked, which refuses its "
            f"modules; write requirements: [numpy<2], or {found.name}>={found.first}, and lock again"
        )


def _of_another_torch(lock: Lock) -> Iterator[str]:
    """Yield a note on PyTorch's companions for CUDA where PyTorch is for CPUs: what they define is not there then.

    On amd64 a release without a local version is the one for CUDA.
    """
    versions = {package.name: package.version for package in lock.packages}
    public, _, build = versions.get("torch", "").partition("+")
    if build != "cpu" or lock.os.architecture != "amd64":
        return
    for name in ("torchvision", "torchaudio"):
        version, _, label = versions.get(name, "").partition("+")
        if version and label != build:
            cuda = f"[torch=={public}{_label(label)}, {name}=={version}{_label(label)}]"
            yield (
                f"torch {versions['torch']} is for CPUs, and {name} {versions[name]} is not: its operators need "
                f"libraries of CUDA, and importing it may fail; write requirements: {cuda}, both for CUDA, which "
                f"compute on CPUs too; or {name}=={version}+cpu, if the index of this torch has it"
            )


def _label(local: str) -> str:
    return f"+{local}" if local else ""


def _own_data(lock: Lock) -> Iterator[str]:
    """Yield a note on servers whose installation is known to differ from one build to the next."""
    names = [package.name for package in lock.os.packages]
    found = [f"{name}: {what}" for pattern, what in _OWN_DATA.items() for name in names if pattern.fullmatch(name)]
    if found:
        yield (
            f"installing these packages writes what differs in every build ({'; '.join(found)}), so the image's digest "
            "does not repeat; leave the server out and start it elsewhere, or share the one image: envbuild push"
        )


def _opened_by_name(lock: Lock) -> Iterator[str]:
    """Yield a note on libraries and programs that wheels ask for by name."""
    from envbuild.resolve.libraries.closure import opened_by_name

    found = opened_by_name(lock.packages, (package.name for package in lock.os.packages), lock.os.release)
    if found:
        reasons = "; ".join(dict.fromkeys(reason for each in found.values() for reason in each))
        lacking = f"{plural(len(found), 'package')} of Debian that wheels use at run time"
        yield f"the image lacks {lacking} ({reasons}); add  packages: [{', '.join(found)}]"
