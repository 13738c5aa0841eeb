"""The operating system of a lock when it is Debian from packages: its Python, and its closure."""

from __future__ import annotations

from collections.abc import Iterable

from envbuild.cli.console import Console
from envbuild.core.text import human_bytes, plural
from envbuild.errors import ResolveError
from envbuild.lockfile import model as locks
from envbuild.spec.model import Spec
from envbuild.store.objects import Store

MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
"""Debian's names of architectures, and those in platform tags."""


def system_python(spec: Spec) -> locks.Python:
    """Return the interpreter of the spec's release; raises ``ResolveError`` if it has no such Python."""
    from envbuild.resolve.debian import releases

    release = releases.find_release(spec.os.release)
    interpreter = releases.system_python(spec.os.release, spec.python)
    platform = f"manylinux_{release.glibc[0]}_{release.glibc[1]}_{MACHINES[spec.os.architecture]}"
    return locks.Python(version=interpreter.version, executable=interpreter.executable, platform=platform)


def resolve_system(spec: Spec, added: Iterable[str], store: Store, console: Console, *, refresh: bool) -> locks.Os:
    """Resolve the closure of Python, the spec's packages and those added for wheels."""
    from envbuild.resolve.debian import closure, releases

    interpreter = releases.system_python(spec.os.release, spec.python)
    wanted = closure.OsRequest(
        release=spec.os.release,
        architecture=spec.os.architecture,
        packages=tuple(sorted({*interpreter.packages, *added, *(package.name for package in spec.packages)})),
        snapshot=spec.os.snapshot,
        mirror=spec.os.mirror,
    )
    return closure.resolve_os(wanted, store.cache_dir("debian"), console, refresh=refresh)


def check_pins(spec: Spec, system: locks.Os) -> None:
    """Refuse a pinned OS package whose version the archive does not have."""
    found = {package.name: package.version for package in system.packages}
    for index, package in enumerate(spec.packages):
        if package.version and found.get(package.name) != package.version:
            raise ResolveError(
                f"packages[{index}]: {package.name} {package.version} is not in the archive, which has "
                f"{found.get(package.name, 'none')}",
                f"write {package.name}={found.get(package.name, '…')}, or pin the archive: os.snapshot",
            )


def report(system: locks.Os, console: Console) -> None:
    """Print which packages were locked."""
    os_bytes = sum(package.size for package in system.packages)
    signed = f"signatures verified (Debian {system.release.rpartition('-')[2]} archive keys)"
    origin = f"snapshot {system.snapshot}" if system.snapshot else ""
    packages = plural(len(system.packages), "package")
    console.line("os", f"{system.release:<18}", f"{packages:<12}", f"{human_bytes(os_bytes):<8}", signed, origin)
