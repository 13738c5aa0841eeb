"""Sizes and digests that an index did not give; the network's part is tested with the integration tests."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from envbuild.core.progress import Silent
from envbuild.errors import IntegrityError
from envbuild.net.config import NetworkConfig
from envbuild.resolve.python.sizes import complete
from envbuild.resolve.python.wheels import Candidate


def _local(path: Path, sha256: str = "") -> Candidate:
    return Candidate(package="a", version="1", file=path.name, location=str(path), sha256=sha256)


def test_a_local_wheel_is_measured_and_hashed(tmp_path: Path) -> None:
    """A folder has no index: size and digest are those of the file itself, and that is reported."""
    wheel = tmp_path / "a-1-py3-none-any.whl"
    wheel.write_bytes(b"12345")
    (found,), notes = complete([_local(wheel)], tmp_path / "cache", NetworkConfig(), Silent())
    assert (found.size, found.sha256) == (5, hashlib.sha256(b"12345").hexdigest())
    assert notes == [f"{tmp_path} gives no SHA-256 for a-1-py3-none-any.whl: downloaded and hashed it"]


def test_what_is_known_is_not_asked_again(tmp_path: Path) -> None:
    """Sizes come from the index, the earlier lock or the cache, and then nothing is opened."""
    remote = Candidate(package="a", version="1", file="a.whl", location="https://x.invalid/a.whl", sha256="1" * 64)
    (found,), _ = complete([remote], tmp_path, NetworkConfig(), Silent(), {"1" * 64: 77})
    assert found.size == 77
    wheel = tmp_path / "b-1-py3-none-any.whl"
    wheel.write_bytes(b"123")
    complete([_local(wheel, "2" * 64)], tmp_path, NetworkConfig(), Silent())
    wheel.unlink()
    (found,), notes = complete([_local(wheel, "2" * 64)], tmp_path, NetworkConfig(), Silent())
    assert (found.size, notes) == (3, [])


@pytest.mark.parametrize("kept", [b"", b"[]", b'{"x": 1}', b'{"%s": "big"}' % (b"3" * 64), b"\xff"])
def test_a_damaged_cache_is_no_cache(tmp_path: Path, kept: bytes) -> None:
    """Anything odd in the cache is ignored and replaced."""
    (tmp_path / "wheel-sizes.json").write_bytes(kept)
    wheel = tmp_path / "c-1-py3-none-any.whl"
    wheel.write_bytes(b"1234")
    (found,), _ = complete([_local(wheel, "3" * 64)], tmp_path, NetworkConfig(), Silent())
    assert found.size == 4
    assert (tmp_path / "wheel-sizes.json").read_bytes() == b'{"%s":4}' % (b"3" * 64)


def test_a_wheel_that_is_gone_is_named(tmp_path: Path) -> None:
    """A local wheel that vanished is an integrity error with its path."""
    with pytest.raises(IntegrityError) as caught:
        complete([_local(tmp_path / "gone.whl", "4" * 64)], tmp_path, NetworkConfig(), Silent())
    assert caught.value.message == f"cannot read the wheel {tmp_path}/gone.whl: No such file or directory"
