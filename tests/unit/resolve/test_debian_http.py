from __future__ import annotations

from pathlib import Path

import pytest

from envbuild.errors import IntegrityError
from envbuild.resolve.debian.http import Reply, get


def test_a_local_archive_is_read_from_its_files(tmp_path: Path) -> None:
    """file: addresses work, escaped characters included; an absent file is a 404."""
    (tmp_path / "a+b c").write_bytes(b"data")
    assert get(f"file://{tmp_path}/a+b%20c", limit=4) == Reply(status=200, data=b"data")
    assert get(f"file://{tmp_path}/none", limit=4) == Reply(status=404)


def test_more_than_was_promised_is_refused(tmp_path: Path) -> None:
    """A file longer than InRelease reports is not even read to its end."""
    (tmp_path / "a").write_bytes(b"12345")
    with pytest.raises(IntegrityError) as caught:
        get(f"file://{tmp_path}/a", limit=4)
    assert caught.value.message == f"file://{tmp_path}/a: expected at most 4 bytes, found more"


def test_what_cannot_be_read_is_reported(tmp_path: Path) -> None:
    """A folder where a file should be is an error that reports it."""
    with pytest.raises(IntegrityError) as caught:
        get(f"file://{tmp_path}", limit=4)
    assert caught.value.message == f"file://{tmp_path}: expected a readable file, found: not a regular file"
