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
