"""An archive in Ubuntu's layout, of Debian's real packages, since the real one cannot be reached from every machine.

Suites, components, release files and fields are as Ubuntu's documentation has them; the key is made for the test.
Packages named ``zstd`` are packed again as Ubuntu packs all of its own.
"""

from __future__ import annotations

import gzip
import lzma
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

from envbuild.core.digest import sha256_file
from envbuild.image.os.deb import open_deb
from tests.support.archives import SuiteMaker, write

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

KEY = "ubuntu"
ARCHITECTURES = "amd64 arm64 armhf i386 ppc64el riscv64 s390x"
COMPONENTS = ("main", "universe", "restricted", "multiverse")
_MEMBER = 60


def write_ubuntu(
    root: Path,
    codename: str,
    suites: Mapping[str, Mapping[str, list[str]]],
    *,
    archive: str = "ubuntu",
    architecture: str = "amd64",
) -> None:
    """Write the suites of a release below ``root/ubuntu``.

    Args:
        suites: entries of Packages files by component by pocket: empty, ``-updates``, ``-security``.
    """
    for pocket in ("", "-updates", "-security"):
        files: dict[str, bytes] = {}
        for component in COMPONENTS[1:]:
            text = "\n".join(suites.get(pocket, {}).get(component, ())).encode()
            name = f"{component}/binary-{architecture}/Packages"
            files |= {name: text, f"{name}.xz": lzma.compress(text), f"{name}.gz": gzip.compress(text)}
        SuiteMaker(
            archive=archive,
            suite=f"{codename}{pocket}",
            stanzas=suites.get(pocket, {}).get("main", ()),
            files=files,
            architecture=architecture,
            key=KEY,
            fields={
                "Origin": "Ubuntu",
                "Label": "Ubuntu",
                "Suite": f"{codename}{pocket}",
                "Codename": codename,
                "Architectures": ARCHITECTURES,
                "No-Support-for-Architecture-all": "",
                "Components": "main restricted universe multiverse",
            },
        ).write(root)


def pool_entry(
    root: Path, deb: Path, *, component: str = "main", repack: bool = False, archive: str = "ubuntu", **fields: str
) -> str:
    """Put a package into the archive's pool and return its entry in a Packages file.

    Args:
        deb: a package file of Debian.
        repack: compress it with zstd.
        archive: the archive's folder below ``root``.
        fields: further fields of the entry; ``phased_update_percentage`` means Phased-Update-Percentage.
    """
    control = open_deb(deb, deb.name).fields()
    source = control.get("Source", control["Package"]).split()[0]
    name = f"{control['Package']}_{control['Version'].split(':')[-1]}_{control['Architecture']}.deb"
    path = f"pool/{component}/{source[0]}/{source}/{name}"
    made = root / archive / path
    write(made, _with_zstd(deb) if repack else deb.read_bytes())
    kept = {key: value for key, value in control.items() if "\n" not in value and key != "Description"}
    kept |= {"-".join(word.capitalize() for word in key.split("_")): value for key, value in fields.items()}
    kept |= {"Filename": path, "Size": str(made.stat().st_size), "SHA256": sha256_file(made)}
    return "".join(f"{key}: {value}\n" for key, value in kept.items())


def _with_zstd(deb: Path) -> bytes:
    """Return a package whose two archives are compressed with zstd."""
    out = b"!<arch>\n"
    data = deb.read_bytes()
    offset = 8
    while offset < len(data):
        name, size = data[offset : offset + 16].decode().strip().rstrip("/"), int(data[offset + 48 : offset + 58])
        body = data[offset + _MEMBER : offset + _MEMBER + size]
        if name.endswith(".xz"):
            name, body = f"{name[:-3]}.zst", zstd.compress(lzma.decompress(body), 3)
        out += b"%-16b%-12d%-6d%-6d%-8b%-10d`\n" % (name.encode(), 0, 0, 0, b"100644", len(body)) + body
        out += b"\n" * (len(body) % 2)
        offset += _MEMBER + size + size % 2
    return out


def by_component(entries: Mapping[str, str], universe: Collection[str]) -> dict[str, list[str]]:
    """Sort entries, by package name, into components."""
    return {
        "main": [text for name, text in entries.items() if name not in universe],
        "universe": [text for name, text in entries.items() if name in universe],
    }
