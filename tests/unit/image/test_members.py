"""Members of a tar that is read once."""

from __future__ import annotations

import io
import tarfile

import pytest

from envbuild.image.tar.members import read_members


@pytest.mark.parametrize("mode", ["r|", "r:"])
@pytest.mark.parametrize("names", [[], ["a", "b"]])
def test_each_member_is_read_and_none_is_kept(mode: str, names: list[str]) -> None:
    """A tar of nothing too, as an empty layer is one: Python 3.10.13 and Debian 12's 3.11.2 failed with it."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name in names:
            archive.addfile(tarfile.TarInfo(name))
    stream.seek(0)
    with tarfile.open(fileobj=stream, mode=mode) as archive:  # type: ignore[call-overload]
        assert [member.name for member in read_members(archive)] == names
        assert len(vars(archive)["members"]) <= 1
