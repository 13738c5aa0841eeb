"""The files that a run found in its project."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from envbuild.operations.run_context import Side, gather_context
from envbuild.record import history, listing
from envbuild.runs.workspace import scan
from tests.support.records import A, B, record


def kept(project: Path, identity: str) -> None:
    """Keep the listing of a project as it is now."""
    history.run_folder(project, identity).mkdir(parents=True, exist_ok=True)
    listing.keep(project, identity, scan(project))


def test_what_changed_between_two_runs_is_described(tmp_path: Path) -> None:
    """Size, permissions, time; of a new folder itself alone; names in any encoding."""
    for name in ("same", "grown", "moded", "again", "gone", "od\udcffd"):
        (tmp_path / name).write_text(name, errors="surrogateescape")
    kept(tmp_path, A)
    (tmp_path / "grown").write_text("grown more")
    (tmp_path / "moded").chmod(0o755)
    (tmp_path / "again").write_text("AGAIN")
    (tmp_path / "gone").unlink()
    (tmp_path / "new" / "deep").mkdir(parents=True)
    (tmp_path / "new" / "deep" / "file").write_text("")
    kept(tmp_path, B)
    sides = (Side(record=record(A), project=tmp_path), Side(record=record(B), project=tmp_path))
    assert gather_context(*sides).files == {
        "again": "written again, of the same size",
        "gone": "only in A",
        "grown": "5 → 10 bytes",
        "moded": "mode 644 → 755",
        "new/": "only in B",
    }


def test_a_listing_that_is_not_there_or_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then nothing is known; a large project's is not kept."""
    sides = (Side(record=record(A), project=tmp_path), Side(record=record(B), project=tmp_path))
    assert gather_context(*sides).files is None
    kept(tmp_path, A)
    kept(tmp_path, B)
    assert gather_context(*sides).files == {}
    deep = b'[["a",1,2,3,' + b"[" * 100_000
    texts = (b"[[1]]", b"[", b'[["\xff",1,2,3]]', deep)
    for data in (b"", b"[1]", *map(zlib.compress, texts), zlib.compress(b"[]")[:-5]):
        (history.run_folder(tmp_path, B) / "files").write_bytes(data)
        assert gather_context(*sides).files is None or zlib.decompressobj().decompress(data) == b"[]"
    monkeypatch.setattr(listing, "MOST", 0)
    (tmp_path / "one").write_text("")
    (history.run_folder(tmp_path, A) / "files").unlink()
    kept(tmp_path, A)
    assert listing.kept(tmp_path, A) is None
