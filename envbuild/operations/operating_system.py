"""The operating system of a lock: Debian made of packages, or a base image.

Of a base image the engine gives the file system, the store keeps it, and the lock names both digests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from envbuild import __version__
from envbuild.core.digest import sha256_json
from envbuild.core.platforms import MACHINES
from envbuild.errors import EngineError, IntegrityError, ResolveError
from envbuild.image.os.base import Facts, read_facts
from envbuild.lockfile import layout
from envbuild.lockfile import model as locks
from envbuild.lockfile.pylock import LIBRARY_PATH
from envbuild.operations.events import BaseImageFetched, Events
from envbuild.spec.environment import refuse
from envbuild.spec.model import Archive, Spec
from envbuild.store.objects import Store

if TYPE_CHECKING:
    from envbuild.engine.protocol import BaseImages, ImageInfo
    from envbuild.resolve.debian.further import FurtherArchive

Connect = Callable[[], "BaseImages"]
"""Called only if an engine is needed."""

_KIND = "base-images"
_FACTS = "facts.json"

_NOT_INHERITED = frozenset({"HOME", "HOSTNAME", "NVIDIA_VISIBLE_DEVICES", "PWD", "PYTHONPATH", "TERM"})
"""Variables of the image that are the engine's or the run's, or let in modules that no lock names."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Base:
    """What a lock takes from a base image."""

    os: locks.Os
    python: locks.Python
    environment: dict[str, str]


class Export(msgspec.Struct, frozen=True, kw_only=True):
    """What is remembered of an exported image: the file system's digest and size in bytes, and what it holds."""

    rootfs: str
    size: int
    facts: Facts
    environment: dict[str, str]


def system_python(spec: Spec) -> locks.Python | None:
    """Return the interpreter of the spec's release; None if it does not have what the spec asks for.

    A release with a third number is never the system's: its packages move with security updates.
    """
    from envbuild.resolve.debian import releases

    if spec.python not in ("", releases.find_release(spec.os.release).python):
        return None
    interpreter = releases.system_python(spec.os.release)
    return locks.Python(version=interpreter.version, executable=interpreter.executable, platform=platform_of(spec))


def platform_of(spec: Spec) -> str:
    """Return the newest platform tag that interpreters of the spec's release accept."""
    from envbuild.resolve.debian import releases

    glibc = releases.find_release(spec.os.release).glibc
    return f"manylinux_{glibc[0]}_{glibc[1]}_{MACHINES[spec.os.architecture]}"


def snapshot_service(system: locks.Os) -> tuple[str, str]:
    """Return the distribution's name for people, and the address of its snapshot service; empty if none is known."""
    from envbuild.resolve.debian.releases import distribution_of
    from envbuild.resolve.debian.sources import origin, read_apt_config

    found = distribution_of(system.release)
    return found.title, origin(found.archives[0], read_apt_config())


def resolve_system(
    spec: Spec,
    folder: Path,
    added: Iterable[str],
    store: Store,
    events: Events,
    *,
    refresh: bool,
    held: Sequence[locks.OsPackage] = (),
    note: Callable[[str], None] = lambda text: None,
) -> locks.Os:
    """Resolve the closure of the Python it has, what every image has, the spec's packages and those added for wheels.

    Args:
        folder: of the spec, which paths in it are relative to.
        held: packages of an earlier lock, as ``held_packages`` gives them.
        note: receives sentences that a person should read.
    """
    from envbuild.resolve.debian import closure, releases

    own = system_python(spec)
    python = releases.STANDALONE_LIBRARIES
    if own:
        python = releases.system_python(spec.os.release).packages
    common = releases.common_packages(spec.os.release, spec.os.without)
    asked = {package.name for package in spec.packages}
    wanted = closure.OsRequest(
        release=spec.os.release,
        architecture=spec.os.architecture,
        packages=tuple(sorted({*python, *common, *added, *asked})),
        snapshot=spec.os.snapshot,
        mirror=spec.os.mirror,
        components=spec.os.components,
        archives=tuple(_further(archive, folder) for archive in spec.os.archives),
        versions={package.name: package.version for package in spec.packages if package.version},
        held=tuple(held),
    )
    return closure.resolve_os(wanted, store.cache_dir("debian"), events, refresh=refresh, note=note)


def _further(archive: Archive, folder: Path) -> FurtherArchive:
    from envbuild.resolve.debian.further import FurtherArchive

    return FurtherArchive(
        name=archive.name,
        url=archive.url,
        suite=archive.suite,
        components=archive.components,
        key=folder / archive.key,
        replaces=archive.replaces,
    )


def held_packages(spec: Spec, old: locks.Lock | None, moved: Collection[str]) -> tuple[locks.OsPackage, ...]:
    """Return the OS packages that an earlier lock pins: those of the same system at the same time.

    Args:
        moved: names of packages to take as new as the archive has them.
    """
    if old is None or old.os.image or spec.os.image:
        return ()
    if (old.os.release, old.os.architecture, old.os.snapshot) != (
        spec.os.release,
        spec.os.architecture,
        spec.os.snapshot,
    ):
        return ()
    return tuple(package for package in old.os.packages if package.name not in moved)


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


def find_base_images(store: Store, events: Events) -> BaseImages:
    """Find what brings base images: the container engine that is asked for, else the registry itself.

    Raises:
        UsageError: ``ENVBUILD_ENGINE`` names no kind of engine.
        EngineError: the engine that was asked for does not answer.
    """
    from envbuild.operations.base_images import RegistryImages
    from envbuild.operations.engines import chosen_kind, connect_container_engine

    if chosen_kind() in ("docker", "podman"):
        return connect_container_engine()
    return RegistryImages(store, events)


def lock_base(spec: Spec, store: Store, events: Events, connect: Connect | None = None) -> Base:
    """Look into the spec's base image, bringing it into the store if need be.

    Raises:
        ResolveError: the registry does not give the image, or it is of no use: another architecture, no such Python,
            no GNU C library, or envbuild's own folders in it.
        EngineError: no container engine answers.
    """
    export = _exported(spec.os.image, spec.os.architecture, store, events, connect, offline=False)
    facts = export.facts
    if facts.taken:
        raise ResolveError(
            f"os.image: {spec.os.image} has {' and '.join(facts.taken)} already, which envbuild makes",
            "use an image without it; what envbuild built is no base image",
        )
    if facts.glibc < (2, 5):
        raise ResolveError(
            f"os.image: {spec.os.image} has no GNU C library, which manylinux wheels need",
            "use an image of Debian, Ubuntu, Fedora or another system with glibc",
        )
    version = _choose_python(spec, facts)
    glibc = f"{facts.glibc[0]}_{facts.glibc[1]}"
    return Base(
        os=locks.Os(
            release=facts.release,
            architecture=spec.os.architecture,
            image=spec.os.image,
            image_rootfs=export.rootfs,
            image_size=export.size,
        ),
        python=locks.Python(
            version=version,
            executable=facts.pythons[version],
            platform=f"manylinux_{glibc}_{MACHINES[spec.os.architecture]}",
        ),
        environment=export.environment,
    )


def fetch_base_image(
    system: locks.Os, store: Store, events: Events, connect: Connect | None = None, *, offline: bool
) -> None:
    """Have a locked base image's file system in the store.

    Raises:
        IntegrityError: the registry does not give the image, or its file system is not the one locked.
        EngineError: no container engine answers.
    """
    if store.has(system.image_rootfs, system.image_size):
        return
    try:
        export = _exported(system.image, system.architecture, store, events, connect, offline=offline)
    except ResolveError as error:
        raise IntegrityError(error.message, error.hint) from None
    if export.rootfs != system.image_rootfs:
        raise IntegrityError(
            f"the file system of {system.image} is not the one locked\n"
            f"  expected  sha256:{system.image_rootfs}\n  found     sha256:{export.rootfs}",
            "the lock was made by another version of envbuild, or altered; lock again: envbuild lock spec.yaml",
        )
    events.report(BaseImageFetched(image=system.image.partition("@")[0], bytes=export.size))


def _choose_python(spec: Spec, facts: Facts) -> str:
    """Return the feature release to use: the spec's, or the only one the image has."""
    if not facts.pythons:
        raise ResolveError(
            f"python: {spec.os.image} has no Python in /usr/local/bin, /usr/bin, /bin or /opt/*/bin",
            "use an image with Python, or one of envbuild's own systems: os: debian-12",
        )
    if spec.python in facts.pythons:
        return spec.python
    first, *others = facts.pythons
    if not spec.python and not others:
        return first
    wanted = f"not {spec.python}" if spec.python else "and the spec does not name one"
    has = ", ".join(facts.pythons)
    raise ResolveError(f"python: {spec.os.image} has Python {has}, {wanted}", f'write in the spec: python: "{first}"')


def _exported(
    image: str, architecture: str, store: Store, events: Events, connect: Connect | None, *, offline: bool
) -> Export:
    """Return what is known of an image; its file system is in the store afterwards.

    An image by digest never changes, so that the engine is asked once.
    """
    reference = _reference(image)
    key = sha256_json([reference, architecture, layout.VERSION, __version__])

    def make(folder: Path) -> None:
        engine = connect() if connect is not None else find_base_images(store, events)
        held = _held(engine, reference, architecture, events, offline=offline)
        export = _export(engine, held, reference, architecture, folder / "base.tar", store, events)
        (folder / _FACTS).write_bytes(msgspec.json.encode(export))

    for attempt in (1, 2):
        folder = store.derive(_KIND, key, make)
        export = msgspec.json.decode((folder / _FACTS).read_bytes(), type=Export)
        if attempt == 2 or store.has(export.rootfs, export.size):
            return export
        store.forget(_KIND, key)  # its file system was removed from the store
    raise AssertionError("unreachable")


def _held(engine: BaseImages, reference: str, architecture: str, events: Events, *, offline: bool) -> ImageInfo:
    """Return the image as the engine holds it, pulled if need be."""
    held = engine.find_image(reference)
    if held is None or held.architecture != architecture:
        if offline:
            raise IntegrityError(
                f"neither store nor engine has {reference}", "run it once without --offline, or: docker pull it before"
            )
        try:
            with events.phase("base image: pull"):
                engine.pull_image(reference, architecture)
        except EngineError as error:
            hint = f"check the digest, and that the engine may read that registry: docker pull {reference}"
            raise ResolveError(f"os.image: {error.message}", error.hint or hint) from None
        held = engine.find_image(reference)
    if held is None or held.architecture != architecture:
        raise ResolveError(
            f"os.image: {reference}: expected an image for {architecture}, "
            f"found {held.architecture if held else 'none'}",
            f"use the digest of its image for {architecture}",
        )
    return held


def _export(
    engine: BaseImages, held: ImageInfo, reference: str, architecture: str, path: Path, store: Store, events: Events
) -> Export:
    """Normalise the image's file system into the store."""
    from envbuild.image.os.rootfs import image_layer_from_export

    with events.phase("base image: export"), engine.export_image(reference, architecture) as stream:
        layer = image_layer_from_export(stream, path)
    facts = read_facts(path)
    store.add_file(path, layer.diff_id)
    path.unlink()
    environment = {
        name: value
        for name, value in sorted(held.environment.items())
        if name not in _NOT_INHERITED and value.isprintable() and (name == LIBRARY_PATH or not refuse(name, value))
    }
    return Export(rootfs=layer.diff_id, size=layer.size, facts=facts, environment=environment)


def _reference(image: str) -> str:
    """Drop the tag: the digest identifies it, and engines disagree on names with both."""
    return re.sub(r":[^/:@]*@", "@", image)
