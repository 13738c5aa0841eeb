"""Data that a run has read: what the host digests of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from envbuild.core.digest import sha256_bytes
from envbuild.difference.code import reads
from envbuild.record.processes import ReadFile
from envbuild.runs.observations import FileDigests
from tests.support.records import record


def test_unchanged_small_files_have_digests(tmp_path: Path) -> None:
    """Not those that somebody changed since, that are too large, too many, gone, or not in the project."""
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "secret").write_bytes(b"abc")
    (project / "link").symlink_to(tmp_path / "secret")
    times = {}
    for name in ("a", "b", "c"):
        (project / name).write_bytes(b"abc")
        times[name] = (project / name).stat().st_mtime_ns
    os.utime(project / "b", ns=(1, 1))
    digests = FileDigests(project, largest=3, total=5)
    assert digests("a", 3, times["a"]) == sha256_bytes(b"abc")
    assert digests("b", 3, times["b"]) is None
    assert digests("c", 3, times["c"]) is None
    fresh = FileDigests(project, largest=2, total=5)
    assert fresh("a", 3, times["a"]) is None
    status = (tmp_path / "secret").stat()
    for name in ("link", "../secret", "gone", "nul\0"):
        assert FileDigests(project)(name, 3, status.st_mtime_ns) is None


def test_links_alone_are_followed_level_by_level(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To read what is far below the project took a look at each folder above it, and each of these at all above it."""
    (tmp_path / "data/below").mkdir(parents=True)
    (tmp_path / "data/below/a").write_bytes(b"abc")
    (tmp_path / "folder").symlink_to("data/below")
    (tmp_path / "file").symlink_to("folder/a")
    (tmp_path / "circle").symlink_to("circle")
    changed = (tmp_path / "data/below/a").stat().st_mtime_ns
    digests = FileDigests(tmp_path)
    for name in ("data/below/a", "folder/a", "file", "data/../file", f"{tmp_path}/file"):
        assert digests(name, 3, changed) == sha256_bytes(b"abc")
    for name in ("circle", "circle/a", "", "data", "/nothing"):
        assert digests(name, 3, changed) is None
    monkeypatch.setattr(Path, "resolve", lambda *arguments, **options: pytest.fail("looked at each folder"))
    assert digests("data/below/a", 3, changed) == sha256_bytes(b"abc")
    assert digests("data/none/a", 3, changed) is None


def test_changed_data_is_a_difference() -> None:
    """``params.txt`` that no input declares is named when other bytes were read, or when one run alone read it."""
    before = ReadFile(path="params.txt", size=3, sha256="a" * 64)
    after = ReadFile(path="params.txt", size=3, sha256="b" * 64)
    (finding,) = reads(record(reads=(before,)), record(reads=(after,))).findings
    assert (finding.area, finding.what, finding.weight) == ("reads", "params.txt", 82)
    assert reads(record(reads=(before,)), record(reads=(before,))).findings == ()
    (finding,) = reads(record(), record(reads=(after,))).findings
    assert finding.change == "read only in B"
