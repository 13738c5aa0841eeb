"""Where files of Debian and Ubuntu come from: the spec's mirror, else apt's configuration, else a snapshot service.

None of this is in a lock. No address is built in: a machine states where its packages come from. Where apt is another
distribution's, its templates (package python-apt-common, which Ubuntu installs) name Debian's and Ubuntu's own mirrors.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from envbuild.core.settings import setting
from envbuild.errors import ResolveError
from envbuild.resolve.debian.releases import DEBIAN, UBUNTU, Distribution, owner_of

SNAPSHOT_VARIABLE = "ENVBUILD_DEBIAN_SNAPSHOT"
SNAPSHOT_VARIABLES = {DEBIAN.name: SNAPSHOT_VARIABLE, UBUNTU.name: "ENVBUILD_UBUNTU_SNAPSHOT"}
"""Name the snapshot service, by distribution."""

_MIRROR_OF = {DEBIAN.name: "a Debian", UBUNTU.name: "an Ubuntu"}
_EXAMPLE = {DEBIAN.name: "debian-12", UBUNTU.name: "ubuntu-24.04"}
_BEFORE = {DEBIAN.name: "/archive/debian/", UBUNTU.name: "/ubuntu/"}
_TIME = re.compile(r"[0-9]{8}T[0-9]{6}Z")
_URL = re.compile(r"(?:https?|file)://[A-Za-z0-9@:%._~!$&'()*+,;=/{}\[\]-]+")
_LINE = re.compile(r"deb\s+(?:\[[^\]]*\]\s+)?(\S+)\s+\S+")
_URIS = re.compile(r"^URIs:((?:.*\n?)(?:[ \t].*\n?)*)", re.MULTILINE | re.IGNORECASE)
# Debian's official container images note the snapshot they were made from in a comment of their sources.
_NOTE = re.compile(r"^#\s*(https?://\S+?)/archive/(?:debian|debian-security)/[0-9]{8}T[0-9]{6}Z\b", re.MULTILINE)
_STANZA = re.compile(r"^Suite:\s*(\S+)\s*$(?:\n(?!\s*$).*)*?\nBaseURI:\s*(\S+)\s*$", re.MULTILINE)
_APT = Path("/etc/apt")
_TEMPLATE = Path("/usr/share/python-apt/templates/Debian.info")
_BASE = re.compile(r"^BaseURI(?:-[a-z0-9]+)?:[ \t]*(\S+)[ \t]*$", re.MULTILINE)
_SETTING = re.compile(r'^\s*Acquire::Snapshots::URI::Origin::(Debian|Ubuntu)\s+"([^"]+)"\s*;', re.MULTILINE)


@dataclass(frozen=True, kw_only=True, slots=True)
class AptConfig:
    """A machine's apt configuration for Debian and Ubuntu.

    Attributes:
        mirrors: base addresses of each archive (such as ``debian``, ``debian-security``), in the order of the files.
        snapshot: base address of Debian's snapshot service, or empty.
        ubuntu_snapshot: base address of Ubuntu's, or empty.
    """

    mirrors: Mapping[str, tuple[str, ...]]
    snapshot: str = ""
    ubuntu_snapshot: str = ""

    def service(self, distribution: Distribution) -> str:
        """Return the base address of a distribution's snapshot service, or an empty string."""
        return self.ubuntu_snapshot if distribution is UBUNTU else self.snapshot


def check_snapshot(time: str) -> str:
    """Return ``time`` if it is a snapshot time such as ``20260115T000000Z``; raises ``ResolveError``."""
    if time and not _TIME.fullmatch(time):
        raise ResolveError(
            f"os snapshot: expected a UTC time such as 20260115T000000Z, found {time!r}",
            "write the day and hour as YYYYMMDDTHHMMSSZ",
        )
    return time


def check_mirror(mirror: str) -> str:
    """Return ``mirror`` without trailing slashes if it is an http, https or file address; raises ``ResolveError``."""
    if mirror and not _URL.fullmatch(mirror):
        raise ResolveError(
            f"os mirror: expected an http, https or file address, found {mirror!r}",
            "write it as in apt's sources, such as http://mirror.example.invalid/debian",
        )
    return mirror.rstrip("/")


def read_apt_config(root: Path = _APT, template: Path = _TEMPLATE) -> AptConfig:
    """Read apt's sources (one-line and deb822) and snapshot setting; a missing or unreadable file reports nothing.

    Sources: sources.list(5); an entry counts as Debian's if its path ends in ``/debian`` or ``/debian-security``, as
    Ubuntu's if it ends in ``/ubuntu`` or ``/ubuntu-ports``.

    Args:
        root: apt's folder.
        template: python-apt's description of Debian, read if the sources name no mirror of it; the one of Ubuntu is
            next to it.
    """
    texts = [_read(root / "sources.list"), *map(_read, sorted(root.glob("sources.list.d/*.list")))]
    uris = [match.group(1) for text in texts for line in text.splitlines() if (match := _LINE.match(line.strip()))]
    for path in sorted(root.glob("sources.list.d/*.sources")):
        texts.append(_read(path))
        for stanza in re.split(r"\n[ \t]*\n", _read(path)):
            if re.search(r"^Enabled:\s*(no|false|0)\s*$", stanza, re.MULTILINE | re.IGNORECASE):
                continue
            if not re.search(r"^Types:.*\bdeb\b(?!-src)", stanza, re.MULTILINE | re.IGNORECASE):
                continue
            kept = "\n".join(line for line in stanza.splitlines() if not line.startswith("#"))
            uris += [uri for field in _URIS.findall(kept) for uri in field.split()]
    mirrors = _mirrors_of(DEBIAN, uris)
    if not any(mirrors.values()):
        mirrors = _template_mirrors(_read(template))
    ubuntu = _mirrors_of(UBUNTU, uris)
    if not any(ubuntu.values()):
        ubuntu = _mirrors_of(UBUNTU, _BASE.findall(_read(template.with_name("Ubuntu.info"))))
    settings = _snapshot_settings(root)
    return AptConfig(
        mirrors=mirrors | {archive: found for archive, found in ubuntu.items() if found},
        snapshot=settings.get("Debian", "") or _noted_service(texts),
        ubuntu_snapshot=settings.get("Ubuntu", ""),
    )


def _mirrors_of(distribution: Distribution, uris: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Sort addresses by the archive that they end in."""
    mirrors: dict[str, tuple[str, ...]] = dict.fromkeys(distribution.archives, ())
    for uri in (uri.rstrip("/") for uri in uris):
        archive = uri.rsplit("/", 1)[-1]
        if archive in mirrors and _URL.fullmatch(uri) and uri not in mirrors[archive]:
            mirrors[archive] += (uri,)
    return mirrors


def archive_bases(
    archive: str, *, mirror: str = "", snapshot: str = "", apt: AptConfig, environ: Mapping[str, str] = os.environ
) -> tuple[str, ...]:
    """Return the base addresses of an archive, to be tried in order.

    Args:
        archive: such as ``debian``, ``debian-security`` or ``ubuntu``.
        mirror: the spec's mirror; ``{archive}`` and ``{snapshot}`` in it are replaced. Without them it is the
            address of the ``debian`` archive (the security archive is next to it) or the folder that holds both,
            and with ``snapshot`` it is the address of a snapshot service.
        snapshot: a time; then only a snapshot service will do.

    Raises:
        ResolveError: a snapshot is asked for, or apt names no mirror, and no snapshot service is known.
    """
    check_snapshot(snapshot)
    if mirror := check_mirror(mirror):
        return (_from_mirror(mirror, archive, snapshot),)
    if not snapshot and apt.mirrors.get(archive):
        return tuple(apt.mirrors[archive])
    owner = owner_of(archive) or DEBIAN
    service = _service(owner, apt, environ)
    if not service:
        if snapshot:
            service = f"the dated {owner.title} snapshot service"
            why = f"os snapshot: {snapshot} needs {service}, but no address of one is known"
        else:
            why = (
                f"no mirror of {archive} is known: neither os.mirror in the spec nor apt's sources nor python-apt's "
                "templates name one, and no snapshot service is known"
            )
        raise ResolveError(
            why,
            f"write the address of {_MIRROR_OF[owner.name]} mirror that this machine reaches into the spec, such as  "
            f"os: {{release: {_EXAMPLE[owner.name]}, mirror: http://mirror.example.invalid/{archive}}}; or "
            f"export {SNAPSHOT_VARIABLES[owner.name]}=ADDRESS (the part before {_BEFORE[owner.name]})",
        )
    return (_from_mirror(check_mirror(service), archive, snapshot or _today()),)


def origin(archive: str, apt: AptConfig, environ: Mapping[str, str] = os.environ) -> str:
    """Return the address of the snapshot service with ``{snapshot}`` still in it, or an empty string."""
    service = _service(owner_of(archive) or DEBIAN, apt, environ)
    return _from_mirror(check_mirror(service), archive, "{snapshot}") if service else ""


def _service(owner: Distribution, apt: AptConfig, environ: Mapping[str, str]) -> str:
    """Return the address of a distribution's snapshot service, or an empty string."""
    return setting(f"{owner.name}-snapshot", environ) or apt.service(owner)


def _from_mirror(mirror: str, archive: str, snapshot: str) -> str:
    """Fill a mirror's address in."""
    if "{archive}" in mirror or "{snapshot}" in mirror:
        if snapshot and "{snapshot}" not in mirror:
            raise ResolveError(
                f"os mirror: with a snapshot, expected {{snapshot}} in the address, found {mirror!r}",
                "write it as http://HOST/archive/{archive}/{snapshot}",
            )
        return mirror.replace("{archive}", archive).replace("{snapshot}", snapshot)
    if snapshot:
        # Ubuntu's snapshots of all architectures are below /ubuntu.
        owner = owner_of(archive) or DEBIAN
        name = owner.archives[0] if owner is UBUNTU else archive
        return f"{mirror}/{owner.dated.format(archive=name, snapshot=snapshot)}"
    parent, _, last = mirror.rpartition("/")
    return f"{parent}/{archive}" if last in (owner_of(archive) or DEBIAN).archives else f"{mirror}/{archive}"


def _template_mirrors(text: str) -> dict[str, tuple[str, ...]]:
    """Return the mirrors of each archive that python-apt's description of Debian names.

    The security archive is given there without its path, or is on the same server as the main one.
    """
    mirrors: dict[str, tuple[str, ...]] = dict.fromkeys(DEBIAN.archives, ())
    for suite, found in _STANZA.findall(text):
        uri = found.rstrip("/")
        security = suite.endswith(("-security", "/updates"))
        archive = "debian-security" if security else "debian"
        uri = uri if uri.endswith(f"/{archive}") or not security else f"{uri}/{archive}"
        if _URL.fullmatch(uri) and uri.endswith(f"/{archive}") and uri not in mirrors[archive]:
            mirrors[archive] += (uri,)
    same_server = tuple(f"{uri}-security" for uri in mirrors["debian"])
    return {**mirrors, "debian-security": tuple(dict.fromkeys((*mirrors["debian-security"], *same_server)))}


def _snapshot_settings(root: Path) -> dict[str, str]:
    """Find snapshot services in apt's settings, by the Origin of their archive."""
    found: dict[str, str] = {}
    for path in (root / "apt.conf", *sorted(root.glob("apt.conf.d/*"))):
        for origin, address in _SETTING.findall(_read(path)):
            end = "/archive/" if origin == DEBIAN.title else "/ubuntu/"
            found.setdefault(origin, address.split(end)[0].rstrip("/"))
    return found


def _noted_service(texts: Sequence[str]) -> str:
    """Find Debian's snapshot service in the notes that official images carry."""
    for text in texts:
        if match := _NOTE.search(text):
            return match.group(1)
    return ""


def _today() -> str:
    """Return the current UTC day as a snapshot time; the service answers with the newest snapshot before it."""
    import time

    return time.strftime("%Y%m%dT000000Z", time.gmtime())


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""
