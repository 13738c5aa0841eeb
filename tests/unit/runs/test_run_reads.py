"""Data that a run has read: what the host digests of it."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from envbuild.core.digest import sha256_bytes
from envbuild.difference.code import reads
from envbuild.record.process_facts import ProcessFacts
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


def test_mounted_files_have_digests(tmp_path: Path) -> None:
    """By the longest target; not what is gone or changed since, nor what a link in a mounted folder leads to."""
    project, data, secret = tmp_path / "project", tmp_path / "a:b", tmp_path / "secret"
    for folder in (project, data / "deep", tmp_path / "other"):
        folder.mkdir(parents=True)
    for file in (secret, data / "deep" / "x", tmp_path / "other" / "x", project / "x"):
        file.write_text(file.parent.name)
    (data / "link").symlink_to(secret)
    mounts = (
        f"{data}:/data:ro",
        f"{tmp_path}/other:/data/other/:rw",
        f"{secret}:/one.txt:ro",
        f"{data}:/workspace/d:ro",
    )
    digests = FileDigests(project, mounts=mounts)
    places = {
        "/data/deep/x": data / "deep" / "x",
        "/data/other/x": tmp_path / "other" / "x",
        "/one.txt": secret,
        "d/deep/x": data / "deep" / "x",
        "x": project / "x",
        "/workspace/x": project / "x",
    }
    for path, place in places.items():
        status = place.stat()
        assert digests(path, status.st_size, status.st_mtime_ns) == sha256_bytes(place.read_bytes()), path
        assert digests.has_mounted(path, status.st_size, status.st_mtime_ns)
        assert not digests.has_mounted(path, status.st_size, status.st_mtime_ns - 1)
    status = secret.stat()
    for path in (
        "/data/link",
        "/data/gone",
        "/data",
        "/secret",
        str(secret),
        "/data/../secret",
        "/data/deep/../../secret",
    ):
        assert digests(path, status.st_size, status.st_mtime_ns) is None, path
        assert not digests.has_mounted(path, status.st_size, status.st_mtime_ns), path


def test_temporary_files_outside_are_no_data(tmp_path: Path) -> None:
    """Of absolute paths a record lists what was mounted and is still there."""
    mounted = tmp_path / "x.csv"
    mounted.write_text("1")
    status = mounted.stat()
    read = [
        {"path": path, "size": status.st_size, "mtime_ns": status.st_mtime_ns}
        for path in ("/data/x.csv", "/data/tmp8x", "/tmp/y")
    ]
    digests = FileDigests(tmp_path / "project", mounts=(f"{tmp_path}:/data:ro",))
    merged = ProcessFacts()
    merged.add({"reads": read})
    assert merged.result((), digests, digests.has_mounted)["reads"] == (
        ReadFile(path="/data/x.csv", size=1, sha256=sha256_bytes(b"1")),
    )
    assert merged.result((), digests)["reads"] == ()


def test_links_alone_are_followed_level_by_level(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To read what is far below the project took a look at each folder above it, and each of these at all above it."""
    (tmp_path / "data/below").mkdir(parents=True)
    (tmp_path / "data/below/a").write_bytes(b"abc")
    (tmp_path / "folder").symlink_to("data/below")
    (tmp_path / "file").symlink_to("folder/a")
    (tmp_path / "circle").symlink_to("circle")
    changed = (tmp_path / "data/below/a").stat().st_mtime_ns
    digests = FileDigests(tmp_path)
    for name in ("data/below/a", "folder/a", "file", "data/../file"):
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


def test_what_was_read_otherwise_is_compared_where_it_is_known() -> None:
    """Of two runs of ``verify``; of a plain run nobody knows whether it read the file, too."""
    found = ReadFile(path="words.txt", size=3, sha256="a" * 64)
    plain = record()
    copied = record(options=msgspec.structs.replace(plain.options, verification=plain.id))
    read = msgspec.structs.replace(copied, read_otherwise=(found,))
    assert reads(plain, read).findings == ()
    assert reads(read, read).findings == ()
    (finding,) = reads(read, copied).findings
    assert finding.change == "read only in A"
