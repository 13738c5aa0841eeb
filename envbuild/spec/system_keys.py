"""The keys below ``os``: systems, the components of their archives, and further archives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envbuild.core import types
from envbuild.spec import validators
from envbuild.spec.fields import Choice, Field, ListOf, Table, Text
from envbuild.spec.package_fields import KeyFile, Tables
from envbuild.spec.yaml import Report

PYTHONS: Mapping[str, str] = {
    "debian-11": "3.9",
    "debian-12": "3.11",
    "debian-13": "3.13",
    "debian-testing": "3.14",
    "ubuntu-22.04": "3.10",
    "ubuntu-24.04": "3.12",
    "ubuntu-26.04": "3.14",
}
"""The one Python of each release (its package python3)."""

DEFAULTS: Mapping[str, str] = {name: PYTHONS[name] for name in ("debian-12", "debian-13")}
"""Releases that envbuild suggests where a project does not name one."""

COMPONENTS: Mapping[str, tuple[str, ...]] = {
    "debian": ("main", "contrib", "non-free", "non-free-firmware"),
    "ubuntu": ("main", "universe", "restricted", "multiverse"),
}
"""What the archive of a distribution consists of."""

COMMON: Mapping[str, str] = {
    "tzdata": "time zones, for zoneinfo and pandas",
    "ca-certificates": "certificates of authorities, for TLS",
}
"""What is in every image made of packages, unless the spec leaves it out."""

ARCHITECTURES: Mapping[str, str] = {"amd64": "64-bit x86", "arm64": "64-bit ARM"}
"""What images are made for, by Debian's name."""
_ABSENT: Mapping[str, tuple[str, ...]] = {"debian-11": ("non-free-firmware",)}
"""Components of the distribution that a release does not have."""

_CODENAMES = {
    "debian-11": "bullseye",
    "debian-12": "bookworm",
    "debian-13": "trixie",
    "debian-testing": "forky",
    "ubuntu-22.04": "jammy",
    "ubuntu-24.04": "noble",
    "ubuntu-26.04": "resolute",
}
_OWN = ("debian", "debian-security", "ubuntu", "ubuntu-ports")


def os_table() -> Table:
    """Return the table of the key ``os``."""
    titles = {name: name.replace("-", " ").title() for name in PYTHONS}
    releases = {name: f"{titles[name]} ({_CODENAMES[name]}), Python {python}" for name, python in PYTHONS.items()}
    short = {codename: name for name, codename in _CODENAMES.items()}
    short |= {name.replace("-", ":"): name for name in PYTHONS}
    return Table(
        alone="release",
        expected="a release such as debian-12, or a mapping with release",
        elsewhere={
            "arch": "architecture",
            "url": "mirror",
            "date": "snapshot",
            "from": "image",
            "packages": "packages",
            "sources": "archives",
            "repositories": "archives",
        },
        check=_check,
        fields={
            "release": Field(
                kind=Choice(values=releases, short=short),
                doc="The release of Debian or Ubuntu.",
                default="debian-12",
                examples=("debian-13", "ubuntu-24.04"),
            ),
            "architecture": Field(
                kind=Choice(values=ARCHITECTURES),
                doc="The Debian architecture.",
                default="amd64",
                examples=("arm64",),
            ),
            "mirror": Field(
                kind=Text(expected="an address", check=validators.mirror, rules={"pattern": "^(https?|file)://"}),
                doc="Mirror to take the release's packages from.",
                default=None,
                default_doc="the machine's apt configuration",
                examples=("https://mirror.example.invalid/debian",),
            ),
            "snapshot": Field(
                kind=Text(expected="a time in UTC", check=validators.snapshot),
                doc="Take packages as the archive had them at this time (UTC).",
                default=None,
                default_doc="the archive as it is at lock time",
                examples=("2026-07-11", "20260711T000000Z"),
            ),
            "components": Field(
                kind=ListOf(
                    item=Choice(values=dict.fromkeys((part for parts in COMPONENTS.values() for part in parts), "")),
                    expected="a list of components such as main",
                ),
                doc="Components of the archive that are searched. "
                + "; ".join(f"{name.title()}: {', '.join(parts)}" for name, parts in COMPONENTS.items())
                + ".",
                default=None,
                default_doc="Debian: main; Ubuntu: main, universe",
                examples=(["main", "non-free"],),
            ),
            "archives": Field(
                kind=Tables(table=_archive_table(), expected="a list of mappings, one for each archive"),
                doc="Further apt archives, each with its own key, searched for what the release does not have.",
                default=[],
                examples=(
                    [
                        {
                            "name": "company",
                            "url": "https://apt.example.invalid/debian",
                            "suite": "bookworm",
                            "key": "keys/company.asc",
                        }
                    ],
                ),
            ),
            "without": Field(
                kind=ListOf(item=Choice(values=COMMON), expected="a list of tzdata or ca-certificates"),
                doc="What to leave out of the packages that every image has. "
                + "; ".join(f"`{word}`: {meaning}" for word, meaning in COMMON.items())
                + ".",
                default=[],
                examples=(["tzdata"],),
            ),
            "image": Field(
                kind=Text(
                    expected="an image by digest", check=validators.image, rules={"pattern": "@sha256:[0-9a-f]{64}$"}
                ),
                doc="Base image to start from instead of packages, by digest. It must hold glibc and Python.",
                default=None,
                default_doc="none: the system is built from packages",
                examples=(f"debian@sha256:{'0123456789abcdef' * 4}",),
            ),
        },
    )


def _archive_table() -> Table:
    return Table(
        expected="a mapping with name, url, suite and key",
        elsewhere={"mirror": "url", "uri": "url", "signed-by": "key", "distribution": "suite", "arch": "architecture"},
        check=_check_archive,
        fields={
            "name": Field(
                kind=Text(
                    expected="a name",
                    check=validators.archive_name,
                    rules={"pattern": validators.schema_pattern(types.Archive)},
                ),
                doc="What the lock calls the archive.",
                examples=("company",),
            ),
            "url": Field(
                kind=Text(expected="an address", check=validators.archive, rules={"pattern": "^(https?|file)://"}),
                doc="Its address, as in apt's sources; {snapshot} in it is replaced by the time in os.snapshot.",
                examples=("https://apt.example.invalid/debian",),
            ),
            "suite": Field(
                kind=Text(
                    expected="a suite",
                    check=validators.suite,
                    rules={"pattern": validators.schema_pattern(types.SuiteName)},
                ),
                doc="Its suite; a path that ends in a slash for an archive without suites, such as NVIDIA's.",
                examples=("bookworm", "/"),
            ),
            "components": Field(
                kind=ListOf(
                    item=Text(expected="a component", check=validators.component), expected="a list of components"
                ),
                doc="Its components that are searched.",
                default=["main"],
                examples=(["stable"],),
            ),
            "key": Field(
                kind=KeyFile(),
                doc="File of the OpenPGP key that signs it, next to the spec. It is trusted for this archive alone.",
                examples=("keys/company.asc",),
            ),
            "replaces": Field(
                kind=ListOf(
                    item=Text(expected="a package name", check=validators.build_package),
                    expected="a list of Debian packages",
                ),
                doc="Packages to take from it although the release has them.",
                default=[],
                examples=(["libopenblas0"],),
            ),
        },
    )


def _check(values: dict[str, Any], path: str, report: Report) -> None:
    """Refuse components that the release does not have, and two archives of one name."""
    release = values.get("release", "debian-12")
    known = [name for name in COMPONENTS[release.partition("-")[0]] if name not in _ABSENT.get(release, ())]
    components = values.get("components")
    if components is not None:
        for component in components:
            if component not in known:
                report.add(f"{path}.components", f"{release} has no {component} — it has {', '.join(known)}")
        if "main" not in components:
            report.add(f"{path}.components", "main is missing, which has the system itself — write [main, …]")
    names = [archive.get("name") for archive in values.get("archives", ())]
    for name in dict.fromkeys(name for name in names if name and names.count(name) > 1):
        report.add(f"{path}.archives", f"two archives are called {name}")
    if not values.get("snapshot"):
        for index, archive in enumerate(values.get("archives", ())):
            if "{snapshot}" in archive.get("url", ""):
                report.add(f"{path}.archives[{index}].url", "has {snapshot}, but there is no os.snapshot")


def _check_archive(values: dict[str, Any], path: str, report: Report) -> None:
    """Refuse names that belong to the systems, and components where there are none."""
    if values.get("name") in _OWN:
        report.add(f"{path}.name", f"{values['name']} is an archive of a release — choose another name")
    if values.get("suite", "").endswith("/") and "components" in values:
        report.add(f"{path}.components", "an archive without suites has no components — leave them out")
