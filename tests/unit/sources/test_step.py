"""What a build step leaves is read within limits: a backend is foreign code."""

from __future__ import annotations

import io

import pytest

from envbuild.errors import BuildError
from envbuild.sources import canonical, step
from tests.support.debs import Member, tar_bytes

_WHEEL = "x-1-py3-none-any.whl"


def _left(*members: Member) -> object:
    return step._result(io.BytesIO(tar_bytes(list(members))), "x-1.tar.gz")


def test_a_wheel_or_a_list_of_requirements_is_taken() -> None:
    """Both by their names."""
    assert _left(Member(name=f"out/{_WHEEL}", data=b"w")) == (_WHEEL, b"w")
    assert _left(Member(name="out/requires.json", data=b'["a"]')) == step.Asked(requires=("a",))


@pytest.mark.parametrize("count", [1, 5])
def test_more_than_fits_is_not_read(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file without end, or many of them, would fill the memory before anybody asks whether they are a wheel."""
    monkeypatch.setattr(canonical, "LARGEST", 10_000)
    members = [Member(name=f"out/{number}.whl", data=bytes(12_000 // count)) for number in range(count)]
    with pytest.raises(BuildError, match="left more than"):
        _left(*members)


def test_many_files_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor are as many empty ones as a disk can name."""
    monkeypatch.setattr(step, "_FILES", 20)
    with pytest.raises(BuildError, match="left more than"):
        _left(*(Member(name=f"out/{number}") for number in range(30)))


@pytest.mark.parametrize(
    ("printed", "versioned", "named"),
    [
        ('File "/opt/env/…/puccinialin/_setup_rust.py", line 34\nhttpx.ConnectError: [Errno -3]', False, "crates"),
        ("error: can't find Rust compiler", False, "crates"),
        ("error: failed to get `cc` as a dependency\n  Could not resolve host: index.crates.io", False, "crates"),
        ("urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name resolution>", False, "downloads"),
        ("LookupError: setuptools-scm was unable to detect version", False, "fallback_version"),
        ("LookupError: setuptools-scm was unable to detect version", True, "build-packages: [gcc, python3-dev]"),
        ("error: command 'gcc' failed: No such file or directory", False, "build-packages: [gcc, python3-dev]"),
        ("trusted rusty scargo", False, "build-packages: [gcc, python3-dev]"),
    ],
)
def test_what_a_backend_prints_decides_the_way_out(printed: str, versioned: bool, named: str) -> None:
    """A compiler is no help where Rust is missing or something is downloaded, in a build without network."""
    assert named in step.way_out(printed, versioned=versioned)
