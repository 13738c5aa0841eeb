"""A maker of small Debian archives: Packages, InRelease signed by a key made for the test, pool files if wanted.

Source of the format: https://wiki.debian.org/DebianRepository/Format.
"""

from __future__ import annotations

import email.utils
import gzip
import hashlib
import lzma
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from pathlib import Path

import pysequoia


@lru_cache(maxsize=4)
def signing_key(name: str = "archive") -> pysequoia.Tsk:
    """Return a key pair; the same one for the same name."""
    return pysequoia.Tsk.generate(f"{name} <{name}@example.invalid>")


def keyring(path: Path, name: str = "archive") -> Path:
    """Write the certificate of a test key to ``path``."""
    path.write_bytes(bytes(signing_key(name).extract_certificate()))
    return path


def sign(text: str, name: str = "archive") -> bytes:
    """Return ``text`` with a cleartext signature."""
    return bytes(pysequoia.sign(signing_key(name).signer(), text.encode(), mode=pysequoia.SignatureMode.CLEAR))


def stanza(name: str, version: str = "1", architecture: str = "amd64", **fields: str) -> str:
    """Return one entry of a Packages file; ``pre_depends`` means Pre-Depends, and so on."""
    digest = hashlib.sha256(f"{name} {version}".encode()).hexdigest()
    lines = {
        "Package": name,
        "Version": version,
        "Architecture": architecture,
        "Priority": "optional",
        # Later keys replace earlier ones, so a test may give its own Priority.
        **{"-".join(word.capitalize() for word in key.split("_")): value for key, value in fields.items()},
        "Filename": f"pool/main/{name[0]}/{name}/{name}_{version.split(':')[-1]}_{architecture}.deb",
        "Size": "1000",
        "SHA256": digest,
    }
    return "".join(f"{key}: {value}\n" for key, value in lines.items())


@dataclass(kw_only=True)
class SuiteMaker:
    """One suite, to be written as files below its archive's root.

    Attributes:
        stanzas: entries of its Packages file.
        files: further files below the suite, listed in its InRelease.
        fields: set or replace fields of InRelease; an empty value removes one.
        by_hash: also offer files by hash, and report it.
    """

    archive: str
    suite: str
    stanzas: Iterable[str] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)
    architecture: str = "amd64"
    date: datetime = field(default_factory=lambda: datetime.now(timezone.utc) - timedelta(hours=1))
    key: str = "archive"
    by_hash: bool = True

    def write(self, root: Path) -> Path:
        """Write the suite below ``root/ARCHIVE`` and return the suite's folder."""
        folder = root / self.archive / "dists" / self.suite
        text = "\n".join(self.stanzas).encode()
        index = f"main/binary-{self.architecture}/Packages"
        files = {index: text, f"{index}.xz": lzma.compress(text), f"{index}.gz": gzip.compress(text), **self.files}
        for name, data in files.items():
            write(folder / name, data)
            if self.by_hash:
                digest = hashlib.sha256(data).hexdigest()
                write(folder / name.rpartition("/")[0] / "by-hash" / "SHA256" / digest, data)
        (folder / index).unlink()  # as Debian does: only packed indexes are there
        write(folder / "InRelease", sign(self.release(files), self.key))
        return folder

    def release(self, files: Mapping[str, bytes]) -> str:
        """Return the text of InRelease."""
        fields = {
            "Origin": "Test",
            "Suite": "testing-" + self.suite,
            "Codename": self.suite,
            "Date": email.utils.format_datetime(self.date.astimezone(timezone.utc), usegmt=False),
            "Acquire-By-Hash": "yes" if self.by_hash else "",
            "Architectures": f"all {self.architecture}",
            "No-Support-for-Architecture-all": "Packages",
            "Components": "main",
            **self.fields,
        }
        lines = [f"{key}: {value}" for key, value in fields.items() if value] + ["SHA256:"]
        lines += [f" {hashlib.sha256(data).hexdigest()} {len(data):8} {name}" for name, data in sorted(files.items())]
        return "\n".join(lines) + "\n"


def write(path: Path, data: bytes) -> None:
    """Write a file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


BASE = (
    stanza("base-files", "12", essential="yes", pre_depends="libc6"),
    stanza("libc6", "2.36-9", multi_arch="same"),
)
"""A tiny system: one essential package and what it needs."""


def write_release(
    root: Path,
    *,
    main: Iterable[str] = BASE,
    updates: Iterable[str] = (),
    security: Iterable[str] = (),
    codename: str = "bookworm",
    date: datetime | None = None,
    key: str = "archive",
) -> None:
    """Write the three suites of a release."""
    parts = (
        ("debian", codename, main),
        ("debian", f"{codename}-updates", updates),
        ("debian-security", f"{codename}-security", security),
    )
    for archive, suite, stanzas in parts:
        maker = SuiteMaker(archive=archive, suite=suite, stanzas=stanzas, key=key)
        if date is not None:
            maker.date = date
        maker.write(root)
