"""Wheels built from source: their canonical form, and the build system that an archive names."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from envbuild.errors import BuildError
from envbuild.sources import archive, canonical
from tests.support.sources import make_sdist

INFO = "a-1.dist-info"
FILES = {"a.py": b"x = 1\n", f"{INFO}/METADATA": b"Name: a\n", f"{INFO}/RECORD": b""}


def _wheel(
    files: dict[str, bytes], *, year: int = 2020, mode: int = 0o644, packed: int = zipfile.ZIP_DEFLATED
) -> bytes:
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w", packed) as made:
        for name, data in files.items():
            info = zipfile.ZipInfo(name, (year, 1, 1, 0, 0, 0))
            info.external_attr = mode << 16
            info.compress_type = packed
            made.writestr(info, data)
    return output.getvalue()


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (_wheel(FILES, year=2021), ["times of files"]),
        (_wheel(dict(reversed(FILES.items()))), ["order of files"]),
        (_wheel(FILES, packed=zipfile.ZIP_STORED), ["compression"]),
        (_wheel(FILES, mode=0o600), ["modes of files"]),
    ],
)
def test_what_has_no_meaning_is_made_equal_and_named(other: bytes, named: list[str]) -> None:
    """Times, order, compression and private modes do not reach a canonical wheel."""
    one, two = canonical.read(_wheel(FILES), "a"), canonical.read(other, "a")
    assert canonical.differences(one, two) == []
    assert canonical.normalised(one, two) == named
    assert canonical.canonical(one) == canonical.canonical(two)


def test_what_has_a_meaning_is_a_difference() -> None:
    """Other content, a further file, another right to execute: each is named; the record follows from the rest."""
    one = canonical.read(_wheel(FILES), "a")
    assert canonical.differences(one, canonical.read(_wheel({**FILES, "a.py": b"x = 2\n"}), "a")) == ["a.py"]
    assert canonical.differences(one, canonical.read(_wheel({**FILES, "b.py": b""}), "a")) == ["b.py"]
    assert canonical.differences(one, canonical.read(_wheel({**FILES, f"{INFO}/RECORD": b"-"}), "a")) == []
    executable = canonical.read(_wheel(FILES, mode=0o755), "a")
    assert set(canonical.differences(one, executable)) == {"a.py", f"{INFO}/METADATA"}


def test_a_canonical_wheel_is_one(tmp_path: Path) -> None:
    """Its record lists each file with its digest and size, and canonical bytes stay as they are."""
    data = canonical.canonical(canonical.read(_wheel(FILES), "a"))
    assert canonical.canonical(canonical.read(data, "a")) == data
    with zipfile.ZipFile(io.BytesIO(data)) as made:
        assert made.namelist() == [f"{INFO}/METADATA", "a.py", f"{INFO}/RECORD"]
        assert made.read(f"{INFO}/RECORD").decode().splitlines()[1] == (
            "a.py,sha256=nia_NpkRxFwkPGhBR7I_yeHc_PJX0pmhxjIBam_NM_Q,6"
        )


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", _wheel(FILES)[:-30], _wheel({"a.py": b""})])
def test_what_is_no_wheel_is_refused(data: bytes) -> None:
    """A backend may leave anything: a damaged archive, one without a record."""
    with pytest.raises(BuildError):
        canonical.canonical(canonical.read(data, "a"))


def test_the_build_system_is_read_and_not_run(tmp_path: Path) -> None:
    """What pyproject.toml names, or what PEP 517 has for projects that name none."""
    made = make_sdist(tmp_path, "plain", "1.0", before="raise SystemExit\n")
    assert archive.build_system(made, made.name) == archive.BuildSystem(requires=(), backend="own", path=(".",))
    bare = tmp_path / "bare-1.0.tar.gz"
    with tarfile.open(bare, "w:gz") as tar:
        tar.addfile(tarfile.TarInfo("bare-1.0/setup.py"))
    assert archive.build_system(bare, bare.name).backend == "setuptools.build_meta:__legacy__"


@pytest.mark.parametrize("text", ["[build-system]\nrequires = 1\n", "[build-system]\n", "=", "\x00"])
def test_an_unsound_archive_is_refused(tmp_path: Path, text: str) -> None:
    """A table without requirements, no TOML, and what is no archive."""
    path = tmp_path / "odd-1.0.zip"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("odd-1.0/pyproject.toml", text)
    with pytest.raises(BuildError, match=r"odd-1\.0\.zip"):
        archive.build_system(path, path.name)
    path.write_bytes(b"nothing")
    with pytest.raises(BuildError, match=r"odd-1\.0\.zip"):
        archive.build_system(path, path.name)
