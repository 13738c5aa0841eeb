"""From a lock to its bill of materials: every locked file once, with its layer and what it needs."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from envbuild.lockfile.model import Lock, OsPackage, PythonBuild, PythonPackage, lock_digest
from envbuild.sbom import graph
from envbuild.sbom.values import Bill, Component, Evidence, Image

_SUPPLIERS = {"debian": "Debian", "ubuntu": "Ubuntu"}


def bill(lock: Lock, image: Image, evidence: Mapping[str, Evidence]) -> Bill:
    """Describe a lock.

    Args:
        image: its image: layers as planned, with digests where it is recorded.
        evidence: what files report about themselves, by SHA-256; nothing is reported about those that are not there.
    """
    system = next(index for index, layer in enumerate(image.layers) if layer.system)
    debs = [_deb(lock, package, system, evidence.get(package.sha256)) for package in lock.os.packages]
    at = {sha256: index for index, layer in enumerate(image.layers) for sha256 in layer.wheels}
    wheels = [
        _wheel(package, at[package.wheel.sha256], evidence.get(package.wheel.sha256)) for package in lock.packages
    ]
    python = [_python(build, at[build.sha256], evidence.get(build.sha256)) for build in (lock.python.build,) if build]
    components = sorted([*_base(lock, system), *debs, *python, *wheels], key=lambda item: item.ref)
    needs = _needs(lock, evidence, components)
    distribution, _, release = lock.os.release.partition("-")
    return Bill(
        name=lock.name,
        version=lock_digest(lock)[:12],
        lock=lock_digest(lock),
        layout=lock.layout,
        image=image,
        system=(distribution, release),
        components=tuple(components),
        needs=needs,
        top=graph.top((item.ref for item in components), needs),
    )


def _deb(lock: Lock, package: OsPackage, layer: int, evidence: Evidence | None) -> Component:
    """Describe a Debian package (purl type ``deb``; the qualifier ``upstream`` is what scanners match sources by)."""
    further = {archive.name for archive in lock.os.archives}
    distribution = package.archive if package.archive in further else lock.os.release.partition("-")[0]
    ref = f"pkg:deb/{distribution}/{_encoded(package.name)}@{_encoded(package.version)}?arch={package.architecture}"
    source = evidence.source if evidence else ("", "")
    upstream = source[0] if source[0] != package.name or source[1] != package.version else ""
    if upstream and source[1] != package.version:
        upstream = f"{upstream}@{source[1]}"
    return Component(
        kind="deb",
        ref=ref,
        name=package.name,
        version=package.version,
        purl=f"{ref}&distro={lock.os.release}" + (f"&upstream={_encoded(upstream)}" if upstream else ""),
        sha256=package.sha256,
        size=package.size,
        file=package.file,
        layer=layer,
        licence=evidence.licence if evidence else None,
        supplier=_SUPPLIERS.get(distribution, distribution if distribution in further else ""),
    )


def _wheel(package: PythonPackage, layer: int, evidence: Evidence | None) -> Component:
    """Describe a wheel (purl type ``pypi``: the name is the normalised one)."""
    ref = f"pkg:pypi/{package.name}@{_encoded(package.version)}"
    return Component(
        kind="wheel",
        ref=ref,
        name=package.name,
        version=package.version,
        purl=ref,
        sha256=package.wheel.sha256,
        size=package.wheel.size,
        file=package.wheel.name,
        layer=layer,
        licence=evidence.licence if evidence else None,
    )


def _python(build: PythonBuild, layer: int, evidence: Evidence | None) -> Component:
    """Describe a standalone Python (purl type ``generic``: CPython is in no registry)."""
    ref = f"pkg:generic/cpython@{_encoded(build.version)}"
    return Component(
        kind="python",
        ref=ref,
        name="cpython",
        version=build.version,
        purl=f"{ref}?checksum=sha256:{build.sha256}&file_name={_encoded(build.file)}",
        sha256=build.sha256,
        size=build.size,
        file=build.file,
        layer=layer,
        licence=evidence.licence if evidence else None,
    )


def _base(lock: Lock, layer: int) -> list[Component]:
    """Describe the base image, if there is one (purl type ``oci``: the version is the image's digest)."""
    name, _, digest = lock.os.image.partition("@")
    if not digest:
        return []
    path, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:
        path, tag = name, ""
    ref = f"pkg:oci/{_encoded(path.rpartition('/')[2].lower())}@{_encoded(digest)}"
    qualifiers = f"repository_url={_encoded(path)}" + (f"&tag={_encoded(tag)}" if tag else "")
    return [
        Component(
            kind="base",
            ref=ref,
            name=path,
            version=digest,
            purl=f"{ref}?{qualifiers}",
            sha256=digest.removeprefix("sha256:"),
            size=lock.os.image_size,
            file="",
            layer=layer,
        )
    ]


def _needs(lock: Lock, evidence: Mapping[str, Evidence], components: list[Component]) -> dict[str, tuple[str, ...]]:
    by_sha256 = {item.sha256: item.ref for item in components}
    by_name = {package.name: by_sha256[package.wheel.sha256] for package in lock.packages}
    debs = graph.deb_needs(lock.os.packages, evidence)
    needs = {by_sha256[one]: tuple(sorted(by_sha256[other] for other in others)) for one, others in debs.items()}
    for name, others in graph.wheel_needs(lock, evidence).items():
        needs[by_name[name]] = tuple(sorted(by_name[other] for other in others))
    return dict(sorted(needs.items()))


def _encoded(text: str) -> str:
    """Percent-encode a part of a package URL; a colon stays, as the specification wants it."""
    return quote(text, safe=":~")
