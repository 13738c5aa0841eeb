"""The install script makes Java's certificate store the same in every build, and leaves alone what it does not know."""

from __future__ import annotations

import hashlib
import re
import struct
import subprocess
from pathlib import Path

import pytest

from envbuild.image.os.seed import install_script

EPOCH = 315_532_800_000
"""1980-01-01 in milliseconds, as Java counts."""


def keystore(times: tuple[int, ...], password: str = "changeit", tag: int = 2) -> bytes:
    """Return a store of certificates as sun.security.provider.JavaKeyStore writes it."""
    body = struct.pack(">III", 0xFEEDFEED, 2, len(times))
    for number, time in enumerate(times):
        alias, content = f"debian:{number}.pem".encode(), bytes([number]) * (300 + number)
        body += struct.pack(">IH", tag, len(alias)) + alias + struct.pack(">QH", time, 5) + b"X.509"
        body += struct.pack(">I", len(content)) + content
    return body + hashlib.sha1(password.encode("utf-16-be") + b"Mighty Aphrodite" + body).digest()


def clamped(folder: Path, data: bytes) -> bytes:
    """Return what the script makes of a file."""
    found = re.search(r"^clamp_keystore\(\) \{.*?^\}$", install_script().decode(), re.M | re.S)
    assert found
    path = folder / "cacerts"
    path.write_bytes(data)
    subprocess.run(
        ["sh", "-euf", "-c", f"{found[0]}\nclamp_keystore {path}"],
        env={"work": str(folder), "PATH": "/usr/bin:/bin"},
        check=True,
    )
    return path.read_bytes()


def test_times_become_constant(tmp_path: Path) -> None:
    """Entries keep their order and content; the digest over all is right again."""
    assert clamped(tmp_path, keystore((1_700_000_000_001, 1_800_000_000_002))) == keystore((EPOCH, EPOCH))
    assert clamped(tmp_path, keystore((EPOCH, EPOCH))) == keystore((EPOCH, EPOCH))


@pytest.mark.parametrize(
    "data",
    [
        keystore((7,), "another"),
        keystore((7,), tag=1),
        keystore((7,))[:-1],
        b"\x30\x82PKCS12 has another form altogether",
    ],
)
def test_what_is_not_known_stays(tmp_path: Path, data: bytes) -> None:
    """Another password, a private key, a damaged file, another format."""
    assert clamped(tmp_path, data) == data
