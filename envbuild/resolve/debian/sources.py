"""Where Debian files come from: the spec's mirror, else apt's own configuration, else the dated snapshot service.

None of this is in a lock. No address is built in: a machine states where its packages come from. Where apt is another
distribution's, its templates (package python-apt-common, which Ubuntu installs) name Debian's own mirror.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from envbuild.core.settings import setting
from envbuild.errors import ResolveError
from envbuild.resolve.debian.releases import ARCHIVES

SNAPSHOT_VARIABLE = "ENVBUILD_DEBIAN_SNAPSHOT"

_TIME = re.compile(r"[0-9]{8}T[0-9]{6}Z")
_URL = re.compile(r"(?:https?|file)://[A-Za-z0-9@:%._~!$&'()*+,;=/{}\[\]-]+")
_LINE = re.compile(r"deb\s+(?:\[[^\]]*\]\s+)?(\S+)\s+\S+")
_URIS = re.compile(r"^URIs:((?:.*\n?)(?:[ \t].*\n?)*)", re.MULTILINE | re.IGNORECASE)
# Debian's official container images note the snapshot they were made from in a comment of their sources.
_NOTE = re.compile(r"^#\s*(https?://\S+?)/archive/(?:debian|debian-security)/[0-9]{8}T[0-9]{6}Z\b", re.MULTILINE)
_STANZA = re.compile(r"^Suite:\s*(\S+)\s*$(?:\n(?!\s*$).*)*?\nBaseURI:\s*(\S+)\s*$", re.MULTILINE)
_APT = Path("/etc/apt")
_TEMPLATE = Path("/usr/share/python-apt/templates/Debian.info")
_SETTING = re.compile(r'^\s*Acquire::Snapshots::URI::Origin::Debian\s+"([^"]+)"\s*;', re.MULTILINE)


@dataclass(frozen=True, kw_only=True, slots=True)
class AptConfig:
    """A machine's apt configuration for Debian.

    Attributes:
        mirrors: base addresses of each archive (``debian``, ``debian-security``), in the order of the files.
        snapshot: base address of the snapshot service, or empty.
    """

    mirrors: Mapping[str, tuple[str, ...]]
    snapshot: str = ""


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

    Sources: sources.list(5); an entry counts as Debian's if its path ends in ``/debian`` or ``/debian-security``.

    Args:
        root: apt's folder.
        template: python-apt's description of Debian, read if the sources name no mirror of it.
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
    mirrors: dict[str, tuple[str, ...]] = dict.fromkeys(ARCHIVES, ())
    for uri in (uri.rstrip("/") for uri in uris):
        archive = uri.rsplit("/", 1)[-1]
        if archive in mirrors and _URL.fullmatch(uri) and uri not in mirrors[archive]:
            mirrors[archive] += (uri,)
    if not any(mirrors.values()):
        mirrors = _template_mirrors(_read(template))
    return AptConfig(mirrors=mirrors, snapshot=_snapshot_service(root, texts))


def archive_bases(
    archive: str, *, mirror: str = "", snapshot: str = "", apt: AptConfig, environ: Mapping[str, str] = os.environ
) -> tuple[str, ...]:
    """Return the base addresses of an archive, to be tried in order.

    Args:
        archive: ``debian`` or ``debian-security``.
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
    service = setting("debian-snapshot", environ) or apt.snapshot
    if not service:
        if snapshot:
            why = f"os snapshot: {snapshot} needs the dated Debian snapshot service, but no address of one is known"
        else:
            why = (
                f"no mirror of {archive} is known: neither os.mirror in the spec nor apt's sources nor python-apt's "
                "templates name one, and no snapshot service is known"
            )
        raise ResolveError(
            why,
            "write the address of a Debian mirror that this machine reaches into the spec, such as  os: {release: "
            "debian-12, mirror: http://mirror.example.invalid/debian}; or "
            f"export {SNAPSHOT_VARIABLE}=ADDRESS (the part before /archive/debian/)",
        )
    return (_from_mirror(check_mirror(service), archive, snapshot or _today()),)


def origin(archive: str, apt: AptConfig, environ: Mapping[str, str] = os.environ) -> str:
    """Return the address of the snapshot service with ``{snapshot}`` still in it, or an empty string."""
    service = setting("debian-snapshot", environ) or apt.snapshot
    return _from_mirror(check_mirror(service), archive, "{snapshot}") if service else ""


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
        return f"{mirror}/archive/{archive}/{snapshot}"
    parent, _, last = mirror.rpartition("/")
    return f"{parent}/{archive}" if last in ARCHIVES else f"{mirror}/{archive}"


def _template_mirrors(text: str) -> dict[str, tuple[str, ...]]:
    """Return the mirrors of each archive that python-apt's description of Debian names.

    The security archive is given there without its path, or is on the same server as the main one.
    """
    mirrors: dict[str, tuple[str, ...]] = dict.fromkeys(ARCHIVES, ())
    for suite, found in _STANZA.findall(text):
        uri = found.rstrip("/")
        security = suite.endswith(("-security", "/updates"))
        archive = "debian-security" if security else "debian"
        uri = uri if uri.endswith(f"/{archive}") or not security else f"{uri}/{archive}"
        if _URL.fullmatch(uri) and uri.endswith(f"/{archive}") and uri not in mirrors[archive]:
            mirrors[archive] += (uri,)
    same_server = tuple(f"{uri}-security" for uri in mirrors["debian"])
    return {**mirrors, "debian-security": tuple(dict.fromkeys((*mirrors["debian-security"], *same_server)))}


def _snapshot_service(root: Path, texts: Sequence[str]) -> str:
    """Find a snapshot service in apt's settings, else in the notes that official images carry."""
    for path in (root / "apt.conf", *sorted(root.glob("apt.conf.d/*"))):
        if match := _SETTING.search(_read(path)):
            return match.group(1).split("/archive/")[0].rstrip("/")
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
