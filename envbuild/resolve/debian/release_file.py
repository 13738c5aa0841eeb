"""InRelease files: who signed them, what they contain, and whether they are still valid.

Source: https://wiki.debian.org/DebianRepository/Format and apt-secure(8).
"""

from __future__ import annotations

import email.utils
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from envbuild.core import clock
from envbuild.core.clock import minutes, utc_now
from envbuild.core.digest import sha256_bytes
from envbuild.core.package_data import archive_keys
from envbuild.errors import IntegrityError

if TYPE_CHECKING:
    from pysequoia import Cert

KEYS_VARIABLE = "ENVBUILD_DEBIAN_KEYS"
KEYS_VARIABLES = {"debian": KEYS_VARIABLE, "ubuntu": "ENVBUILD_UBUNTU_KEYS"}
"""Names further keyrings, by distribution."""
_OWNER = {"debian": "a Debian archive key", "ubuntu": "an Ubuntu archive key"}
_THE_SPEC = "the key that the spec names for the archive"
_FUTURE = timedelta(days=1)
_SIGNATURE = b"-----BEGIN PGP SIGNATURE-----"
_FIELD = re.compile(r"^([A-Za-z][A-Za-z0-9-]*):[ \t]*(.*)$", re.MULTILINE)


class UntrustedReleaseError(IntegrityError):
    """No trusted key signed the file, or it was altered; an archive of the same name elsewhere may be the one meant."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseFile:
    """The signed content of an InRelease file.

    Attributes:
        source: its address, for messages.
        sha256: of the whole file as it came, signature included.
        fields: the one-line fields.
        date: when the archive made it.
        key_expires: when the last of the keys that signed it expires; None if one never does.
        text: the signed text, of which hashes are read.
    """

    source: str
    sha256: str
    fields: Mapping[str, str]
    date: datetime
    key_expires: datetime | None = None
    text: str = field(repr=False)

    def files(self, *names: str) -> dict[str, tuple[str, int]]:
        """Return SHA-256 and size in bytes of those of the named files that the SHA256 section lists."""
        found = {}
        section = self.text.partition("\nSHA256:")[2]
        section = re.split(r"^\S", section, maxsplit=1, flags=re.MULTILINE)[0] if section else ""
        for name in names:
            if match := re.search(rf"^ ([0-9a-f]{{64}})[ \t]+([0-9]+)[ \t]+{re.escape(name)}[ \t]*$", section, re.M):
                found[name] = (match[1], int(match[2]))
        return found


def environment_keyrings(environ: Mapping[str, str] = os.environ, distribution: str = "debian") -> tuple[Path, ...]:
    """Return the further keyring files that a distribution's variable names, separated by colons."""
    return tuple(Path(part) for part in environ.get(KEYS_VARIABLES[distribution], "").split(os.pathsep) if part)


def read_release(data: bytes, source: str, keyrings: Sequence[Path] = (), distribution: str = "debian") -> ReleaseFile:
    """Verify an InRelease file and read what was signed of it; nothing outside the signature is looked at.

    Args:
        data: the file's bytes.
        source: its address, for messages.
        keyrings: further files of trusted certificates, next to the distribution's own in ``data/keys``.
        distribution: whose certificates are trusted; empty: those of ``keyrings`` only.

    Raises:
        IntegrityError: not signed, not by a trusted key, altered, or without a Date.
    """
    if not data.startswith(b"-----BEGIN PGP SIGNED MESSAGE-----"):
        raise IntegrityError(
            f"{source}: expected a cleartext signature, found {data[:40]!r}",
            "check the mirror: this is no InRelease file",
        )
    import pysequoia

    certificates = trusted_certificates(tuple(keyrings), distribution)
    asked: list[str] = []

    def store(keys: list[str]) -> list[Cert]:
        asked.extend(keys)
        return list(certificates)

    try:
        signed = pysequoia.verify(bytes=data, store=store)
        text = bytes(signed.bytes or b"").decode("utf-8")
    except UnicodeDecodeError as error:
        raise IntegrityError(f"{source}: expected UTF-8 text, found: {error}") from None
    except Exception as error:
        raise _bad_signature(source, data, asked, error, distribution) from None
    fields = dict(_FIELD.findall(text))
    return ReleaseFile(
        source=source,
        sha256=sha256_bytes(data),
        fields=fields,
        date=_time(fields, "Date", source),
        key_expires=_last_expiry(certificates, [signature.certificate for signature in signed.valid_sigs]),
        text=text,
    )


def check_release(
    release: ReleaseFile, suite: str, *, now: datetime, judged: datetime | None, distribution: str = "debian"
) -> None:
    """Check that a release file is the one asked for and still valid.

    Args:
        suite: the codename asked for, such as ``bookworm-security``; a path that ends in a slash for an archive
            without suites, whose release file names none.
        now: the present time.
        judged: the time at which it, and the key that signed it, must have been valid: the present, or that of a dated
            snapshot; None if neither is asked (offline, of what was valid when it came).
        distribution: as for ``read_release``, for messages.

    Raises:
        IntegrityError: another suite, expired, signed by a key that has expired, or from the future.
    """
    # Some private archives name only a Suite. Ubuntu's noble-updates has the Codename noble too.
    named = release.fields.get("Suite", "")
    found = release.fields.get("Codename") or named
    if named.startswith(f"{suite}-"):
        found = named
    if not suite.endswith("/") and suite not in (found, named):
        raise IntegrityError(
            f"{release.source}: Codename: expected {suite}, found {found or 'none'}", "check the mirror's address"
        )
    latest = now if judged is None else min(now, judged)
    if release.date > latest + _FUTURE:
        raise IntegrityError(
            f"{release.source}: Date: expected a time before {minutes(latest)}, found {release.fields['Date']}",
            clock.CHECK if latest == now else "the mirror has no such snapshot: use another one",
        )
    if judged is None:
        return
    if release.key_expires is not None and release.key_expires < judged:
        raise IntegrityError(
            f"{release.source}: expected a signature by a key that is valid on {judged:%Y-%m-%d}, "
            f"found one that expired on {release.key_expires:%Y-%m-%d}",
            "use another mirror; if the archive has extended the key, a newer envbuild has it, "
            f"or export {KEYS_VARIABLES.get(distribution, KEYS_VARIABLE)}=KEYRING"
            if distribution
            else "replace the key's file in the spec by the archive's present one",
        )
    if "Valid-Until" not in release.fields:
        return
    if (until := _time(release.fields, "Valid-Until", release.source)) < judged:
        raise IntegrityError(
            f"{release.source}: Valid-Until: expected a time after {minutes(judged)}, found {minutes(until)}",
            "the mirror is stale: use another one, or pin the past with a snapshot time in the spec; "
            "or this machine's clock is ahead: date -u"
            if judged == now
            else "the mirror gives an older state than asked for: use another one, or ask for a time before this",
        )


def _time(fields: Mapping[str, str], name: str, source: str) -> datetime:
    """Read a date field; raises ``IntegrityError``."""
    value = fields.get(name, "")
    try:
        moment = email.utils.parsedate_to_datetime(value)
    except (TypeError, ValueError, OverflowError):
        raise IntegrityError(f"{source}: {name}: expected a date, found {value!r}") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)


def _last_expiry(certificates: Sequence[Cert], signers: Sequence[str]) -> datetime | None:
    """Return when the last of the certificates that signed expires; None if one never does."""
    names = {name.lower() for name in signers}
    found = [certificate.expiration for certificate in certificates if certificate.fingerprint.lower() in names]
    moments = [moment for moment in found if moment is not None]
    return max(moments) if moments and len(moments) == len(found) else None


def _bad_signature(
    source: str, data: bytes, asked: Sequence[str], error: Exception, distribution: str
) -> IntegrityError:
    """Distinguish a missing key, altered bytes, and a signature that the clock has not reached."""
    now, made = utc_now(), _signed_at(data)
    if made is not None and made > now:
        return IntegrityError(
            f"{source}: signature: expected one made before {minutes(now)} (this machine's clock), "
            f"found one of {minutes(made)}",
            clock.CHECK,
        )
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    keys = ", ".join(key.upper() for key in dict.fromkeys(asked)) or "none"
    return UntrustedReleaseError(
        f"{source}: expected a good signature by {_OWNER.get(distribution, _THE_SPEC)}, found: {reason}; "
        f"signed by: {keys}; SHA-256 of the file: {sha256_bytes(data)}",
        f"the file was altered, or its key is not trusted: try another mirror, "
        f"or for an archive of your own export {KEYS_VARIABLES[distribution]}=KEYRING"
        if distribution
        else "the file was altered, or signed by a key that os.archives does not name for it",
    )


def _signed_at(data: bytes) -> datetime | None:
    """Return when a signature says that it was made, which nobody has verified; None if it cannot be read."""
    import pysequoia

    try:
        return pysequoia.Sig.from_bytes(data[data.rindex(_SIGNATURE) :]).created
    except Exception:
        return None


@lru_cache(maxsize=8)
def trusted_certificates(keyrings: tuple[Path, ...], distribution: str = "debian") -> tuple[Cert, ...]:
    """Read a distribution's own certificates and those of further keyrings.

    They get faster by use, so threads share them.

    Args:
        distribution: empty: those of ``keyrings`` only.
    """
    from pysequoia import Cert

    own = archive_keys(distribution) if distribution else ()
    return tuple(certificate for path in (*own, *keyrings) for certificate in _read_keyring(path, Cert))


def _read_keyring(path: Path, reader: type[Cert]) -> Iterator[Cert]:
    read: Callable[[bytes], Sequence[Cert]] = reader.split_bytes
    try:
        found = read(path.read_bytes())
    except OSError as error:
        raise IntegrityError(f"{path}: expected a keyring, found: {error.strerror}", f"check {KEYS_VARIABLE}") from None
    except Exception as error:
        reason = str(error).splitlines()[0]
        raise IntegrityError(f"{path}: expected a keyring, found: {reason}", f"check {KEYS_VARIABLE}") from None
    yield from found
